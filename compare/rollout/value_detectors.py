"""Detectors of causes in the values: rounding, other weights, other sampling settings.

Do the gaps of one token, or of one sample, go one way? Training moves whole tokens; rounding and eps do not.

An update of the weights makes a token likelier or less likely nearly wherever it stands, and the samples it was made
from by their advantage. What rounds, or scales by another eps, has another sign at every place. The measure is the
intraclass correlation: the mean product of the gaps of two places of one kind, over their variance; 0 where unrelated.

Sampling settings: one side's log-probs are of what was sampled from, the other's of the raw logits.

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

from dataclasses import dataclass

import numpy as np

from .detector import Array, Case, Finding, correlation, rank_correlation, separation
from .mask_detectors import is_of_steps, two_kinds
from .side import (
    CLEAN,
    NO_WAY,
    NO_WAY_SAMPLE,
    NUMERIC,
    NUMERIC_16_BIT,
    ONE_WAY,
    ONE_WAY_SAMPLE,
    PROBABILITIES_APART,
    SCATTER,
    TEMPERATURE_FROM,
    Rounding,
)

_FEWEST = 300  # tokens; of fewer the measure is chance


@dataclass(frozen=True)
class Coherence:
    """Of tokens (None without ids) and of samples."""

    token: float | None
    sample: float

    @property
    def is_one_way(self) -> bool:
        """Whether whole tokens, or whole samples, move together."""
        return (self.token or 0) > ONE_WAY or self.sample > ONE_WAY_SAMPLE

    @property
    def is_no_way(self) -> bool:
        """Whether neither does, so far as the ids tell, without which that is not known."""
        return self.token is not None and self.token <= NO_WAY and self.sample <= NO_WAY_SAMPLE

    def __str__(self) -> str:
        token = "" if self.token is None else f"of one token id {self.token:.2f}, "
        return f"correlation of two gaps {token}of one sample {self.sample:.2f}"


def coherence(case: Case) -> Coherence | None:
    """Both measures; None where there are too few tokens."""
    if len(case.gaps) < _FEWEST:
        return None
    low, high = np.quantile(case.gaps, (0.01, 0.99))  # a few great gaps would say it all
    gaps = np.clip(case.gaps, low, high)
    ids = case.aligned.ids if case.aligned.ids is not None else case.aligned.other_ids
    return Coherence(None if ids is None else _within(gaps, ids), _within(gaps, case.sample_of))


def _within(gaps: Array, kind: Array) -> float:
    gaps = gaps - gaps.mean()
    _, number, times = np.unique(kind, return_inverse=True, return_counts=True)
    pairs = float((times * (times - 1.0)).sum())
    variance = float(gaps @ gaps) / len(gaps)
    if not pairs or variance < 1e-300:
        return 0.0
    products = np.bincount(number, gaps) ** 2 - np.bincount(number, gaps**2)
    return float(products.sum()) / pairs / variance


def is_within(case: Case, limit: Rounding) -> bool:
    """Whether all of a comparison is rounding of that size."""
    all_of_it = case.overall
    return (
        all_of_it.mean_absolute <= limit.mean and all_of_it.max_absolute <= limit.greatest and all_of_it.k3 <= limit.kl
    )


def is_clean(case: Case) -> bool:
    """Whether nobody needs to care."""
    return is_within(case, CLEAN)


def is_usual_rounding(case: Case) -> bool:
    """Whether it is of a size that people train with: a warning, not an error."""
    is_16_bit = any(map(grid_of, (case.aligned.generated, case.aligned.recomputed)))
    return is_within(case, NUMERIC_16_BIT if is_16_bit else NUMERIC)


def grid_of(values: Array) -> str:
    """`bfloat16` or `float16` where (nearly) all values are representable there, else nothing."""
    values = values[(values != 0) & (values > -60000)][:20000].astype(np.float32)
    if len(values) < 8 or len(np.unique(values)) < 4:
        return ""
    if ((values.view(np.uint32) & 0xFFFF) == 0).mean() > 0.99:
        return "bfloat16"
    return "float16" if (values.astype(np.float16).astype(np.float32) == values).mean() > 0.99 else ""


def by_size(case: Case) -> list[Finding]:
    """Are the gaps as small as rounding makes them, and is one side rounded?"""
    sides = (("generated", case.aligned.generated), ("recomputed", case.aligned.recomputed))
    grids = [(name, grid) for name, values in sides if (grid := grid_of(values))]
    told = case.overall
    limit = NUMERIC_16_BIT if grids else NUMERIC
    says = f"mean absolute gap {told.mean_absolute:.3g}, greatest {told.max_absolute:.3g}, k3 {told.k3:.3g}"
    if not is_within(case, limit):
        if grids:
            name, grid = grids[0]
            return [Finding("numerics", 0.35, f"{name} holds only values of {grid}; {says} are more than its rounding")]
        return []
    says += f", mean difference of probabilities {told.probability_gap:.2g} (verl asks for less than 0.005)"
    strength = 0.9 if grids else 0.75 if told.mean_absolute < 5e-3 else 0.65
    found = coherence(case)
    if found is not None and told.mean_absolute > 1e-3 and found.is_one_way:
        says += f"; whole tokens or samples move one way ({found}), as an update of the weights makes them"
        return [Finding("weights", 0.78, says), Finding("numerics", min(strength, 0.75), says)]
    if grids:
        named = " and ".join(f"{name} holds only values that {grid} has" for name, grid in grids)
        return [Finding("numerics", strength, f"{named}: {says}")]
    size = "rounding to 16 bits on the way, or another eps" if told.mean_absolute > 1e-3 else "another eps or kernel"
    return [Finding("numerics", strength, f"{says}: of the size of {size}"), Finding("weights", 0.9 - strength, says)]


def by_scatter(case: Case) -> list[Finding]:
    """Gaps beyond the usual rounding that push no token and no sample one way: a great eps, quantised weights."""
    told, found = case.overall, coherence(case)
    if is_within(case, NUMERIC) or told.mean_absolute > SCATTER.mean or told.k3 > SCATTER.kl:
        return []
    if found is None or not found.is_no_way:
        return []
    says = (
        f"mean absolute gap {told.mean_absolute:.3g}, more than rounding to 16 bits makes, but no token and no sample "
        f"moves one way ({found}), as an update of the weights makes them: a great eps, or quantised weights"
    )
    return [Finding("numerics", 0.67, says)]


def by_steps(case: Case) -> list[Finding]:
    """Do the gaps grow from step to step?"""
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
    says = (
        f"the mean absolute gap grows from {means[0]:.3g} in step {numbers[0]} to {means[-1]:.3g} in step "
        f"{numbers[-1]}, as where generation is not given the new weights"
    )
    return [Finding("weights", 0.9, says)]


def by_weights(case: Case) -> list[Finding]:
    """Two models over the same tokens that are not the same: alike, of both signs, with k1 as k2 says."""
    told = case.overall
    if is_within(case, NUMERIC):
        return []
    if (differs := two_kinds(case)) is not None and not is_of_steps(case, differs):
        return []  # weights that differ, differ for all
    error = told.spread / np.sqrt(told.tokens)
    says = (
        f"gaps of both signs at all positions, mean {told.mean:+.3g}, mean absolute {told.mean_absolute:.3g}; "
        f"correlation {told.correlation:.4f}, slope {told.slope:.3f}"
    )
    if told.probability_gap > PROBABILITIES_APART:
        says += (
            f"; probabilities differ by {told.probability_gap:.3g} on average, beyond the {PROBABILITIES_APART} that "
            "numerics make"
        )
    if told.correlation > 0.5 and 0.5 < told.slope < 2:
        if abs(told.k1 - told.k2) <= 4 * error + told.k2:
            says += (
                f"; k1 {told.k1:.3g} (give or take {error:.2g}) fits k2 {told.k2:.3g}, as of samples of one model "
                "under another"
            )
            if told.mean_absolute <= SCATTER.mean and case.aligned.ids is None and case.aligned.other_ids is None:
                says += "; weights of 8 bits or a great eps leave such gaps too, which token ids would tell"
            return [Finding("weights", 0.65, says)]
        return [Finding("weights", 0.5, says)]
    g, r = case.aligned.generated, case.aligned.recomputed
    if told.mean > 0 and float(r.std()) < 0.5 * float(g.std()):
        says += (
            f"; recomputed is nearly one value (spread {float(r.std()):.3g}), as of weights that were never trained "
            "or loaded"
        )
        return [Finding("weights", 0.6, says)]
    return [Finding("weights", 0.4, says)]


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
