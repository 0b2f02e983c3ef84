"""Judged pairs become rows: tuples of cells in the order of `columns.py`. Nothing is measured here, nothing judged.

The cells under msprobe 8.1's headings hold what 8.1 would print; its two verdict columns too, minus its slips
(docs/differences.md). Our own verdict stands behind them.
"""

import math
from collections.abc import Iterator

from msprobe.compare.locate.find import Located
from msprobe.compare.measured import Measures
from msprobe.compare.run import Comparison, Judged, JudgedCall
from msprobe.store.record import Number, Record

from .cells import NOT_APPLICABLE, guard, number, percent, shape_text

Cell = str | int | float | bool
Row = tuple[Cell, ...]

_NO_PARTNER = {True: "No bench data matched.", False: "No NPU data matched."}
_UNSUPPORTED = ("unsupported",) * 6


def rows(comparison: Comparison, located: Located, with_stack: bool) -> Iterator[Row]:
    """One row per pair, in execution order."""
    middle = {"tensor": _tensor_cells, "statistics": _statistics_cells, "digest": _digest_cells}[comparison.mode]
    files = comparison.mode == "tensor"
    roles = located.roles
    for call in comparison.calls:
        stack = _stack_text(call) if with_stack else ""
        by = call.calls.matched_by
        for judged in call.judged:
            pair = judged.pair
            verdict = judged.verdict
            yield (
                *_names(pair.target, pair.golden),
                *middle(judged),
                *((stack,) if with_stack else ()),
                *((_files(judged),) if files else ()),
                verdict.grade,
                guard(verdict.reason),
                roles.get(pair.key, "") if roles else "",
                by,
            )
            stack = NOT_APPLICABLE


def _names(target: Record | None, golden: Record | None) -> tuple[str, str, str, str, str, str]:
    if target is not None and golden is not None and target.name == golden.name:
        name = guard(target.name)
        dtype, shape = _dtype(target), _shape(target)
        if target.dtype == golden.dtype and target.shape == golden.shape and target.kind == golden.kind == "tensor":
            return name, name, dtype, dtype, shape, shape
        return name, name, dtype, _dtype(golden), shape, _shape(golden)
    return (
        guard(target.name) if target else NOT_APPLICABLE,
        guard(golden.name) if golden else NOT_APPLICABLE,
        _dtype(target),
        _dtype(golden),
        _shape(target),
        _shape(golden),
    )


def _dtype(record: Record | None) -> str:
    if record is None:
        return NOT_APPLICABLE
    if record.kind == "tensor":
        return guard(record.dtype)
    if record.kind == "null":
        return "None"
    if record.type in ("slice", "ellipsis"):
        return record.type
    return str(type(record.value))


def _shape(record: Record | None) -> str:
    if record is None:
        return NOT_APPLICABLE
    if record.kind == "tensor":
        return shape_text(record.shape)
    if record.kind == "null":
        return "None"
    return "(3,)" if record.type == "slice" else "[]"


def _values(record: Record | None) -> tuple[Number | str, Number | str, Number | str, Number | str]:
    """The four statistics of a record as 8.1 has them: a value that is no tensor stands for all four."""
    if record is None:
        return (NOT_APPLICABLE,) * 4
    if record.kind == "tensor":
        s = record.statistics
        return (None,) * 4 if s is None else (s.max, s.min, s.mean, s.norm)
    if record.kind == "null" or record.type == "slice":
        return (None,) * 4
    value = record.value
    if value is None or isinstance(value, (int, float)):
        return (value,) * 4
    return (str(value),) * 4


def _statistics_cells(judged: Judged) -> tuple[Cell, ...]:
    pair = judged.pair
    target, golden = _values(pair.target), _values(pair.golden)
    if target == golden and all(type(v) in _NUMBERS and v - v == 0 for v in target):  # type: ignore[operator]  # numbers
        # Equal and finite, as most rows are: what the lines below would give, at half their price.
        same: tuple[float, ...] = target  # type: ignore[assignment]  # as above
        return (*(v - v for v in same), *("0.0%" if v else NOT_APPLICABLE for v in same), *same, *same, "", "")
    differences: list[Cell] = []
    shares: list[Cell] = []
    warning = False
    for t, g in zip(target, golden, strict=True):
        if type(t) in _NUMBERS and type(g) in _NUMBERS:
            difference: float = t - g  # type: ignore[operator]  # numbers both, and no booleans
            differences.append(number(difference))
            shares.append(percent(difference, g))  # type: ignore[arg-type]  # as above
            warning = warning or (difference != 0 and _half(difference, t, g))  # type: ignore[arg-type]  # as above
        else:
            differences.append(NOT_APPLICABLE)
            shares.append(NOT_APPLICABLE)
    if pair.target is None or pair.golden is None:
        result = (NOT_APPLICABLE, _NO_PARTNER[pair.target is not None])
    else:
        result = _WARNING if warning and pair.record.kind == "tensor" else ("", "")
    return (*differences, *shares, *map(number, target), *map(number, golden), *result)


_NUMBERS = (float, int)
_WARNING = ("Warning", "Need double check api accuracy.")


def _half(difference: float, t: float, g: float) -> bool:
    """8.1's rule, with NaN on one side counted as what it is."""
    if difference != difference:
        return (t != t) != (g != g)
    return abs(difference) / (abs(max(t, g)) + 1e-10) > 0.5


def _digest_cells(judged: Judged) -> tuple[Cell, ...]:
    target, golden = judged.pair.target, judged.pair.golden
    t, g = _digest(target), _digest(golden)
    if target is None or golden is None:
        result = NOT_APPLICABLE
    elif t == g == NOT_APPLICABLE:
        result = "pass" if judged.equal else "Different"
    else:
        result = "pass" if t == g else "Different"
    return t, g, result


def _digest(record: Record | None) -> str:
    return guard(record.digest) if record is not None and record.digest else NOT_APPLICABLE


def _tensor_cells(judged: Judged) -> tuple[Cell, ...]:
    target, golden = judged.pair.target, judged.pair.golden
    cells, accuracy, message = _measure_cells(judged)
    return (*cells, *map(number, _values(target)), *map(number, _values(golden)), accuracy, message)


def _measure_cells(judged: Judged) -> tuple[tuple[Cell, ...], str, str]:
    target, golden = judged.pair.target, judged.pair.golden
    if target is None or golden is None:
        return _UNSUPPORTED, "None", _NO_PARTNER[target is not None]
    if target.kind == golden.kind == "tensor" and target.shape != golden.shape:
        return ("shape unmatched",) * 6, "Unmatched", "Shapes of NPU and bench tensor do not match."
    found = judged.measures
    if found is None:
        return _UNSUPPORTED, "None", "No tensor to measure on one side or both."
    if found.size == 0:
        return _UNSUPPORTED, "None", "The tensors are empty."
    if found.mismatched:
        return (NOT_APPLICABLE,) * 6, "No", "The positions of nan or inf do not match."
    message = "" if target.dtype == golden.dtype else "Dtypes of NPU and bench tensor do not match."
    cosine: Cell = _cosine(found) if found.size > 1 else "unsupported"
    absolute, relative = number(round(found.max_absolute, 12)), number(round(found.max_relative, 12))
    if target.shape == ():
        cells: tuple[Cell, ...] = (*_UNSUPPORTED[:2], absolute, relative, *_UNSUPPORTED[:2])
        return cells, "None", "A 0-d tensor has no direction and no ratios."
    if found.cosine != found.cosine:
        message = "One side is all zeros, the other is not."
    cells = (cosine, number(found.euclid), absolute, relative, found.within_1e_3, found.within_5e_3)
    return cells, _accuracy(cosine, found), message


def _cosine(found: Measures) -> Cell:
    value = round(found.cosine, 12) if math.isfinite(found.cosine) else found.cosine
    return number(round(value, 6) if value > 0.9999 else value)


def _accuracy(cosine: Cell, found: Measures) -> str:
    """8.1's rule. There the text `Nan` of a one-sided zero tensor counts as above every bound; here it is a `No`."""
    if isinstance(cosine, str):
        return "No" if found.cosine != found.cosine else "None"
    if (cosine < 0.99 and found.max_absolute > 0.001) or cosine < 0.9 or found.max_absolute > 1:
        return "No"
    return "Yes"


def _files(judged: Judged) -> str:
    target, golden = judged.pair.target, judged.pair.golden
    return guard(str([(target.file if target else "") or "-1", (golden.file if golden else "") or "-1"]))


def _stack_text(call: JudgedCall) -> str:
    frames = call.calls.target.stack if call.calls.target else ()
    return guard(str(list(frames))) if frames else NOT_APPLICABLE
