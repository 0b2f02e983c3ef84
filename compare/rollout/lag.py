"""Shift: a log-prob stands at its neighbour's place, or is of a token that was looked up one place off."""

from dataclasses import dataclass

import numpy as np

from .case import Array, Case, Finding, correlation
from .kinds import two_kinds
from .lengths import is_end_token
from .standard import AGREES, BEYOND, BEYOND_BY_CHANCE, EQUAL, LAGS, NEARER_BY, NUMERIC

_ALIKE = 0.9
"""Correlation beyond which the two are of the same places."""

_MORE = _SAME = 0.05
"""Rounding to 16 bits: a sum of probabilities is beyond 1 by more, and log-probs of one token are nearer."""

_MOST = 100_000
"""Tokens that are enough to tell labels by."""

_SURE = -1e-2
"""Log-probs above that are equal to many others."""


def by_lag(case: Case) -> list[Finding]:
    """Is recomputed nearer to generated at another lag than 0?"""
    g, r, sample = case.aligned.generated, case.aligned.recomputed, case.sample_of
    apart = {lag: _apart(g, r, sample, lag) for lag in (0, *LAGS)}
    told = {lag: pair for lag, pair in apart.items() if pair[2] >= max(8, len(g) // 10)}
    if 0 not in told or len(told) < 2:
        return []
    best = min(told, key=lambda lag: told[lag][0])
    if best == 0 or told[best][0] > NEARER_BY * told[0][0]:
        return []
    (near, alike, _), (far, unlike, _) = told[best], told[0]
    says = (
        f"moved by {best:+d}, recomputed is {near:.3g} from generated on average (correlation {alike:.3f}); as it "
        f"stands {far:.3g} (correlation {unlike:.3f})"
    )
    return [Finding("shift", 0.98, says)]


def _apart(g: Array, r: Array, sample: Array, lag: int) -> tuple[float, float, int]:
    """Mean absolute difference of g[t] and r[t + lag] inside samples, their correlation, and how many there are."""
    y, x = _pairs(r, sample, lag, g)
    return (float(np.abs(x - y).mean()), correlation(x, y), len(x)) if len(x) else (float("inf"), 0.0, 0)


def _pairs(later: Array, sample: Array, lag: int, *values: Array) -> list[Array]:
    """later[t + lag], and values[t] of each, for all t where both places are of one sample."""
    size = len(later)
    if size <= abs(lag):
        return [later[:0], *(one[:0] for one in values)]
    a = slice(max(0, -lag), size - max(0, lag))
    b = slice(max(0, lag), size - max(0, -lag))
    inside = sample[a] == sample[b]
    return [later[b][inside], *(one[a][inside] for one in values)]


def by_label(case: Case) -> list[Finding]:
    """Was the log-prob looked up in the distribution of a place k later?

    Then `exp(recomputed[t])` and `exp(generated[t + k])` are of two tokens of one distribution and add up to at most 1,
    but where both are one token, and there the two log-probs are equal. Of unrelated places neither is so: how often
    they are equal, or beyond 1, by chance is known by pairing each place with all others.
    """
    if case.overall.mean_absolute <= NUMERIC.mean or case.overall.correlation > _ALIKE or two_kinds(case) is not None:
        return []  # a lookup that is a place off is so in every sample
    if (case.whole.sizes[0] != case.whole.sizes[1]).any() and not is_end_token(*case.whole.sizes):
        return []  # tokens that one side leaves out in the middle move what is behind them
    at = {lag: _label(case, lag) for lag in LAGS}
    lag, found = max(at.items(), key=lambda item: item[1].equal)
    if found.equal >= EQUAL and found.equal >= 10 * found.equal_by_chance:
        says = (
            f"in {found.equal} places where the sides are apart, recomputed is what generated is {lag:+d} place on (by "
            f"chance in {found.equal_by_chance:.1f}), as where one token stands in both places and recomputed looks it "
            "up in the distribution of the other"
        )
        return [Finding("shift", 0.9, says)]
    told = {lag: found for lag, found in at.items() if found.beyond_by_chance >= BEYOND_BY_CHANCE}
    for lag, found in told.items():
        if found.beyond <= BEYOND * found.beyond_by_chance:
            says = (
                f"the probability in recomputed and that in generated {lag:+d} place on add up to more than 1 in "
                f"{found.beyond} places (by chance in {found.beyond_by_chance:.0f}): they are of one distribution, in "
                "which recomputed looks up the token of another place"
            )
            return [Finding("shift", 0.9, says)]
    return _unrelated(case, may_be_shift=not told)


@dataclass(frozen=True)
class _Label:
    """At one lag: places where both are equal, places where they add up to more than 1, and how many by chance."""

    equal: int
    equal_by_chance: float
    beyond: int
    beyond_by_chance: float


def _label(case: Case, lag: int) -> _Label:
    values = case.aligned.generated, case.sample_of, case.aligned.recomputed, case.gaps
    g, sample, r, gap = (one[:_MOST] for one in values)
    moved, r, gap = _pairs(g, sample, lag, r, gap)
    if not len(r):
        return _Label(0, 0.0, 0, 0.0)
    in_order = np.sort(moved)

    def by_chance(low: Array, high: Array | float) -> float:
        counts = np.searchsorted(in_order, high, side="right") - np.searchsorted(in_order, low)
        return float(np.maximum(counts, 0).sum()) / len(in_order)

    room = np.log(np.maximum(1 + _MORE - np.exp(r), 1e-300))
    is_beyond = (moved > room) & (np.abs(moved - r) > _SAME)
    beyond_by_chance = by_chance(room, np.inf) - by_chance(np.maximum(room, r - _SAME), r + _SAME)
    kept = (r < _SURE) & (np.abs(gap) > AGREES)  # sure tokens are equal anyway, and so is what agrees in a loop
    told = r[kept]
    equal = np.abs(moved[kept] - told) <= AGREES
    return _Label(int(equal.sum()), by_chance(told - AGREES, told + AGREES), int(is_beyond.sum()), beyond_by_chance)


def _unrelated(case: Case, *, may_be_shift: bool) -> list[Finding]:
    """What is to be said, and not more, where the sides have hardly anything in common."""
    g, r = case.aligned.generated, case.aligned.recomputed
    mean, alike = float(case.gaps.mean()), correlation(g, r)
    if mean < 0.5 or alike > 0.5 or float(r.std()) < 0.8 * float(g.std()):
        return []
    says = (
        f"recomputed is {float(r.mean()):.3g} on average where generated is {float(g.mean()):.3g}, nearly unrelated to "
        f"it (correlation {alike:.3f}), as of other weights"
    )
    if case.aligned.ids is None or case.aligned.other_ids is None:  # were both given, they would agree here
        says += " or other token ids; the token ids of both sides would tell"
        found = [Finding("tokens", 0.4, says)]
    else:
        found = []
    if may_be_shift:
        found.append(Finding("shift", 0.4, f"{says}; in so few tokens labels that are a place off look so too"))
    return found
