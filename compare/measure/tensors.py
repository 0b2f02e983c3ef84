"""Measures between two tensors. Measuring never judges: `judge` decides whether a number is good.

Arithmetic is in float64 for any dtype; only relative errors of floats of 32 bits and less are computed in float32, as
msprobe 8.1 does, so that the sheet has its digits. Tensors are read once, block by block (`block.py` measures one), so
a measure needs a few blocks of memory for a tensor in memory or in a file. Blocks do not depend on where they are
measured, and their sums are combined with one rounding, so a measure does not depend on the number of workers.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import NAMES, NUMBERS, Statistic, merge
from msprobe.base.statistic import is_bfloat16, statistic, widen
from msprobe.compare.core.measures import FloatFormat, Measures, coarsest
from msprobe.compare.core.standard import Standard
from msprobe.store.record import Statistics, statistics_from
from msprobe.store.tensor_file import TensorFile

from . import block as blocks
from .block import TINY, Block, Rule, block, wide_sums

Array = NDArray[Any]
Tensor = Array | TensorFile

_PIECE = 1 << 20  # elements


def side_statistics(tensor: Tensor) -> Statistics:
    """Return the statistics as `msprobe.base.statistic.statistic` computes them; None for those that it does not have.

    Those of several pieces are merged, mean and norm with one rounding each.
    """
    found = [(statistic(piece), piece.size) for piece in _pieces(tensor)]
    parts = [one for one, _ in found]
    is_bool = type(parts[0].max) is bool
    if len(parts) == 1 or parts[0].max is None:
        only = parts[0]
        numbers = [getattr(only, name) for name in NAMES]
        return statistics_from(*numbers, true_count=only.true_count if is_bool else None)
    if is_bool:
        count = sum(one.true_count for one in parts)
        booleans = {"max": any(one.max for one in parts), "min": all(one.min for one in parts)}
        return statistics_from(*map(booleans.get, NAMES), true_count=count)
    if any(one.max != one.max for one in parts):
        return statistics_from(*(math.nan,) * len(NAMES))
    sizes = [length for _, length in found]
    return statistics_from(*(_merged(each, [getattr(one, each.name) for one in parts], sizes) for each in NUMBERS))


def _merged(each: Statistic, values: Sequence[float], sizes: Sequence[int]) -> float:
    """Return one statistic of all pieces; a mean without overflow."""
    if each.merge != "mean":
        return merge(each.merge, values, sizes)
    size = sum(sizes)
    with np.errstate(all="ignore"):
        weighted = [value * (length / size) for value, length in zip(values, sizes, strict=True)]
        return float(np.sum(weighted, dtype=np.float64))


def _pieces(tensor: Tensor) -> Iterator[Array]:
    if isinstance(tensor, TensorFile):
        for start in range(0, tensor.size, _PIECE):
            yield tensor.part(start, min(start + _PIECE, tensor.size))
    else:
        yield tensor


# Elements. In C large enough that a call costs nothing; in numpy small enough that temporary arrays stay in a cache.
BLOCK_IN_C = 1 << 17
BLOCK_IN_NUMPY = 1 << 14

LEAST_SQUARES = 2.0**-900  # below that, squares may have lost digits


def measure(target: Tensor, golden: Tensor, standard: Standard, dtype: str = "") -> Measures:
    """Measure two tensors of one shape, each an array of numbers of any layout or an open npy file.

    `dtype` is the golden's in its dump; it applies if an array is a wider copy (bfloat16 is stored as float32 in an
    npy). Raise a ValueError if the shapes differ, a DumpError if a file cannot be read.
    """
    if target.shape != golden.shape:
        raise ValueError(f"shapes differ: {target.shape}, {golden.shape}")
    names = [
        "bfloat16" if isinstance(side, np.ndarray) and is_bfloat16(side) else _name_of(side.dtype)
        for side in (target, golden)
    ]
    unit = coarsest([dtype, *names])
    rule = Rule(standard.absolute, standard.relative, math.ldexp(1.0, unit.exponent) if unit else 1.0)
    pieces = Pieces(target, golden)
    found: list[Block] = []
    scale = 0.0 if rule.absolute else 1.0  # which is irrelevant if nothing is allowed
    for t, g in pieces:
        found.append(block(t, g, scale, rule))
        scale = found[-1].scale
    _rescale_shares(scale, found, pieces, rule)
    return _together(found, pieces, unit, names[0] == names[1])


def greatest_share(target: Tensor, golden: Tensor, absolute: float, relative: float) -> float:
    """Return the greatest |t - g| / (absolute + relative |g|) of two tensors of one shape, in float64.

    0/0 is 0 and x/0 infinity. Elements that are non-finite and the same on both sides count 0, other non-finite
    elements infinity; a complex number counts as two numbers. An empty tensor gives 0. Raise a ValueError if the shapes
    differ, a DumpError if a file cannot be read.
    """
    if target.shape != golden.shape:
        raise ValueError(f"shapes differ: {target.shape}, {golden.shape}")
    greatest = 0.0
    for piece in Pieces(target, golden):
        t, g = (part.view(part.real.dtype) if part.dtype.kind == "c" else part for part in piece)
        t, g = (part.astype(np.float64, copy=False) for part in (t, g))
        with np.errstate(all="ignore"):
            apart = np.abs(t - g)
            apart[(t == g) | (np.isnan(t) & np.isnan(g))] = 0.0
            share = np.where(apart == 0, 0.0, apart / (absolute + relative * np.abs(g)))
        share[(apart != 0) & ~(np.isfinite(t) & np.isfinite(g))] = math.inf
        greatest = max(greatest, float(share.max(initial=0.0)))
    return greatest


class Pieces(Sequence[tuple[Array, Array]]):
    """Two tensors of one shape as pairs of flat blocks, in C order; memory is read in place if possible."""

    def __init__(self, target: Tensor, golden: Tensor, length: int = 0) -> None:
        self.size = math.prod(target.shape)
        self.parts = 2 if target.dtype.kind == "c" or golden.dtype.kind == "c" else 1
        in_c = blocks.kernel is not None and self.parts == 1
        self.length = length or (BLOCK_IN_C if in_c else BLOCK_IN_NUMPY)
        self._sides = tuple(
            side.reshape(-1) if isinstance(side, np.ndarray) and side.flags.c_contiguous else side
            for side in (target, golden)
        )

    def __len__(self) -> int:
        return -(-self.size // self.length)

    def __getitem__(self, at: Any) -> Any:
        if at >= len(self):
            raise IndexError(at)
        start, stop = at * self.length, min((at + 1) * self.length, self.size)
        target, golden = (_part(side, start, stop) for side in self._sides)
        return target, golden


def _part(side: Tensor, start: int, stop: int) -> Array:
    """Return elements of a tensor as a flat array with the alignment that calculations need."""
    if isinstance(side, TensorFile):
        part = side.part(start, stop)
    elif side.ndim == 1:
        part = side[start:stop]
    else:
        part = side.flat[start:stop]  # a copy of these elements alone, for any layout
    part = widen(part)
    if part.flags.c_contiguous and part.flags.aligned and part.dtype.isnative:
        return part
    return np.require(part, part.dtype.newbyteorder("="), ["C_CONTIGUOUS", "ALIGNED"])


def _rescale_shares(scale: float, found: list[Block], pieces: Pieces, rule: Rule) -> None:
    """Convert every share that counts to the final scale.

    Until the greatest golden element was read, the scale was smaller and shares were too great. Such a block is
    measured again only if its greatest share could be the greatest of all or some of its elements could be beyond.
    """
    stale = [at for at, one in enumerate(found) if one.scale < scale and one.excess > 0]
    greatest = max((one.excess for one in found if one.scale == scale), default=0.0)
    for at in sorted(stale, key=lambda at: -found[at].excess):
        if found[at].beyond or found[at].excess >= greatest:
            t, g = pieces[at]
            found[at] = block(t, g, scale, rule)
            greatest = max(greatest, found[at].excess)


def _together(found: list[Block], pieces: Pieces, unit: FloatFormat | None, one_dtype: bool) -> Measures:
    size = pieces.size
    mismatched = sum(one.mismatched for one in found)
    absolute, absolute_at = _greatest([(one.absolute, one.absolute_at) for one in found], pieces.length)
    if one_dtype and not mismatched and not absolute:
        return Measures(size, True, 0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0, -1, -1, 0.0, 0.0, 0.0)
    excess, worst = _greatest([(one.excess, one.excess_at) for one in found], pieces.length)
    if mismatched:
        at, first = next((at, one.mismatched_at) for at, one in enumerate(found) if one.mismatched)
        excess, worst = math.inf, at * pieces.length + first
    sums = _sums(found, pieces, absolute)
    count = pieces.parts * (size - mismatched)
    hidden = pieces.parts * mismatched
    return Measures(
        size=size,
        equal=False,
        mismatched=mismatched,
        cosine=sums.cosine,
        euclid=sums.euclid,
        max_absolute=absolute,
        max_relative=max((one.relative for one in found), default=0.0),
        within_1e_3=(sum(one.nearer for one in found) - hidden) / count if count else 1.0,
        within_5e_3=(sum(one.near for one in found) - hidden) / count if count else 1.0,
        excess=excess,
        beyond=sum(one.beyond for one in found) + mismatched,
        worst=worst,
        max_absolute_at=absolute_at,
        scale_error=_share(absolute, max((one.greatest for one in found), default=0.0)),
        bias=sums.total / count if count else 0.0,
        max_ulp=_units(max((one.ulps for one in found), default=0.0), unit) if unit else absolute,
    )


def _greatest(values: list[tuple[float, int]], length: int) -> tuple[float, int]:
    """Return the greatest of the blocks' greatest values and its flat index; the first of equal ones."""
    at = max(range(len(values)), key=lambda at: values[at][0], default=0)
    if not values or values[at][1] < 0:
        return 0.0, -1
    return values[at][0], at * length + values[at][1]


class _Sums(NamedTuple):
    cosine: float
    euclid: float
    total: float


def _sums(found: list[Block], pieces: Pieces, absolute: float) -> _Sums:
    columns = list(zip(*(one[:5] for one in found), strict=True)) or [()] * 5
    dot, tt, gg, dd, total = map(_sum, columns)
    if math.isfinite(dot + tt + gg + dd + total) and (not absolute or dd >= LEAST_SQUARES):
        return _Sums(_cosine(dot, math.sqrt(tt), math.sqrt(gg)), math.sqrt(dd), total)
    # Squares are beyond the range of float64: compute again with a type that has a longer exponent.
    with np.errstate(all="ignore"):
        dot, tt, gg, dd, total = sum((wide_sums(t, g) for t, g in pieces), np.zeros(5, np.longdouble))
        return _Sums(float(_cosine(dot, np.sqrt(tt), np.sqrt(gg))), float(np.sqrt(dd)), float(total))


def _sum(values: Iterable[float]) -> float:
    """Return the sum with one rounding; NaN if the values or their sum are beyond the range of float64."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # the sum is too great, or has infinities of both signs
        return math.nan


def _cosine(dot: Any, norm_t: Any, norm_g: Any) -> Any:
    if norm_t <= TINY and norm_g <= TINY:
        return 1.0
    if norm_t <= TINY or norm_g <= TINY:
        return math.nan
    return dot / (norm_t * norm_g)


def _share(part: float, whole: float) -> float:
    """Return the share; 0 / 0 is 0, x / 0 is infinity."""
    return part / whole if whole else math.inf if part else 0.0


def _units(ulps: float, unit: FloatFormat) -> float:
    """Return units in the last place; `Block.ulps` is in halves of the golden's power of two."""
    try:
        return math.ldexp(ulps, unit.digits - 1)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=64)
def _name_of(dtype: np.dtype[Any]) -> str:
    """Return a dtype's name, the same for both byte orders; numpy computes it each time."""
    return dtype.name
