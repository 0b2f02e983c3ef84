"""How far the two log-probs of each token are apart: over all, by position in the response, by sample. Never judges.

The gap of a token is `generated - recomputed`, in float64. With x = recomputed - generated of tokens that generation
sampled, the estimators of KL(generation || training) are those of J. Schulman, "Approximating KL divergence" (2020):

| k1 | mean of -x | without bias, of great variance |
| k2 | mean of x^2 / 2 | of small variance, biased where the two are far apart |
| k3 | mean of exp(x) - 1 - x | without bias and never negative |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .align import Aligned

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
