"""Verdicts for all pairs of records at once, as far as columns say them; the rest is judged one by one."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.match.pairs import Ints, Pairs
from msprobe.compare.measure.columns import excesses
from msprobe.store.columns import GRADIENTS, KINDS, Columns

from .judged import DIFFERENT, EQUAL, NO_CAUSE, UNKNOWN
from .lost import lost_rows
from .op_family import has_any, unjudged_reason
from .standard import Standard, standard_of
from .verdict import CAUSES, GRADES, Verdict, same_dtype

_TENSOR, _VALUE, _NULL = (KINDS.index(kind) for kind in ("tensor", "value", "null"))
_OWN = GRADIENTS.index("own")
_PASS, _WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sheet:
    """The verdicts so far: what a pair's grade is, why it has none, whether it is equal, and whether that is settled.

    `excess` and `which` are what `excesses` gave, -1 in `which` where nothing was measured so.
    """

    grades: NDArray[np.uint8]
    causes: NDArray[np.uint8]
    equal: NDArray[np.int8]
    settled: Mask
    excess: NDArray[np.float64]
    which: NDArray[np.int8]

    def enter(self, row: int, verdict: Verdict) -> None:
        """Enter the verdict of one pair."""
        self.grades[row] = GRADES.index(verdict.grade)
        self.causes[row] = NO_CAUSE if verdict.cause is None else CAUSES.index(verdict.cause)

    def settle(self, rows: Ints, grades: NDArray[np.uint8], equal: NDArray[np.int8]) -> None:
        """Enter the verdicts of some pairs."""
        self.grades[rows], self.equal[rows], self.settled[rows] = grades, equal, True


def judge_columns(pairs: Pairs, *, by_digest: bool, by_statistics: bool, across: bool, same_rounding: bool) -> Sheet:
    """Settle equal values, and tensors of one shape and dtype by their digests or statistics."""
    size = len(pairs.target_rows)
    sheet = Sheet(
        np.full(size, _UNJUDGED, np.uint8),
        np.full(size, NO_CAUSE, np.uint8),
        np.full(size, UNKNOWN, np.int8),
        np.zeros(size, bool),
        np.zeros(size),
        np.full(size, -1, np.int8),
    )
    both = np.flatnonzero((pairs.target_rows >= 0) & (pairs.golden_rows >= 0))
    t, g = pairs.target_rows[both], pairs.golden_rows[both]
    target, golden = pairs.target.columns, pairs.golden.columns
    own = (_codes(target.gradient)[t] == _OWN) & (_codes(golden.gradient)[g] == _OWN)
    kind_t, kind_g = _codes(target.kind)[t], _codes(golden.kind)[g]
    _settle_values(sheet, both, t, g, own & (kind_t == _VALUE) & (kind_g == _VALUE), target, golden)
    nulls = own & (kind_t == _NULL) & (kind_g == _NULL)
    # None equals None; what could not be collected needs words.
    for lost, columns, rows in ((lost_rows(pairs.target), target, t), (lost_rows(pairs.golden), golden, g)):
        if lost:
            nulls &= ~_marked(lost, len(columns.part))[rows]
    _pass(sheet, both[nulls])
    tensors = own & (kind_t == _TENSOR) & (kind_g == _TENSOR) & _judgeable(pairs, both)
    looks = _Looks(target, golden, t, g, tensors, across)
    alike = looks.alike
    if by_digest:
        rows = np.flatnonzero(alike)
        texts = [(target.digest[a], golden.digest[b]) for a, b in zip(t[rows].tolist(), g[rows].tolist(), strict=True)]
        told = np.array([bool(a and b) for a, b in texts], bool)
        same = np.array([a == b for a, b in texts], bool)[told]
        sheet.settle(both[rows[told]], np.where(same, _PASS, _ERROR).astype(np.uint8), same.astype(np.int8))
        alike = alike.copy()
        alike[rows[told]] = False
    if by_statistics:
        plain = alike & ~_marked(target.odd, len(target.part))[t] & ~_marked(golden.odd, len(golden.part))[g]
        plain &= ~_counted_otherwise(target, golden, t, g)
        rows = np.flatnonzero(plain)
        standards = looks.standards[looks.golden[rows]]
        ours, theirs = _statistics(target, t[rows]), _statistics(golden, g[rows])
        excess, which = excesses(ours, theirs, standards[:, 0], standards[:, 1], standards[:, 2], same_rounding)
        grades = np.where(excess <= 1, _PASS, np.where(excess <= standards[:, 3], _WARNING, _ERROR)).astype(np.uint8)
        # A statistic that is not finite on one side is an error whatever the standard, and its excess is infinite.
        is_equal = excess == 0 if same_rounding else grades == _PASS
        sheet.settle(both[rows], grades, np.where(is_equal, EQUAL, DIFFERENT).astype(np.int8))
        sheet.excess[both[rows]], sheet.which[both[rows]] = excess, which
    return sheet


class _Looks:
    """Which pairs of tensors look alike (shape, dtype), judged once per pair of looks, and the golden's standards."""

    def __init__(self, target: Columns, golden: Columns, t: Ints, g: Ints, tensors: Mask, across: bool) -> None:
        theirs = np.frombuffer(golden.look, np.int32)[g].astype(np.int64)
        width = max(len(golden.looks), 1)
        # In 64 bits: two dumps of 50,000 looks have more pairs of them than 32 bits count.
        codes = np.frombuffer(target.look, np.int32)[t].astype(np.int64) * width + theirs
        found, where = np.unique(codes, return_inverse=True)
        table = [_is_alike(target.looks[code // width], golden.looks[code % width], across) for code in found.tolist()]
        self.alike = tensors & np.array(table, bool)[where] if len(table) else tensors
        self.golden = theirs
        self.standards = np.array([_row(dtype, shape) for _, dtype, shape in golden.looks] or [(0.0,) * 4])


Look = tuple[str, str, tuple[int, ...] | None]


def _is_alike(target: Look, golden: Look, across: bool) -> bool:
    return target[2] == golden[2] and same_dtype(target[1], golden[1], across)


def _row(dtype: str, shape: tuple[int, ...] | None) -> tuple[float, float, float, float]:
    standard: Standard = standard_of(dtype)
    return float(math.prod(shape or ())), standard.absolute, standard.relative, standard.warning


def _settle_values(sheet: Sheet, both: Ints, t: Ints, g: Ints, values: Mask, target: Columns, golden: Columns) -> None:
    """Pass the values that are equal and of one type; what differs needs words."""
    rows = np.flatnonzero(values)
    ours, theirs = target.values, golden.values
    same = [
        type(a := ours[i]) is type(b := theirs[j]) and a == b
        for i, j in zip(t[rows].tolist(), g[rows].tolist(), strict=True)
    ]
    _pass(sheet, both[rows[np.array(same, bool)]])


def _pass(sheet: Sheet, rows: Ints) -> None:
    sheet.settle(rows, np.full(len(rows), _PASS, np.uint8), np.full(len(rows), EQUAL, np.int8))


_UNTOLD = ("input", "0"), ("output", "0"), ("output", "1")
"""Part and place of what an operation may leave unwritten."""


def _judgeable(pairs: Pairs, both: Ints) -> Mask:
    """Which pairs are of an operation whose records say something (`op_family.py`)."""
    if not has_any(pairs.target.columns.names):
        return np.ones(len(both), bool)
    names = map(pairs.name, range(len(pairs)))
    calls = [
        at for at, name in enumerate(names) if has_any([name]) and any(unjudged_reason(name, *of) for of in _UNTOLD)
    ]
    return ~np.isin(pairs.call_of[both], calls)


def _codes(column: bytearray) -> NDArray[np.uint8]:
    return np.frombuffer(column, np.uint8)


def _marked(rows: object, size: int) -> Mask:
    found = np.zeros(size, bool)
    found[list(rows)] = True  # type: ignore[call-overload]  # the keys of a dict
    return found


def _counted_otherwise(target: Columns, golden: Columns, t: Ints, g: Ints) -> Mask:
    """Which pairs have other counts of what is not finite, where both sides tell them; that needs words."""
    found = np.zeros(len(t), bool)
    ours, theirs = target.non_finite, golden.non_finite
    told = np.flatnonzero(_marked(ours, len(target.part))[t] & _marked(theirs, len(golden.part))[g])
    found[told] = [ours[i] != theirs[j] for i, j in zip(t[told].tolist(), g[told].tolist(), strict=True)]
    return found


def _statistics(columns: Columns, rows: Ints) -> tuple[NDArray[np.float64], ...]:
    return tuple(np.frombuffer(c, np.float64)[rows] for c in (columns.max, columns.min, columns.mean, columns.norm))
