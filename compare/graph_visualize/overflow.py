"""How a call stands to values that are not finite, by levels.

| level | inputs | outputs |
|---|---|---|
| critical | finite | not finite |
| high | not finite | not finite |
| medium | not finite | finite |
| high | finite | finite, with a greatest norm of more than 100 times the inputs' |

A tensor is not finite if its Max, Min or Mean is NaN or infinite. Parameters count for nothing; nor do numbers among
the arguments, since masks are filled with infinities on purpose.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.store.record import INPUT, OUTPUT, TENSOR, Columns

Level = Literal["critical", "high", "medium", ""]

GROWTH = 100.0
"""Of the norm, from the inputs to the outputs."""

WITHOUT_MEANING = {
    **dict.fromkeys(("torch.empty", "torch.empty_like", "torch.empty_strided"), ("output",)),
    **dict.fromkeys(("mint.empty", "mint.empty_like", "functional.empty", "functional.empty_like"), ("output",)),
    "tensor.new_empty": ("output",),
    "distributed.recv": ("input.0", "input.tensor"),
    "distributed.irecv": ("input.0", "input.tensor"),
    "distributed.all_gather": ("input.0", "input.tensor_list"),
    "distributed.reduce_scatter": ("input.0", "input.output"),
    "distributed._reduce_scatter_base": ("input.0", "input.output"),
    "distributed._all_gather_base": ("input.0", "input.output_tensor"),
    "distributed.all_gather_into_tensor": ("input.0", "input.output_tensor"),
    "distributed.reduce_scatter_tensor": ("input.0", "input.output"),
    "distributed.all_to_all_single": ("input.0", "input.output"),
    "tensor.masked_fill_": ("input.0",),
}
"""By function, in small letters: places of memory that nobody has written yet, or that is written anew. Of
`mintdistributed` the same holds as of `distributed`."""


def levels(columns: Columns) -> list[Level]:
    """The level of each call of a dump."""
    if not len(columns):
        return [""] * len(columns.names)
    bad = _not_finite(columns)
    return [_level(columns, call, name, bad) for call, name in enumerate(columns.names)]


def _level(columns: Columns, call: int, name: str, bad: NDArray[np.bool_]) -> Level:
    ignored = WITHOUT_MEANING.get(_function(name), ())
    rows: dict[int, list[int]] = {INPUT: [], OUTPUT: []}
    for part, of_part in rows.items():
        word = "input" if part == INPUT else "output"
        for row in columns.tensors(call, part):
            place = ".".join((word, *columns.path_of(row)))
            if not any(place == one or place.startswith(f"{one}.") for one in ignored):
                of_part.append(row)
    came, went = (bool(bad[of_part].any()) for of_part in rows.values())
    if went:
        return "high" if came else "critical"
    if came:
        return "medium"
    before, after = (max((_norm(columns, row) for row in of_part), default=math.nan) for of_part in rows.values())
    return "high" if after > GROWTH * (before or 1.0) else ""


def _function(name: str) -> str:
    stem = names.parse(name).stem.lower()
    return stem.removeprefix("mint") if stem.startswith("mintdistributed.") else stem


def _norm(columns: Columns, row: int) -> float:
    norm = columns.numbers_of(row)[3]
    return norm if norm == norm else 0.0


def _not_finite(columns: Columns) -> NDArray[np.bool_]:
    kind = np.frombuffer(columns.kind, np.uint8)
    high, low, mean = (columns.column(name) for name in ("max", "min", "mean"))
    bad: NDArray[np.bool_] = (kind == TENSOR) & ~(np.isfinite(high) & np.isfinite(low) & np.isfinite(mean))
    for row, statistics in columns.odd.items():
        numbers = () if statistics is None else (statistics.max, statistics.min, statistics.mean)
        bad[row] = any(type(number) is float and not math.isfinite(number) for number in numbers)
    return bad
