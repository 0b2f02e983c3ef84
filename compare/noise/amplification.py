"""Does noise explain by how much the statistics of an output differ? Judged by those of the inputs, among its kin.

Errors of n elements that are independent move the norm and the mean of a tensor by their relative size over sqrt(n),
and its extremes by the error of one element. So an output's norm and mean may differ by about

    inputs' own differences + (inputs' element error + u) / sqrt(n)

and its extremes by the inputs' element error + u. u is what the kernel adds: the low quantile of what its kin differ
by, since none of them adds more than it shows. What a call amplifies beyond (a softmax of large scores, a difference of
near numbers) all its kin do as well: the same operation, direction and output.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from .summary import Apart

LIMIT = 10.0
"""So many times what is explained no clean output was apart, of kinds that do not amplify."""

_QUARTILES = 4.0
"""The limit of a kind that amplifies, in upper quartiles of its kin."""

MOST = 50.0
"""Beyond so many times no kind amplifies noise; measured: up to 21, a softmax of masked scores."""

_LOW = 0.2
"""The quantile of its kin's element errors that is taken for a kernel's own."""

_FEW = 16
"""Tensors of fewer elements tell no element error: their statistics agree by chance."""

_ROUNDING = 2.0
"""A kernel's own error, in units of its output's dtype, at least."""

_ROUNDING_ACROSS = 10.0
"""The same of products of two frameworks, which add up in other orders."""

_APPROXIMATED = 50.0
"""The same of functions for which two frameworks have approximations of their own."""

ACROSS = _APPROXIMATED * 2.0**-23
"""The greatest own error of a kernel in float32 of another framework."""

COARSEST = 6e-3
"""The greatest own error of a kernel that rounds to bfloat16 inside; as in `precision.LOWEST`."""

FINE = 1e-5
"""The greatest own error of a kernel that computes in float32 throughout; as in `precision.FULL`."""


@dataclass(frozen=True, slots=True)
class Change:
    """How one pair of outputs differs. `inputs` are the greatest differences of norm or mean, and `spread` the greatest
    element error, of what it was computed from. `rounds_inside`: a product or convolution, which may round inside.
    `is_constant`: all its elements are one number. `is_exact`: every kernel computes the function to the same bit."""

    kind: Hashable
    output: Apart
    inputs: float
    spread: float
    unit: float
    rounds_inside: bool = False
    is_constant: bool = False
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Amplified:
    """By how many times its `explained` difference an output differs, and up to how many that is noise.

    `apart` and `explained` are of that statistic for which the ratio is greatest.
    """

    ratio: float
    limit: float
    apart: float
    explained: float
    own: float

    @property
    def is_wrong(self) -> bool:
        """Whether noise does not explain it."""
        return self.ratio > self.limit


def amplified(changes: Sequence[Change], *, is_across: bool = False) -> list[Amplified]:
    """Judge every pair of outputs among its kin; `is_across`: the two sides are of two frameworks."""
    kin: dict[Hashable, list[int]] = defaultdict(list)
    for n, change in enumerate(changes):
        kin[change.kind].append(n)
    found: list[Amplified | None] = [None] * len(changes)
    for numbers in kin.values():
        mine = [changes[n] for n in numbers]
        own = own_error(mine, _rounding(mine[0], is_across=is_across))
        measured = [_measured(change, own) for change in mine]
        ratios = sorted(one.ratio for one in measured)
        for n, one in zip(numbers, measured, strict=True):
            others = _QUARTILES * _quartile(ratios, one.ratio)
            found[n] = Amplified(one.ratio, min(max(LIMIT, others), MOST), one.apart, one.explained, one.own)
    return [one for one in found if one is not None]


def _rounding(change: Change, *, is_across: bool) -> float:
    if not is_across or change.is_exact:
        return _ROUNDING
    return _ROUNDING_ACROSS if change.rounds_inside else _APPROXIMATED


def own_error(kin: Sequence[Change], rounding: float = _ROUNDING) -> float:
    """The element error that the kernels of a kind add; at least the rounding of the output."""
    if not kin:
        return 0.0
    least = rounding * max(change.unit for change in kin)
    shown = sorted(c.output.spread for c in kin if c.output.size >= _FEW and not c.is_constant)
    if not shown or not kin[0].rounds_inside:
        return least
    return min(max(least, shown[int(_LOW * (len(shown) - 1))]), max(COARSEST, least))


def _measured(change: Change, own: float) -> Amplified:
    """The ratio of the statistic that is furthest beyond what is explained."""
    element = change.spread + own
    moments = change.inputs + element / math.sqrt(change.output.size)
    return max(
        (
            Amplified(found / explained if found else 0.0, LIMIT, found, explained, own)
            for found, explained in ((change.output.moments, moments), (change.output.extremes, element))
        ),
        key=lambda one: one.ratio,
    )


def _quartile(ratios: Sequence[float], own: float) -> float:
    """The upper quartile of the other ratios; 0 where there are none."""
    others = list(ratios)
    others.remove(own)
    return others[(3 * (len(others) - 1) + 3) // 4] if others else 0.0
