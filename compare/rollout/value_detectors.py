"""Detectors of causes in the values: rounding, other weights, other sampling settings.

Sampling settings: one side's log-probs are those of the sampled distribution, the other's those of the raw logits.

Temperature. With b = 1/T, log q = b log p - log sum p^b. All other tokens together have 1 - p; their p^b add up to at
most (b > 1) or at least (b < 1) (1 - p)^b, so that

    log(q / (1 - q)) >= b log(p / (1 - p))    for b > 1, and <= for b < 1:

every token with p > 1/2 becomes more certain for b > 1 and less certain for b < 1, without exception. Weights that
differ increase some and decrease others. If no token is certain (a model that has learned little), entropies are
similar and the gap is nearly linear in log p.

Top-k, top-p, min-p. q = p / kept for kept tokens: every gap is -log(kept) >= 0, and with top-p at most -log(top_p). For
two distributions over all tokens the mean of p / q over samples of q is 1, so that there must be gaps of both signs.

Repetition penalty. Tokens that occurred before lose, all others gain.
"""

import numpy as np

from .case import CLEAN, NUMERIC, SCATTER, Case, Suspect, correlation, rank_correlation, separation

PROBABILITIES_APART = 0.01
"""Mean difference of probabilities that verl treats as a fault."""

TEMPERATURE_FROM = 0.02
"""Minimum of abs(1/T - 1). Users do not set less, and another eps scales logits by less than that."""

_SURE = float(np.log(0.5))
_ALWAYS = 0.985


def by_size(case: Case) -> list[Suspect]:
    """Return suspects if the gaps are as small as those of rounding, and one side is rounded."""
    grids, total = case.grids, case.overall
    text = f"mean absolute gap {total.mean_absolute:.3g}, largest {total.max_absolute:.3g}, k3 {total.k3:.3g}"
    if not case.is_within(case.rounding):
        return [
            Suspect("numerics", 0.35, f"{name} contains only values of {grid}; {text} exceed its rounding")
            for name, grid in [*grids.items()][:1]
        ]
    text += f", mean difference of probabilities {total.probability_gap:.2g} (verl requires less than 0.005)"
    strength = 0.9 if grids else 0.75 if total.mean_absolute < 5e-3 else 0.65
    found = case.coherence
    if found is not None and total.mean_absolute > 1e-3 and found.is_one_way:
        text += f"; whole tokens or samples shift in one direction ({found}), as after an update of the weights"
        return [Suspect("weights", 0.78, text), Suspect("numerics", min(strength, 0.75), text)]
    if grids:
        named = " and ".join(f"{name} contains only values of {grid}" for name, grid in grids.items())
        return [Suspect("numerics", strength, f"{named}: {text}")]
    size = (
        "an intermediate rounding to 16 bits, or another eps" if total.mean_absolute > 1e-3 else "another eps or kernel"
    )
    return [Suspect("numerics", strength, f"{text}: of the size of {size}"), Suspect("weights", 0.9 - strength, text)]


def by_scatter(case: Case) -> list[Suspect]:
    """Return suspects for gaps beyond the usual rounding that are not systematic for tokens or samples: a large eps,
    quantized weights."""
    total, found = case.overall, case.coherence
    if case.is_within(NUMERIC) or total.mean_absolute > SCATTER.mean or total.k3 > SCATTER.kl:
        return []
    if found is None or not found.is_no_way:
        return []
    text = (
        f"mean absolute gap {total.mean_absolute:.3g}, more than rounding to 16 bits explains, but no token or "
        f"sample shifts in one direction ({found}), as after an update of the weights: a large eps, or quantized "
        "weights"
    )
    return [Suspect("numerics", 0.67, text)]


def by_steps(case: Case) -> list[Suspect]:
    """Return suspects if the gaps grow from step to step."""
    steps = case.whole.steps
    if steps is None:
        return []
    numbers = np.unique(steps)
    weight, size = case.whole.lengths, np.nan_to_num(case.samples.mean_absolute)
    means = np.array([np.average(size[steps == step], weights=weight[steps == step] + 1e-12) for step in numbers])
    if len(numbers) < 2 or means[-1] < 3 * means[0] or means[-1] <= CLEAN.mean:
        return []
    if len(numbers) > 2 and rank_correlation(numbers.astype(float), means) < 0.8:
        return []
    text = (
        f"the mean absolute gap grows from {means[0]:.3g} in step {numbers[0]} to {means[-1]:.3g} in step "
        f"{numbers[-1]}, as if generation does not receive the new weights"
    )
    return [Suspect("weights", 0.9, text)]


def by_weights(case: Case) -> list[Suspect]:
    """Return suspects for two different models over the same tokens: correlated, with gaps of both signs, and
    consistent k1 and k2."""
    total = case.overall
    if case.is_within(NUMERIC):
        return []
    if case.two_kinds is not None and not case.kinds_are_steps:
        return []  # weights that differ affect all
    error = total.spread / np.sqrt(total.tokens)
    text = (
        f"gaps of both signs at all positions, mean {total.mean:+.3g}, mean absolute {total.mean_absolute:.3g}; "
        f"correlation {total.correlation:.4f}, slope {total.slope:.3f}"
    )
    if total.probability_gap > PROBABILITIES_APART:
        text += (
            f"; probabilities differ by {total.probability_gap:.3g} on average, more than the "
            f"{PROBABILITIES_APART} that numerics explain"
        )
    if total.correlation > 0.5 and 0.5 < total.slope < 2:
        if abs(total.k1 - total.k2) <= 4 * error + total.k2:
            text += (
                f"; k1 {total.k1:.3g} (± {error:.2g}) matches k2 {total.k2:.3g}, as for samples of one model "
                "evaluated by another"
            )
            if total.mean_absolute <= SCATTER.mean and case.ids is None:
                text += "; 8-bit weights or a large eps cause similar gaps; give token ids to distinguish"
            return [Suspect("weights", 0.65, text)]
        return [Suspect("weights", 0.5, text)]
    g, r = case.aligned.generated, case.aligned.recomputed
    if total.mean > 0 and float(r.std()) < 0.5 * float(g.std()):
        text += (
            f"; recomputed is nearly constant (spread {float(r.std()):.3g}), as with weights that were never "
            "trained or loaded"
        )
        return [Suspect("weights", 0.6, text)]
    return [Suspect("weights", 0.4, text)]


def by_settings(case: Case) -> list[Suspect]:
    """Return suspects for temperature, top-k or top-p, or a penalty, by the form of the gaps."""
    size = case.overall.mean_absolute
    found = _cut(case) if size > 10 * CLEAN.mean else []
    return found or ((_sure(case) or _linear(case) or _cut_and_noise(case) or _penalty(case)) if size > 1e-3 else [])


def _cut(case: Case) -> list[Suspect]:
    """Return suspects for gaps of one sign."""
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
        text = (
            f"{name} is at or above {other} for {float((one_way >= -noise).mean()):.2%} of the tokens, by "
            f"{size:.3g} on average: probabilities over all tokens cannot all increase, but those of a kept "
            f"subset can (on average {float(kept.mean()):.3f} of it was kept, at least "
            f"{float(np.exp(-np.quantile(one_way, 0.999))):.3f}): top-k, top-p or min-p on one side"
        )
        return [Suspect("sampling settings", 0.9, text)]
    return []


def _cut_and_noise(case: Case) -> list[Suspect]:
    """Return suspects for gaps that are mostly of one sign, with the noise of 16 bits.

    If the mean of p / q = exp(-gap) is 1 and no gap is beyond 1, the mean gap is that of exp(-gap) - 1 + gap, which is
    at most 0.72 gap^2 for gaps below 0 and 0.37 gap^2 above: small compared with the mean absolute gap, not most of it.
    """
    gaps, total = case.gaps, case.overall
    if total.mean < max(NUMERIC.mean, 0.6 * total.mean_absolute) or float(np.quantile(np.abs(gaps), 0.999)) > 1:
        return []
    kept = np.exp(-gaps)
    error = float(kept.std()) / np.sqrt(len(kept))
    if len(gaps) < 30 or 1 - float(kept.mean()) < 5 * error:
        return []
    text = (
        f"generated is above recomputed by {total.mean:.3g} on average, nearly the mean absolute gap; the ratio "
        "of the probabilities, which is 1 on average for two distributions over all tokens, is "
        f"{float(kept.mean()):.3f} (± {error:.2g}): top-k, top-p or min-p in generated, and rounding"
    )
    return [Suspect("sampling settings", 0.8, text)]


def _sure(case: Case) -> list[Suspect]:
    """Return suspects if tokens that both sides consider likelier than not are all more, or all less certain."""
    g, r = case.aligned.generated, case.aligned.recomputed
    chosen = (g > _SURE) & (r > _SURE) & (np.minimum(g, r) < -1e-3) & (np.maximum(g, r) < -1e-9)
    if chosen.sum() < 30:
        return []
    x, y = (p - np.log(-np.expm1(p)) for p in (r[chosen], g[chosen]))  # log-odds
    chosen = (x > 0.1) & (y > 0.1)  # next to 1/2 the odds are not evidence
    if chosen.sum() < 30:
        return []
    ratio = y[chosen] / x[chosen]
    up = float((ratio > 1).mean())
    if max(up, 1 - up) < _ALWAYS:
        return []
    # b is the boundary of the ratios; a hundredth may be rounding.
    b = float(np.quantile(ratio, 0.01 if up > 0.5 else 0.99))
    if abs(b - 1) < TEMPERATURE_FROM:
        return []
    text = (
        f"{max(up, 1 - up):.1%} of {int(chosen.sum())} tokens with a probability above 1/2 are "
        f"{('more' if up > 0.5 else 'less')} probable in generated, their log-odds by "
        f"{('at least' if up > 0.5 else 'at most')} {b:.3g} times: logits divided by a temperature between "
        f"{1 / b:.3g} and 1 there and not in recomputed"
    )
    return [Suspect("sampling settings", 0.88, text)]


def _linear(case: Case) -> list[Suspect]:
    """Return suspects if the gap is a linear function of the log-prob."""
    g, r = case.aligned.generated, case.aligned.recomputed
    if len(g) < 50 or float(r.std()) < 0.05 or float(g.std()) < 0.05:
        return []
    rho = correlation(case.gaps, r)
    b = 1 + rho * float(case.gaps.std()) / float(r.std())
    if rho**2 < 0.7 or abs(b - 1) < TEMPERATURE_FROM or not 0.1 < b < 10 or correlation(g, r) < 0.8:
        return []
    text = (
        f"the gap is linear in the log-prob ({rho**2:.1%} of its variance), with slope {b - 1:+.3g}: logits "
        f"divided by a temperature of about {1 / b:.3g} in generated and not in recomputed"
    )
    return [Suspect("sampling settings", 0.7 + 0.15 * (rho**2 - 0.7) / 0.3, text)]


def _penalty(case: Case) -> list[Suspect]:
    """Return suspects if tokens that occurred in the response before have other gaps than new ones."""
    ids = case.ids
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
    text = (
        f"tokens that occurred earlier in the response have a median gap of {middles[0]:+.3g}, new tokens of "
        f"{middles[1]:+.3g}, and {max(at, 1 - at):.1%} of such pairs are in this order: a repetition penalty on "
        "one side"
    )
    return [Suspect("sampling settings", 0.72, text)]
