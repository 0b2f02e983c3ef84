"""How bad NaN and infinities are at each call of a dump, by its own records.

| level | condition, the first that holds |
|---|---|
| critical | inputs are finite, an output is not |
| high | inputs and outputs are not |
| medium | inputs are not, outputs are |
| high | all are finite, and the greatest norm of the outputs is more than 100 times that of the inputs |
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.store.record import INPUT, PARAMETERS, PARTS, TENSOR, Columns, Dump

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GROWTH = 100.0
"""So many times the norm of the inputs that of the outputs may be."""

_MEMORY = ("empty", "empty_like", "empty_strided")
_RECEIVED = ("recv", "irecv", "all_gather", "reduce_scatter", "_reduce_scatter_base", "all_gather_into_tensor")

IGNORED: dict[str, tuple[str, ...]] = {
    # What these return was in memory before.
    **{f"{family}.{name}": ("output",) for family in ("torch", "mint", "functional") for name in _MEMORY},
    # These inputs are there to be written into.
    **{
        f"{family}.{name}": ("input.0", "input.tensor", "input.output")
        for family in ("distributed", "mintdistributed")
        for name in (*_RECEIVED, "reduce_scatter_tensor")
    },
    "tensor.masked_fill_": ("input.0",),
}
"""By function, in small letters: the places whose values mean nothing."""


def levels(dump: Dump) -> str:
    """A letter for each call: "." for none, m, h or c; empty where no call has one."""
    columns = dump.columns
    if not len(columns):
        return ""
    bad, norms = _not_finite(columns), np.abs(columns.column("norm"))
    part = np.frombuffer(columns.part, np.uint8)
    counts = ~_ignored(dump) & (np.frombuffer(columns.kind, np.uint8) == TENSOR)
    is_input = (part == INPUT) | (part == PARAMETERS)
    call_of = np.repeat(np.arange(len(columns.names)), np.diff(np.array(columns.starts, np.int64)))
    size = len(columns.names)
    bad_in, bad_out = (
        np.bincount(call_of[bad & counts & chosen], minlength=size) > 0 for chosen in (is_input, ~is_input)
    )
    grows = _grows(call_of, size, norms, counts & is_input & (part == INPUT), counts & ~is_input)
    found = np.full(size, ".")
    found[grows & ~bad_in & ~bad_out] = "h"
    found[bad_in & ~bad_out] = "m"
    found[bad_in & bad_out] = "h"
    found[~bad_in & bad_out] = "c"
    return "".join(found.tolist()) if (found != ".").any() else ""


def _not_finite(columns: Columns) -> Mask:
    """Which tensors have a maximum, minimum or mean that is not finite."""
    found = np.zeros(len(columns), bool)
    for name in ("max", "min", "mean"):
        found |= ~np.isfinite(columns.column(name))
    for row, statistics in columns.odd.items():
        numbers = () if statistics is None else (statistics.max, statistics.min, statistics.mean)
        found[row] = any(type(number) is float and not np.isfinite(number) for number in numbers)
    return found


def _grows(call_of: Ints, size: int, norms: Floats, inputs: Mask, outputs: Mask) -> Mask:
    """Which calls return far greater norms than they received; calls without an input or an output do not."""
    greatest: list[Floats] = []
    for chosen in (inputs, outputs):
        rows = np.flatnonzero(chosen & np.isfinite(norms))
        found = np.full(size, -1.0)
        np.maximum.at(found, call_of[rows], norms[rows])
        greatest.append(found)
    received, returned = greatest
    limit = np.where(received > 0, GROWTH * received, GROWTH)
    return np.asarray((received >= 0) & (returned > limit))


def _ignored(dump: Dump) -> Mask:
    columns = dump.columns
    found = np.zeros(len(columns), bool)
    for at, text in enumerate(columns.names):
        if places := _places(text):
            for row in columns.rows(at):
                place = ".".join((PARTS[columns.part[row]], *columns.path_of(row)[:1]))
                found[row] = place in places or PARTS[columns.part[row]] in places
    return found


@lru_cache(maxsize=1 << 16)
def _places(call: str) -> tuple[str, ...]:
    name = names.parse(call)
    return IGNORED.get(name.stem.lower(), ()) if name.kind == "api" else ()
