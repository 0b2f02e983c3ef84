"""The severity of NaN and infinities at each call of a dump, by the records of that call.

| level | inputs | outputs |
|---|---|---|
| critical | finite | not finite |
| high | not finite | not finite |
| medium | not finite | finite |
| high | finite | finite, with a greatest norm of more than 100 times the inputs' |

A tensor is not finite if its Max, Min or Mean is NaN or infinite. Excluded are: numbers among the arguments, since
masks are filled with infinities on purpose; records whose values are meaningless (`says_nothing`): memory that was not
written yet, and buffers that a call fills; the tensor of `masked_fill_`, whose elements that are written may have any
value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from msprobe.store.record import DEBUG, INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD, TENSOR, Columns

from .pairs import shows_nothing_of

Level = Literal["", "medium", "high", "critical"]

LEVELS: tuple[Level, ...] = ("", "medium", "high", "critical")

GROWTH = 100.0
"""Limit of the norm of outputs, in units of the norm of inputs."""

_PARTLY_WRITTEN = ".masked_fill_."
"""Part of the name of a function that writes into its first argument."""

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sides:
    """The parts of a call that are its inputs and its outputs."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


OF_ARGUMENTS = Sides((INPUT,), (OUTPUT,))
"""As in the graphs of mindstudio-probe, whose viewers show these levels: only arguments and results."""

OF_ALL_VALUES = Sides((INPUT, PARAMETERS), (OUTPUT, PARAMETERS_GRAD, DEBUG))
"""For the report, in which *critical* marks the origin: a module whose weight is NaN passes on the result of an update,
and a gradient of a parameter is a result."""


def levels(columns: Columns, sides: Sides) -> Sequence[Level]:
    """Return the level of each call of a dump."""
    size = len(columns.names)
    if not len(columns):
        return [""] * size
    bad, norms = _not_finite(columns), _norms(columns)
    part = np.frombuffer(columns.part, np.uint8)
    counts = (np.frombuffer(columns.kind, np.uint8) == TENSOR) & ~_ignored(columns)
    is_input, is_output = (counts & np.isin(part, parts) for parts in (sides.inputs, sides.outputs))
    call_of = np.repeat(np.arange(size), np.diff(np.array(columns.starts, np.int64)))
    came, went = (np.bincount(call_of[bad & of], minlength=size) > 0 for of in (is_input, is_output))
    received, returned = (_greatest(call_of, size, norms, of) for of in (is_input & (part == INPUT), is_output))
    grows = (received >= 0) & (returned > GROWTH * np.where(received > 0, received, 1.0))
    found = np.select(
        [went & ~came, went & came, came & ~went, grows],
        [LEVELS.index(level) for level in ("critical", "high", "medium", "high")],
    )
    return [LEVELS[at] for at in found.tolist()]


def _not_finite(columns: Columns) -> Mask:
    """Return the rows with a maximum, minimum or mean that is not finite."""
    found: Mask = ~np.isfinite([columns.column(name) for name in ("max", "min", "mean")]).all(axis=0)
    for row, statistics in columns.odd.items():
        numbers = () if statistics is None else (statistics.max, statistics.min, statistics.mean)
        found[row] = any(type(number) is float and not math.isfinite(number) for number in numbers)
    return found


def _norms(columns: Columns) -> Floats:
    """Return the absolute norms of all rows, NaN if there is none."""
    found: Floats = np.abs(columns.column("norm"))
    for row, statistics in columns.odd.items():
        norm = None if statistics is None else statistics.norm
        found[row] = math.nan if norm is None else abs(norm)
    return found


def _greatest(call_of: NDArray[np.int64], size: int, norms: Floats, chosen: Mask) -> Floats:
    """Return the greatest norm of the chosen rows of each call; -1 if there is none."""
    rows = np.flatnonzero(chosen & ~np.isnan(norms))
    found = np.full(size, -1.0)
    np.maximum.at(found, call_of[rows], norms[rows])
    return found


def _ignored(columns: Columns) -> Mask:
    """Return the rows whose values are meaningless."""
    found = np.zeros(len(columns), bool)
    found[list(shows_nothing_of(columns))] = True
    for at, name in enumerate(columns.names):
        if _PARTLY_WRITTEN in name:
            for row in columns.tensors(at, INPUT):
                found[row] |= columns.path_of(row)[:1] == ("0",)
    return found
