"""statistic.csv, which the framework writes on a device instead of the tensors or beside them."""

import csv
import math
import re
from pathlib import Path

from msprobe.base.files import open_text
from msprobe.base.log import logger

from .kernel_value import MOST_SLOTS, Row, Value

STATISTIC = "statistic.csv"

_NEEDED = ("Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_SHAPE = re.compile(r"\(\s*(?:\d+\s*,\s*)*(?:\d+\s*)?\)")
_LONGEST = 1 << 20  # characters of one field; names and shapes are far shorter


def read_table(path: Path, graph: int) -> list[Value]:
    """Every line that says something; none where there is no such file, or none that can be read, which is said."""
    csv.field_size_limit(_LONGEST)
    try:
        with open_text(path, newline="") as lines:
            rows = list(csv.reader(lines))
    except FileNotFoundError:
        return []
    except (OSError, csv.Error) as err:
        logger.warning("%s: cannot be read (%s); its statistics are left out", path, err)
        return []
    if not rows:
        return []
    head = {name.strip(): at for at, name in enumerate(rows[0])}
    if lacking := [name for name in _NEEDED if name not in head]:
        logger.warning("%s: has no column %s; its statistics are left out", path, ", ".join(lacking))
        return []
    found = []
    broken = 0
    for row in rows[1:]:
        try:
            found.append(_value({name: row[at].strip() for name, at in head.items() if at < len(row)}, graph))
        except (KeyError, ValueError):
            broken += 1
    if broken:
        logger.warning("%s: %d lines say nothing and are left out; it may have been cut short", path, broken)
    return found


def _value(cell: dict[str, str], graph: int) -> Value:
    io = cell["IO"].lower()
    if io not in ("input", "output"):
        raise ValueError(io)
    slot = tuple(map(int, cell["Slot"].split(".")))
    if not all(0 <= n <= MOST_SLOTS for n in slot):
        raise ValueError(slot)
    return Value(
        op_type=cell["Op Type"],
        name=cell["Op Name"],
        task=int(cell["Task ID"]),
        stream=int(cell["Stream ID"]),
        stamp=int(cell["Timestamp"]),
        io="input" if io == "input" else "output",
        slot=slot,
        dtype=cell.get("Data Type", ""),
        row=Row(
            _shape(cell.get("Shape", "")),
            _exact(cell.get("Max Value")),
            _exact(cell.get("Min Value")),
            _number(cell.get("Avg Value")),
            _number(cell.get("L2Norm Value")),
        ),
        graph=graph,
    )


def _shape(text: str) -> tuple[int, ...] | None:
    """`(1,4096)`, `(2,)` or `()`; None for anything else."""
    if not _SHAPE.fullmatch(text):
        return None
    lengths = re.findall(r"\d+", text)
    # 2**63 elements and more are in no array; and Python reads no numbers of thousands of digits.
    if any(len(length) > 18 for length in lengths):
        return None
    shape = tuple(map(int, lengths))
    return shape if math.prod(shape) < 1 << 63 else None


def _number(text: str | None) -> float | None:
    """A number; of bool tensors `True` is 1 and `False` 0; None for `null` and for what is none."""
    if text is None or text in ("", "null"):
        return None
    if text in ("True", "False"):
        return float(text == "True")
    try:
        return float(text)
    except ValueError:
        return math.nan if text.lower().strip("-+") == "nan" else None


def _exact(text: str | None) -> float | int | None:
    """`_number`; a whole number of 64 bits with all of its digits."""
    return int(text) if text and _WHOLE.fullmatch(text) else _number(text)


def extreme(number: float | None, dtype: str) -> float | int | bool | None:
    """The extreme of integers as an integer, of bools as a bool, as our own statistics give it."""
    if number is None or not math.isfinite(number):
        return number
    if dtype == "Bool":
        return bool(number)
    return int(number) if dtype.startswith(("Int", "UInt")) and number == int(number) else float(number)
