"""Is what stands in our dump what stands in the other tool's table? Pure: a dump and rows in, sentences out."""

import math
from collections.abc import Iterator

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor
from msprobe.store.record import Dump, Record

Row = dict[str, object]
SIDES = ("NPU", "Bench")
STATISTICS = ("max", "min", "mean", "l2norm")
WITHOUT_PARTNER = "N/A"


def by_name(dump: Dump) -> dict[str, Record]:
    """The records of a dump, in row order."""
    return {record.name: record for call in dump.calls for record in call.records}


def complaints(target: Dump, golden: Dump, rows: list[Row]) -> Iterator[str]:
    """What of the target is not in the table, is there in other digits, or is there without being in the dump.

    Golden's cells are checked too, where a row has a partner, and the measures of tensors against their npy files.
    """
    ours, theirs = by_name(target), by_name(golden)
    names = [row["NPU Name"] for row in rows]
    yield from (f"{name}: has no row" for name in ours if name not in set(names))
    yield from (f"{name}: is in the table, not in the dump" for name in names if name not in ours)
    if not set(names) ^ set(ours) and names != list(ours):
        yield "the rows are not in the order of the records"
    for row in rows:
        for side, records in zip(SIDES, (ours, theirs), strict=True):
            name = row[f"{side} Name"]
            if name in records:
                yield from _cells(side, records[name], row)
            elif name != WITHOUT_PARTNER:
                yield f"{name}: is no record of the {side} side"
        if row["NPU Name"] in ours and row["Bench Name"] in theirs:
            yield from _measures(target, ours[row["NPU Name"]], golden, theirs[row["Bench Name"]], row)


def _cells(side: str, record: Record, row: Row) -> Iterator[str]:
    dtype, shape, statistics = expected(record)
    for column, cell, wanted in (("Dtype", row[f"{side} Dtype"], dtype), ("Shape", row[f"{side} Tensor Shape"], shape)):
        # null has neither; 8.1 writes None and 26 writes N/A
        if cell not in ((wanted,) if wanted else ("None", WITHOUT_PARTNER)):
            yield f"{record.name}: {side} {column} {cell!r}, in the dump {wanted!r}"
    for statistic, wanted in zip(STATISTICS, statistics, strict=True):
        if not same(row[f"{side} {statistic}"], wanted):
            yield f"{record.name}: {side} {statistic} {row[f'{side} {statistic}']!r}, in the dump {wanted!r}"


def expected(record: Record) -> tuple[str, str, tuple[object, ...]]:
    """Dtype, shape and four statistics, as the other tool writes records: a number stands for its own statistics."""
    if record.kind == "tensor":
        s = record.statistics
        return record.dtype, str(list(record.shape or ())), (s.max, s.min, s.mean, s.norm) if s else (None,) * 4
    if record.kind == "null":
        return "", "", (None,) * 4
    if record.type == "slice":
        return "slice", "(3,)", (None,) * 4
    return record.type if record.type == "ellipsis" else str(type(record.value)), "[]", (record.value,) * 4


def same(cell: object, wanted: object) -> bool:
    """Whether a cell holds exactly this value: every digit in a csv; a sheet's numbers have 16."""
    if isinstance(wanted, float) and not math.isfinite(wanted):
        return str(cell).strip().lower() == str(wanted)
    if wanted is None:
        return str(cell).strip() in ("None", "nan", WITHOUT_PARTNER)  # 8.1: nan or N/A, depending on the rows around
    if isinstance(cell, int | float):
        return not isinstance(wanted, bool | str | None) and cell == float(f"{wanted:.16G}")
    return str(cell) == str(wanted)


def measured(row: Row) -> bool:
    """Whether the row's measures were taken from the two npy files."""
    try:
        return math.isfinite(float(str(row["MaxAbsErr"])))
    except (KeyError, ValueError):
        return False


def _measures(target: Dump, one: Record, golden: Dump, other: Record, row: Row) -> Iterator[str]:
    """Were the two npy files opened? Then the row has their greatest difference."""
    if "MaxAbsErr" not in row or not (one.file and other.file):
        return
    try:
        t, g = load_tensor(target, one), load_tensor(golden, other)
    except DumpError as broken:
        yield str(broken)
        return
    if t.size == 0 or t.shape != g.shape or np.iscomplexobj(t):
        return  # not measured there; of complex numbers the real parts only
    t, g = t.astype(np.float64), g.astype(np.float64)
    finite = np.isfinite(t) & np.isfinite(g)
    same_places = not np.isfinite(t[~finite]).any() and not np.isfinite(g[~finite]).any()
    wanted = float(np.max(np.abs(t[finite] - g[finite]), initial=0.0)) if same_places else WITHOUT_PARTNER
    cell = row["MaxAbsErr"]
    if measured(row) and isinstance(wanted, float) and math.isclose(float(str(cell)), wanted, rel_tol=1e-6):
        return
    if cell != wanted:
        yield f"{one.name}: MaxAbsErr {cell!r}, of the npy files {wanted!r}"
