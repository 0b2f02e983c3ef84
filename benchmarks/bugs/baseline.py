"""The plain way: walk the calls in their order, and name the first whose output is beyond a tolerance.

It stands on the numbers of our own table: what the matching found is taken from there, the verdicts are not.
"""

import math
from collections.abc import Iterable
from typing import Any

LIMITS = (1e-6, 1e-5, 1e-3, 1e-2)
"""Tolerances for float32, as a share of the golden tensor's greatest element."""

COARSER = {"float16": 2**13, "bfloat16": 2**16, "float64": 2**-29}
"""By how much the tolerances of other dtypes are coarser."""

_STATISTICS = ("max", "min", "mean", "l2norm")


def result(truth: dict[str, Any], rows: Iterable[dict[str, Any]], limit: float) -> dict[str, bool]:
    """As `score.judged`: whether the walk alarms, and whether the first call it names is right."""
    named = first_beyond(rows, limit, truth["regime"] == "pytorch")
    if truth["clean"]:
        return {"alarm": named is not None}
    right = named is not None and (named in truth["names"] or truth["names"] == ["*"])
    return {"alarm": named is not None, "first": right}


def first_beyond(rows: Iterable[dict[str, Any]], limit: float, is_across: bool = False) -> str | None:
    """The name of the first call of which an output is beyond the limit, has another shape, or is on one side only.

    Across frameworks much is on one side only, which is then no reason.
    """
    for row in rows:
        target, golden = row["NPU Name"], row["Bench Name"]
        name = target if target != "N/A" else golden
        if ".output." not in name and not name.endswith(".output"):
            continue
        if "N/A" in (target, golden):
            if is_across:
                continue
            return name.partition(".output")[0]
        if row["NPU Tensor Shape"] != row["Bench Tensor Shape"] or _is_beyond(row, limit):
            return name.partition(".output")[0]
    return None


def _is_beyond(row: dict[str, Any], limit: float) -> bool:
    dtype = str(row["Bench Dtype"]).rpartition(".")[2].lower()
    limit *= COARSER.get(dtype, 1)
    if "Scale Error" in row:
        return _number(row["Scale Error"]) > limit
    scale = max(abs(_number(row["Bench max"])), abs(_number(row["Bench min"])))
    differences = [abs(_number(row[f"{title} diff"])) for title in ("Max", "Min", "Mean")]
    norm = _number(row["Bench l2norm"])
    shares = [difference / scale if scale else difference for difference in differences]
    shares.append(abs(_number(row["L2norm diff"])) / norm if norm else abs(_number(row["L2norm diff"])))
    return max(shares) > limit


def _number(cell: Any) -> float:
    """The number in a cell; 0 where it holds none, for that row then says nothing."""
    try:
        value = float(str(cell).rstrip("%"))
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(value) else value
