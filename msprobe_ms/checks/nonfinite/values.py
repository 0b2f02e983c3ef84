"""Which records of a dump are not finite, what is in them, and of which nothing can be said."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.finite import is_finite
from msprobe.base.verdicts import Gap
from msprobe.checks.gaps import can_overflow, gap_of_statistics
from msprobe.store.npy import open_npy
from msprobe.store.reader import load_tensor, tensor_path
from msprobe.store.record import PARAMETERS, PARAMETERS_GRAD, PARTS, TENSOR, Columns, Dump, NonFinite
from msprobe.store.tensor_file import TensorFile
from msprobe.store.watching.content import Content

_PIECE = 1 << 20
"""Elements of a tensor that are read at a time."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What is not finite in one record: how many elements, or, in dumps that hold no counts, 1 for what there is.

    `place` is where the record stands in its call: `output.0`, `parameter weight`, `gradient of weight`.
    """

    place: str
    nan: int = 0
    inf: int = 0
    minus_inf: int = 0
    is_counted: bool = False

    @property
    def content(self) -> Content:
        """The same without the numbers."""
        found = Content.NAN if self.nan else Content.NOTHING
        found |= Content.PLUS if self.inf else Content.NOTHING
        return found | (Content.MINUS if self.minus_inf else Content.NOTHING)


def together(amounts: Iterable[Amount]) -> Content:
    """What there is in any of several records."""
    found = Content.NOTHING
    for amount in amounts:
        found |= amount.content
    return found


def nonfinite_rows(columns: Columns) -> list[int]:
    """The rows that are not finite, rising: tensors by their statistics, and arguments that are numbers."""
    kind = np.frombuffer(columns.kind, np.uint8)
    high, low, norm = (columns.column(name) for name in ("max", "min", "norm"))
    # A maximum that passes over NaN, as those of some devices do, leaves it in the norm. An infinite norm of finite
    # elements has overflowed itself.
    bad = (kind == TENSOR) & ~(np.isfinite(high) & np.isfinite(low) & ~np.isnan(norm))
    if columns.odd:
        bad[list(columns.odd)] = False
    found = set(np.flatnonzero(bad).tolist())
    found.update(row for row in columns.odd if amount(columns, row).content)
    found.update(columns.non_finite)
    found.update(row for row, value in columns.values.items() if type(value) is float and not math.isfinite(value))
    return sorted(found)


def amount(columns: Columns, row: int) -> Amount:
    """What is not finite in a record."""
    place = place_of(columns, row)
    if columns.kind[row] != TENSOR:
        value = columns.values.get(row)
        return _by_numbers(place, (value,)) if type(value) is float else Amount(place)
    if (counts := columns.non_finite.get(row)) is not None:
        return Amount(place, counts.nan, counts.positive_inf, counts.negative_inf, is_counted=True)
    statistics = columns.statistics(row)
    if statistics is None:
        return Amount(place)
    if (counts := statistics.non_finite) is not None:
        return Amount(place, counts.nan, counts.positive_inf, counts.negative_inf, is_counted=True)
    found = _by_numbers(place, (statistics.max, statistics.min))
    return found if found.content else _by_numbers(place, [n for n in (statistics.norm,) if n != n])


def _by_numbers(place: str, numbers: Iterable[object]) -> Amount:
    floats = [number for number in numbers if type(number) is float]
    nan, plus, minus = any(map(math.isnan, floats)), math.inf in floats, -math.inf in floats
    return Amount(place, int(nan), int(plus), int(minus))


def place_of(columns: Columns, row: int) -> str:
    """Where a record stands in its call."""
    path, part = ".".join(columns.path_of(row)), columns.part[row]
    if part == PARAMETERS:
        return f"parameter {path}"
    if part == PARAMETERS_GRAD:
        return f"gradient of {path}"
    return ".".join(filter(None, (PARTS[part], path)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Return what the tensors of a dump show in addition to its statistics.

    `non_finite` has the rows whose tensor is not finite and whose statistics do not show it. `judged` counts the
    records of tensors of which it is known whether they are finite, `gaps` the others by reason, and tensors that
    could not be read to confirm their statistics.
    """

    non_finite: dict[int, NonFinite]
    judged: int
    gaps: Counter[Gap]


FINITE = Evidence({}, 1, Counter())


def evidence(dump: Dump, *, reads_all: bool) -> Evidence:
    """Read the tensors of records whose statistics do not say whether they are finite; of all with `reads_all`."""
    columns = dump.columns
    gaps: Counter[Gap] = Counter()
    found: dict[int, NonFinite] = {}
    by_statistics = 0  # not confirmed by their tensors
    tensors = [row for row, kind in enumerate(columns.kind) if kind == TENSOR]
    known = set(nonfinite_rows(columns)) if reads_all else ()
    with_odd = [row for row in columns.odd if columns.kind[row] == TENSOR]
    for row in tensors if reads_all and any(columns.file) else with_odd:
        gap = gap_of_statistics(columns, row)
        if not (columns.file[row] and (gap or reads_all) and row not in known and can_overflow(columns, row)):
            gaps.update([gap] if gap else ())
            continue
        try:
            counts = _counts(_pieces(dump, row))
        except DumpError:
            gaps[Gap.UNREADABLE_TENSOR] += 1
            by_statistics += not gap
        else:
            if counts is not None:
                found[row] = counts
    # Integers are finite without being judged, unless there is nothing else.
    floats = sum(can_overflow(columns, row) for row in tensors)
    return Evidence(found, (floats or len(tensors)) - gaps.total() + by_statistics, gaps)


def _pieces(dump: Dump, row: int) -> Iterator[Any]:
    record = dump.columns.record(row, dump.columns.call_of(row))
    path = tensor_path(dump, record)
    tensor = open_npy(path) if path.suffix == ".npy" and dump.tensors else load_tensor(dump, record)
    if isinstance(tensor, TensorFile):
        for start in range(0, tensor.size, _PIECE):
            yield tensor.part(start, min(start + _PIECE, tensor.size))
    else:
        yield tensor


def _counts(pieces: Iterable[Any]) -> NonFinite | None:
    nan = plus = minus = 0
    for piece in pieces:
        if not is_finite(piece):
            both = (piece.real, piece.imag) if np.iscomplexobj(piece) else (piece,)
            nan += int(sum(np.count_nonzero(np.isnan(each)) for each in both))
            plus += int(sum(np.count_nonzero(np.isposinf(each)) for each in both))
            minus += int(sum(np.count_nonzero(np.isneginf(each)) for each in both))
    return NonFinite(nan, plus, minus) if nan or plus or minus else None
