"""Detectors of causes in the tokens: other ids, other lengths, log-probs shifted by a position."""

from dataclasses import dataclass

import numpy as np

from .case import AGREES, NUMERIC, NUMERIC_16_BIT, Array, Case, Suspect, correlation, is_end_token

LAGS = (-3, -2, -1, 1, 2, 3)
NEARER_BY = 0.5
"""At the lag of a shift, the mean absolute gap is at most this part of that at lag 0. Unrelated values do not
improve."""

BEYOND, BEYOND_BY_CHANCE = 0.1, 10.0
"""Labels shifted by a position: two probabilities of one distribution add up to more than 1 in at most this part of the
positions at which unrelated ones do. The second is the minimum number of those: one or none instead of ten is chance
once in 2,000 times."""

EQUAL = 5
"""The same for positions that are exactly equal at a lag: their minimum number; and at least ten times as many as by
chance."""

_ALIKE = 0.9
"""Correlation of two sides that begin at one position, even with other weights."""

_MORE = _SAME = 0.05
"""Rounding to 16 bits: a sum of probabilities exceeds 1 by more, and log-probs of one token are closer."""

_MAX_TOKENS = 100_000
"""Number of tokens that are sufficient to distinguish labels."""

_SURE = -1e-2
"""Greater log-probs are equal to many others."""


def by_ids(case: Case) -> list[Suspect]:
    """Return suspects if both sides have token ids that disagree, or agree at a lag."""
    aligned = case.aligned
    if aligned.ids is None or aligned.other_ids is None:
        return []
    differs = aligned.ids != aligned.other_ids
    count = int(differs.sum())
    if not count:
        return []
    share = count / len(differs)
    sample = case.sample_of
    lagged = {}
    for lag in LAGS:
        others, ids = _pairs(aligned.other_ids, sample, lag, aligned.ids)
        lagged[lag] = float((ids == others).mean()) if len(ids) else 0.0
    best = max(lagged, key=lambda lag: lagged[lag])
    if share > 0.3 and lagged[best] > 0.9:
        text = (
            f"the token ids agree in {lagged[best]:.1%} of all positions when recomputed is shifted by {best:+d}, "
            f"and in {1 - share:.1%} without a shift"
        )
        return [Suspect("shift", 1.0, text)]
    first = int(differs.argmax())
    at = int(sample[first])
    place = first - int(aligned.starts[at])
    pairs, times = np.unique(np.stack((aligned.ids, aligned.other_ids), 1)[differs], axis=0, return_counts=True)
    often = int(times.argmax())
    text = (
        f"{count} of {len(differs)} token ids differ, first in sample {aligned.sample[at]} at position {place} "
        f"({aligned.ids[first]} generated, {aligned.other_ids[first]} recomputed); most often {pairs[often][0]} "
        f"became {pairs[often][1]}, {times[often]} times"
    )
    return [Suspect("tokens", 1.0, text)]


def by_lengths(case: Case) -> list[Suspect]:
    """Return suspects if one side has more response tokens than the other, by more than one end token."""
    one, other = case.whole.sizes
    if (one == other).all() or is_end_token(case.whole.sizes):
        return []
    found = []
    for name, sizes, longer, others in (
        ("recomputed", other, "generated", one),
        ("generated", one, "recomputed", other),
    ):
        is_cut = sizes < others
        if not is_cut.any():
            continue
        more, cut, cap = others - sizes, int(is_cut.sum()), int(sizes[is_cut].max())
        if np.ptp(others) == 0 and np.ptp(sizes) > 0 and len(sizes) > 2:
            text = (
                f"{longer} has {others[0]} response tokens in every sample, {name} between {sizes.min()} and "
                f"{sizes.max()}: the mask of {longer} also contains padding"
            )
            found.append(Suspect("mask", 0.97, text))
            continue
        if case.whole.prompts is not None and (more == case.whole.prompts).all() and np.ptp(more):
            text = (
                f"the additional response tokens of {longer} equal the prompt tokens in number: its mask also "
                "contains the prompt"
            )
            found.append(Suspect("mask", 0.97, text))
            continue
        text = f"{name} has fewer response tokens than {longer} in {cut} of {len(sizes)} samples"
        at_cap = int((sizes[is_cut] == cap).sum())
        if at_cap >= max(2, cut // 2) or cut == 1:
            text += f", and stops at {cap} tokens in {at_cap} of those (up to {int(others[is_cut].max())} in {longer})"
        else:
            text += f", by {int(more[is_cut].min())} to {int(more[is_cut].max())} tokens"
        if case.is_within(NUMERIC_16_BIT) or case.overall.correlation > _ALIKE:
            found.append(Suspect("truncation", 0.97, text))
            continue
        text += (
            ", and the common tokens differ: a mask that excludes other tokens, such as tool outputs, has the "
            "same effect"
        )
        found += [Suspect("truncation", 0.45, text), Suspect("mask", 0.45, text)]
    return found


def by_zeros(case: Case) -> list[Suspect]:
    """Return suspects for log-probs that are exactly 0 on one side and not close to it on the other: positions that
    were not computed.

    Top-p that keeps a single token gives such zeros as well; all other gaps then have one sign.
    """
    aligned, found = case.aligned, []
    sides = (
        ("generated", aligned.generated, aligned.recomputed),
        ("recomputed", aligned.recomputed, aligned.generated),
    )
    for name, values, others in sides:
        empty = (values == 0) & (others < -0.05)
        count = int(empty.sum())
        if count < 3 or count < 0.005 * len(empty):
            continue
        sample, zeros = case.sample_of, values == 0
        is_near = others >= -0.05
        if is_near[zeros].mean() > 0.2 + (is_near[~zeros].mean() if not zeros.all() else 0):
            # zeros of a model that is certain of its token, at positions at which the other side is certain too
            continue
        after = np.zeros(aligned.count, np.int64)
        np.maximum.at(after, sample[empty], aligned.lengths[sample[empty]] - case.position[empty])
        in_tail = after[sample] >= aligned.lengths[sample] - case.position
        text = f"{name} is exactly 0 for {count} of {len(empty)} tokens where the other side is not"
        if zeros[in_tail].all():
            found.append(
                Suspect("truncation", 0.96, f"{text}, always at the end of a response: it was truncated earlier")
            )
        elif not zeros.all() and float(np.median(np.abs(case.gaps[~zeros]))) < 1e-3:
            found.append(Suspect("mask", 0.8, f"{text}, and all others agree: these were masked, or never filled"))
    return found


def by_lag(case: Case) -> list[Suspect]:
    """Return suspects if recomputed is closer to generated at another lag than 0."""
    g, r, sample = case.aligned.generated, case.aligned.recomputed, case.sample_of
    apart = {}  # by lag: mean absolute difference of g[t] and r[t + lag], their correlation, and their number
    for lag in (0, *LAGS):
        y, x = _pairs(r, sample, lag, g)
        apart[lag] = (float(np.abs(x - y).mean()), correlation(x, y), len(x)) if len(x) else (float("inf"), 0.0, 0)
    entry = {lag: pair for lag, pair in apart.items() if pair[2] >= max(8, len(g) // 10)}
    if 0 not in entry or len(entry) < 2:
        return []
    best = min(entry, key=lambda lag: entry[lag][0])
    if best == 0 or entry[best][0] > NEARER_BY * entry[0][0]:
        return []
    (near, alike, _), (far, unlike, _) = entry[best], entry[0]
    text = (
        f"shifted by {best:+d}, recomputed differs from generated by {near:.3g} on average (correlation "
        f"{alike:.3f}); without a shift by {far:.3g} (correlation {unlike:.3f})"
    )
    return [Suspect("shift", 0.98, text)]


def _pairs(later: Array, sample: Array, lag: int, *values: Array) -> list[Array]:
    """Return later[t + lag], and values[t] of each, for all t for which both positions are in one sample."""
    size = len(later)
    if size <= abs(lag):
        return [later[:0], *(one[:0] for one in values)]
    a = slice(max(0, -lag), size - max(0, lag))
    b = slice(max(0, lag), size - max(0, -lag))
    inside = sample[a] == sample[b]
    return [later[b][inside], *(one[a][inside] for one in values)]


def by_label(case: Case) -> list[Suspect]:
    """Return suspects if the log-prob was looked up in the distribution of a position k later.

    Then `exp(recomputed[t])` and `exp(generated[t + k])` are of two tokens of one distribution and add up to at most 1,
    unless both are one token, and then the two log-probs are equal. Neither is true of unrelated positions: how often
    they are equal, or beyond 1, by chance is measured by pairing each position with all others.
    """
    if case.overall.mean_absolute <= NUMERIC.mean or case.overall.correlation > _ALIKE or case.two_kinds is not None:
        return []  # a shifted lookup is the same in every sample
    if (case.whole.sizes[0] != case.whole.sizes[1]).any() and not is_end_token(case.whole.sizes):
        return []  # tokens that one side leaves out in the middle shift later ones
    at = {lag: _label(case, lag) for lag in LAGS}
    lag, found = max(at.items(), key=lambda item: item[1].equal)
    if found.equal >= EQUAL and found.equal >= 10 * found.equal_by_chance:
        text = (
            f"in {found.equal} differing positions, recomputed equals generated at offset {lag:+d} (by chance in "
            f"{found.equal_by_chance:.1f}), as if the same token is at both positions and recomputed reads the "
            "distribution of the other position"
        )
        return [Suspect("shift", 0.9, text)]
    entry = {lag: found for lag, found in at.items() if found.beyond_by_chance >= BEYOND_BY_CHANCE}
    for lag, found in entry.items():
        if found.beyond <= BEYOND * found.beyond_by_chance:
            text = (
                f"the probability in recomputed and that in generated at offset {lag:+d} add up to more than 1 in "
                f"{found.beyond} positions (by chance in {found.beyond_by_chance:.0f}): recomputed reads the "
                "token of another position"
            )
            return [Suspect("shift", 0.9, text)]
    return _unrelated(case, may_be_shift=not entry)


@dataclass(frozen=True)
class _Label:
    """At one lag: positions at which both are equal, at which they add up to more than 1, and their numbers by
    chance."""

    equal: int
    equal_by_chance: float
    beyond: int
    beyond_by_chance: float


def _label(case: Case, lag: int) -> _Label:
    values = case.aligned.generated, case.sample_of, case.aligned.recomputed, case.gaps
    g, sample, r, gap = (one[:_MAX_TOKENS] for one in values)
    moved, r, gap = _pairs(g, sample, lag, r, gap)
    if not len(r):
        return _Label(0, 0.0, 0, 0.0)
    in_order = np.sort(moved)

    def by_chance(low: Array, high: Array | float) -> float:
        counts = np.searchsorted(in_order, high, side="right") - np.searchsorted(in_order, low)
        return float(np.maximum(counts, 0).sum()) / len(in_order)

    margin = np.log(np.maximum(1 + _MORE - np.exp(r), 1e-300))
    is_beyond = (moved > margin) & (np.abs(moved - r) > _SAME)
    beyond_by_chance = by_chance(margin, np.inf) - by_chance(np.maximum(margin, r - _SAME), r + _SAME)
    kept = (r < _SURE) & (np.abs(gap) > AGREES)  # certain tokens are equal anyway, and so are repetitions in a loop
    known = r[kept]
    equal = np.abs(moved[kept] - known) <= AGREES
    return _Label(int(equal.sum()), by_chance(known - AGREES, known + AGREES), int(is_beyond.sum()), beyond_by_chance)


def _unrelated(case: Case, *, may_be_shift: bool) -> list[Suspect]:
    """Return weak candidates if the sides are nearly unrelated and no lag explains it."""
    g, r = case.aligned.generated, case.aligned.recomputed
    mean, alike = float(case.gaps.mean()), correlation(g, r)
    if mean < 0.5 or alike > 0.5 or float(r.std()) < 0.8 * float(g.std()):
        return []
    text = (
        f"recomputed is {float(r.mean()):.3g} on average where generated is {float(g.mean()):.3g}, nearly "
        f"unrelated to it (correlation {alike:.3f}), as with other weights"
    )
    found = []
    if not case.has_both_ids:  # if both were known, they would agree here
        text += " or other token ids; give the token ids of both sides to distinguish"
        found = [Suspect("tokens", 0.4, text)]
    if may_be_shift:
        found.append(Suspect("shift", 0.4, f"{text}; with so few tokens, labels shifted by one position look the same"))
    return found
