"""Numerics: values on the grid of a 16-bit format, gaps of the size of rounding. Weights: gaps beyond, or growing."""

import numpy as np

from .case import Array, Case, Finding, rank_correlation
from .coherence import coherence
from .kinds import is_of_steps, two_kinds
from .standard import (
    CLEAN,
    NUMERIC,
    NUMERIC_16_BIT,
    PROBABILITIES_APART,
    SCATTER,
    Rounding,
)


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
