"""Sampling settings: one side's log-probs are of what was sampled from, the other's of the raw logits.

Temperature. With b = 1/T, log q = b log p - log sum p^b. All other tokens together hold 1 - p; their p^b add up to no
more (b > 1) or no less (b < 1) than (1 - p)^b, so that

    log(q / (1 - q)) >= b log(p / (1 - p))    for b > 1, and <= for b < 1:

every token of p > 1/2 becomes surer for b > 1 and less sure for b < 1, without exception. Weights that differ move some
up and some down. Where no token is sure (a model that has learned little), entropies are alike and the gap is nearly
linear in log p.

Top-k, top-p, min-p. q = p / kept for what is kept: every gap is -log(kept) >= 0, and with top-p at most -log(top_p). Of
two distributions over all tokens the mean of p / q over samples of q is 1, so that gaps of both signs must be there.

Repetition penalty. Tokens that were there before lose, all others gain.
"""

import numpy as np

from .case import Array, Case, Finding, correlation, separation
from .standard import CLEAN, NUMERIC, TEMPERATURE_FROM

_SURE = float(np.log(0.5))
_ALWAYS = 0.985


def by_settings(case: Case) -> list[Finding]:
    """What of the three the gaps look like."""
    size = case.overall.mean_absolute
    found = _cut(case) if size > 10 * CLEAN.mean else []
    return found or ((_temperature(case) or _cut_and_noise(case) or _penalty(case)) if size > 1e-3 else [])


def _cut(case: Case) -> list[Finding]:
    """Gaps of one sign."""
    gaps, size = case.gaps, case.overall.mean_absolute
    noise = max(1e-5, 0.02 * size)
    for sign, name, other in ((1, "generated", "recomputed"), (-1, "recomputed", "generated")):
        one_way = sign * gaps
        if (one_way >= -noise).mean() < _ALWAYS or len(gaps) < 30 or sign * case.overall.mean < 0.8 * size:
            continue
        kept = np.exp(-one_way)
        error = float(kept.std()) / np.sqrt(len(kept))
        if 1 - float(kept.mean()) < 5 * error or float(np.quantile(one_way, 0.999)) > 4:
            continue
        says = (
            f"{name} is at or above {other} for {float((one_way >= -noise).mean()):.2%} of the tokens, by {size:.3g} "
            "on average: probabilities over all tokens cannot all rise, those of a part that was kept do (on average "
            f"{float(kept.mean()):.3f} of it was kept, at least {float(np.exp(-np.quantile(one_way, 0.999))):.3f}): "
            "top-k, top-p or min-p on one side"
        )
        return [Finding("sampling settings", 0.9, says)]
    return []


def _cut_and_noise(case: Case) -> list[Finding]:
    """Gaps that are mostly of one sign, through the noise of 16 bits.

    Where the mean of p / q = exp(-gap) is 1 and no gap is beyond 1, the mean gap is that of exp(-gap) - 1 + gap, which
    is at most 0.72 gap^2 for gaps below 0 and 0.37 gap^2 above: small against the mean absolute gap, not most of it.
    """
    gaps, told = case.gaps, case.overall
    if told.mean < max(NUMERIC.mean, 0.6 * told.mean_absolute) or float(np.quantile(np.abs(gaps), 0.999)) > 1:
        return []
    kept = np.exp(-gaps)
    error = float(kept.std()) / np.sqrt(len(kept))
    if len(gaps) < 30 or 1 - float(kept.mean()) < 5 * error:
        return []
    says = (
        f"generated is above recomputed by {told.mean:.3g} on average, nearly the mean absolute gap; the ratio of the "
        "probabilities, which is 1 on average of two distributions over all tokens, is "
        f"{float(kept.mean()):.3f} (give or take {error:.2g}): top-k, top-p or min-p in generated, and rounding"
    )
    return [Finding("sampling settings", 0.8, says)]


def _temperature(case: Case) -> list[Finding]:
    g, r = case.aligned.generated, case.aligned.recomputed
    return _sure(case, g, r) or _linear(case, g, r)


def _sure(case: Case, g: Array, r: Array) -> list[Finding]:
    """Tokens that both sides take for likelier than not: all surer, or all less sure?"""
    chosen = (g > _SURE) & (r > _SURE) & (np.minimum(g, r) < -1e-3) & (np.maximum(g, r) < -1e-9)
    if chosen.sum() < 30:
        return []
    x, y = _odds(r[chosen]), _odds(g[chosen])
    chosen = (x > 0.1) & (y > 0.1)  # beside 1/2 the odds tell nothing
    if chosen.sum() < 30:
        return []
    ratio = y[chosen] / x[chosen]
    up = float((ratio > 1).mean())
    if max(up, 1 - up) < _ALWAYS:
        return []
    # b is the edge that the ratios lean on; a hundredth may be rounding.
    b = float(np.quantile(ratio, 0.01 if up > 0.5 else 0.99))
    if abs(b - 1) < TEMPERATURE_FROM:
        return []
    says = (
        f"{max(up, 1 - up):.1%} of {int(chosen.sum())} tokens that are likelier than 1/2 are "
        f"{'surer' if up > 0.5 else 'less sure'} in generated, their log-odds by "
        f"{'at least' if up > 0.5 else 'at most'} {b:.3g} times: logits divided by a temperature between {1 / b:.3g} "
        "and 1 there and not in recomputed"
    )
    return [Finding("sampling settings", 0.88, says)]


def _odds(log_prob: Array) -> Array:
    odds: Array = log_prob - np.log(-np.expm1(log_prob))
    return odds


def _linear(case: Case, g: Array, r: Array) -> list[Finding]:
    """Is the gap a straight line in the log-prob?"""
    if len(g) < 50 or float(r.std()) < 0.05 or float(g.std()) < 0.05:
        return []
    rho = correlation(case.gaps, r)
    b = 1 + rho * float(case.gaps.std()) / float(r.std())
    if rho**2 < 0.7 or abs(b - 1) < TEMPERATURE_FROM or not 0.1 < b < 10 or correlation(g, r) < 0.8:
        return []
    says = (
        f"the gap is a straight line in the log-prob ({rho**2:.1%} of its variance), of slope {b - 1:+.3g}: logits "
        f"divided by a temperature of about {1 / b:.3g} in generated and not in recomputed"
    )
    return [Finding("sampling settings", 0.7 + 0.15 * (rho**2 - 0.7) / 0.3, says)]


def _penalty(case: Case) -> list[Finding]:
    """Do tokens that were in the response before have other gaps than new ones?"""
    ids = case.aligned.ids if case.aligned.ids is not None else case.aligned.other_ids
    if ids is None:
        return []
    order = np.lexsort((np.arange(len(ids)), ids, case.sample_of))
    same = (np.diff(ids[order]) == 0) & (np.diff(case.sample_of[order]) == 0)
    again = np.zeros(len(ids), bool)
    again[order[1:]] = same
    if min(again.sum(), (~again).sum()) < 30:
        return []
    at = separation(case.gaps, again)
    middles = float(np.median(case.gaps[again])), float(np.median(case.gaps[~again]))
    if max(at, 1 - at) < 0.75 or middles[0] * middles[1] >= 0:
        return []
    says = (
        f"tokens that were in the response before have a median gap of {middles[0]:+.3g}, new ones of "
        f"{middles[1]:+.3g}, and {max(at, 1 - at):.1%} of such pairs are in that order: a penalty of repetition on "
        "one side"
    )
    return [Finding("sampling settings", 0.72, says)]
