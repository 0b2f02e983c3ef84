"""What every detector receives and returns, and the distances of the two log-probs of each token.

How far the two log-probs of each token are apart: over all, by position in the response, by sample. Never judges.

The gap of a token is `generated - recomputed`, in float64. With x = recomputed - generated of tokens that generation
sampled, the estimators of KL(generation || training) are those of J. Schulman, "Approximating KL divergence" (2020):

| k1 | mean of -x | without bias, of great variance |
| k2 | mean of x^2 / 2 | of small variance, biased where the two are far apart |
| k3 | mean of exp(x) - 1 - x | without bias and never negative |
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from .alignment import Aligned

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Overall:
    """Over all tokens.

    `correlation`, and `slope` (least squares of recomputed on generated), are NaN where one side is constant.

    `probability_gap` is the mean of abs(exp(generated) - exp(recomputed)).
    """

    tokens: int
    samples: int
    mean: float
    mean_absolute: float
    max_absolute: float
    spread: float
    k1: float
    k2: float
    k3: float
    correlation: float
    slope: float
    probability_gap: float


@dataclass(frozen=True, eq=False)
class ByPosition:
    """By place in the response, from 0 on: how many samples reach it, mean gap, mean and greatest absolute gap."""

    count: Array
    mean: Array
    mean_absolute: Array
    max_absolute: Array


@dataclass(frozen=True, eq=False)
class BySample:
    """By sample, in the order of the pairs; `worst` is the position of the greatest absolute gap.

    A sample without a token has NaN and -1.
    """

    mean: Array
    mean_absolute: Array
    max_absolute: Array
    worst: Array


def overall(aligned: Aligned, gaps: Array) -> Overall:
    """The numbers over all tokens; `gaps` are those of `aligned`, all finite and at least one."""
    g, r = aligned.generated, aligned.recomputed
    absolute = np.abs(gaps)
    mean, size = float(gaps.mean()), len(gaps)
    gm, rm = g - g.mean(), r - r.mean()
    gg, rr, gr = float(gm @ gm), float(rm @ rm), float(gm @ rm)
    # What a rounded mean leaves of a constant is no spread.
    is_constant = [spread <= size * (1e-12 * float(np.abs(side).max())) ** 2 for spread, side in ((gg, g), (rr, r))]
    with np.errstate(over="ignore"):  # of log-probs hundreds apart: k3 is then infinite, which it says
        k3 = float(np.mean(np.expm1(-gaps) + gaps))
    return Overall(
        tokens=size,
        samples=aligned.count,
        mean=mean,
        mean_absolute=float(absolute.mean()),
        max_absolute=float(absolute.max()),
        spread=float(gaps.std()),
        k1=mean,
        k2=float(gaps @ gaps) / size / 2,
        k3=max(k3, 0.0),
        correlation=float("nan") if any(is_constant) else gr / float(np.sqrt(gg * rr)),
        slope=float("nan") if is_constant[0] else gr / gg,
        probability_gap=float(np.abs(np.exp(g) - np.exp(r)).mean()),
    )


def by_position(aligned: Aligned, gaps: Array) -> ByPosition:
    """The gaps gathered by position, in one walk over the samples."""
    longest = int(aligned.lengths.max(initial=0))
    count, total, absolute, greatest = np.zeros(longest, np.int64), *(np.zeros(longest) for _ in range(3))
    for a, b in _ranges(aligned):
        part = gaps[a:b]
        size = np.abs(part)
        count[: b - a] += 1
        total[: b - a] += part
        absolute[: b - a] += size
        np.maximum(greatest[: b - a], size, out=greatest[: b - a])
    return ByPosition(count, total / count, absolute / count, greatest)


def by_sample(aligned: Aligned, gaps: Array) -> BySample:
    """The gaps gathered by sample."""
    mean, absolute, greatest = (np.full(aligned.count, np.nan) for _ in range(3))
    worst = np.full(aligned.count, -1, np.int64)
    for at, (a, b) in enumerate(_ranges(aligned)):
        if a == b:
            continue
        part = gaps[a:b]
        size = np.abs(part)
        place = int(size.argmax())
        mean[at], absolute[at], greatest[at], worst[at] = part.mean(), size.mean(), size[place], place
    return BySample(mean, absolute, greatest, worst)


def _ranges(aligned: Aligned) -> list[tuple[int, int]]:
    return list(zip(aligned.begins[:-1].tolist(), aligned.begins[1:].tolist(), strict=True))


Cause = Literal["none", "numerics", "weights", "sampling settings", "shift", "mask", "tokens", "truncation", "unclear"]
CAUSES: tuple[Cause, ...] = get_args(Cause)

MOST = 1_000_000
"""Tokens that are looked at for a cause; of more, samples at even distances are taken. Measures are of all."""


@dataclass(frozen=True)
class Finding:
    """One reason to take a cause for the right one.

    `strength`: 0.9 and more where hardly anything else leaves this trace, around 0.6 where it is the likelier of two.
    """

    cause: Cause
    strength: float
    says: str


@dataclass(frozen=True, eq=False)
class Case:
    """Aligned tokens and their gaps, some samples of them at least; `overall` and `samples` are of all."""

    whole: Aligned
    overall: Overall
    samples: BySample
    aligned: Aligned
    gaps: Array

    @property
    def sample_of(self) -> Array:
        """The number of the sample, among those that are looked at, of each token."""
        return np.repeat(np.arange(self.aligned.count, dtype=np.int32), self.aligned.lengths)

    @property
    def position(self) -> Array:
        """The position in its response of each token."""
        lengths = self.aligned.lengths
        position: Array = np.arange(len(self.gaps)) - np.repeat(self.aligned.begins[:-1], lengths)
        return position


def case_of(aligned: Aligned, gaps: Array, overall: Overall, samples: BySample) -> Case:
    """The case with at most about MOST tokens."""
    every = -(-len(gaps) // MOST)
    if every <= 1:
        return Case(aligned, overall, samples, aligned, gaps)
    few = np.zeros(aligned.count, bool)
    few[::every] = True
    part, kept = chosen(aligned, few)
    return Case(aligned, overall, samples, part, gaps[kept])


def chosen(aligned: Aligned, samples: Array) -> tuple[Aligned, Array]:
    """The samples where the mask `samples` is true, and the mask of their tokens."""
    kept = np.repeat(samples, aligned.lengths)

    def some(values: Array | None, which: Array) -> Array | None:
        return None if values is None else values[which]

    part = replace(
        aligned,
        generated=aligned.generated[kept],
        recomputed=aligned.recomputed[kept],
        begins=np.concatenate(([0], np.cumsum(aligned.lengths[samples]))),
        sample=aligned.sample[samples],
        other_sample=aligned.other_sample[samples],
        sizes=(aligned.sizes[0][samples], aligned.sizes[1][samples]),
        ids=some(aligned.ids, kept),
        other_ids=some(aligned.other_ids, kept),
        prompts=some(aligned.prompts, samples),
        steps=some(aligned.steps, samples),
    )
    return part, kept


def correlation(a: Array, b: Array) -> float:
    """Pearson's, 0.0 where one side is constant or there are fewer than three."""
    if len(a) < 3:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 1e-300 else 0.0


def ranks(values: Array) -> Array:
    """Ranks from 0 on, equal values having their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    found: Array = (first + (counts - 1) / 2)[inverse]
    return found


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's."""
    return correlation(ranks(a), ranks(b))


def separation(values: Array, is_one: Array) -> float:
    """How often a value of one kind is above one of the other (ties half): 1.0 where always, 0.5 where unrelated."""
    ones, others = int(is_one.sum()), int((~is_one).sum())
    if not ones or not others:
        return 0.5
    return float((ranks(values)[is_one].sum() - ones * (ones - 1) / 2) / (ones * others))
