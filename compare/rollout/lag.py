"""Shift: a log-prob stands at its neighbour's place, or is of a token that was looked up one place off."""

import numpy as np

from .case import Array, Case, Finding, correlation
from .kinds import two_kinds
from .standard import LAGS, NEARER_BY


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
    size = len(g)
    if size <= abs(lag):
        return float("inf"), 0.0, 0
    a = slice(max(0, -lag), size - max(0, lag))
    b = slice(max(0, lag), size - max(0, -lag))
    inside = sample[a] == sample[b]
    x, y = g[a][inside], r[b][inside]
    return (float(np.abs(x - y).mean()), correlation(x, y), len(x)) if len(x) else (float("inf"), 0.0, 0)


def by_label(case: Case) -> list[Finding]:
    """Is recomputed worse than knowing only how frequent tokens are, though as varied as a trained model's?

    So it is where the log-prob was looked up in the distribution of another place: a model is then sure of something
    else. Weights that were never trained give nearly the same for every token.
    """
    g, r = case.aligned.generated, case.aligned.recomputed
    if two_kinds(case) is not None:
        return []  # a lookup that is a place off is so in every sample
    mean, far = float(case.gaps.mean()), correlation(g, r)
    if mean < 0.5 or far > (0.5 if mean > 1 else 0.35) or float(r.std()) < 0.8 * float(g.std()):
        return []
    says = (
        f"recomputed is {float(r.mean()):.2f} on average where generated is {float(g.mean()):.2f}, nearly unrelated "
        f"to it (correlation {far:.3f}) and of spread {float(r.std()):.2f}"
    )
    strength = 0.55
    frequencies = _of_frequencies(case.aligned.ids)
    if frequencies is not None:
        if float(r.mean()) > frequencies:
            return []
        says += f"; knowing only how frequent each token is gives {frequencies:.2f}"
        strength = 0.75
    says += ": the log-probs are looked up at another place than the tokens"
    if case.aligned.ids is not None and case.aligned.other_ids is not None:  # they agree, or that would be the cause
        return [Finding("shift", strength, says)]
    says += ", or all ids mean other tokens; the token ids of both sides would tell"
    return [Finding("shift", strength, says), Finding("tokens", strength - 0.1, says)]


def _of_frequencies(ids: Array | None) -> float | None:
    """Mean log-prob of the tokens by their own frequencies; None where there are too few to tell."""
    if ids is None:
        return None
    _, counts = np.unique(ids, return_counts=True)
    if len(ids) < 10 * len(counts):
        return None
    share = counts / len(ids)
    return float((share * np.log(share)).sum())
