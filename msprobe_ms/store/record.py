"""What a dump holds, as values: a dump has calls, a call has records.

These are what the reader gives and the comparison takes; no dictionary with magic keys goes past the reader.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from .layout import TENSORS

if TYPE_CHECKING:
    from .columns import Columns

Part = Literal["input", "parameters", "output", "parameters_grad", "debug"]
Kind = Literal["tensor", "value", "null"]
Gradient = Literal["own", "accumulated", "unavailable"]
Number = int | float | bool | None


class NonFinite(NamedTuple):
    """How many elements of a tensor are NaN, infinite and infinite below zero; at least one is."""

    nan: int
    positive_inf: int
    negative_inf: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one tensor as the dump holds them; None where a dtype or an empty tensor has none.

    `true_count` says how many elements of a bool tensor are true, `non_finite` how many are not finite; None where the
    dump does not say, and `non_finite` also where all are finite. `is_damaged`: some are None because what stands there
    is no number.
    """

    max: Number
    min: Number
    mean: Number
    norm: Number
    true_count: Number = None
    non_finite: NonFinite | None = None
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One value of a call.

    `name` is the row's name (`Functional.add.0.forward.input.1`). `kind` says what the value is: a `tensor` has dtype,
    shape and statistics; a `value` (number, text, slice, dtype...) has `value`; a `null` was None or absent.
    `shape` is None where there is none. `file` is the npy's name in `dump_tensor_data`, empty without one.
    `gradient` says how a backward output came about: `own` is this call's contribution, `accumulated` the sum over
    every user of the tensor. `source` says who produced a forward input: `call X.output.0`, `parameter fc1.weight`,
    `leaf`, `code` (operations that were not recorded), or nothing where that is not known.
    """

    name: str
    part: Part
    path: tuple[str, ...]
    kind: Kind
    type: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistics: Statistics | None = None
    value: object = None
    digest: str = ""
    file: str = ""
    gradient: Gradient = "own"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One execution of a cell, API, primitive or jit function, forward or backward, with all its records.

    `records` are in row order: inputs (arguments, then keyword arguments), parameters, outputs, parameter gradients.
    `parent` is the enclosing cell's call, None at the root. `stack` is innermost frame first; a backward call has none.
    `missing` names the parts that could not be collected, `lost` those of them whose cause the dump says: there was a
    value. A kernel's slot that the framework did not write is missing, and not lost.
    """

    name: str
    records: tuple[Record, ...]
    parent: str | None = None
    stack: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    is_recompute: bool = False
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dump:
    """One step of one rank, read. `where` is the path for messages; `missing` says what could not be collected at all.

    `calls` of a dump that was read are made of its columns one by one when they are asked for, and not kept.
    `construct` maps every executed call's name to its parent, also of calls that were not collected. `unfinished` says
    why calls may be missing at the end (the process still writes, or died); empty for a dump that was closed.
    `tensors` is the folder, below `folder`, that holds the files of the records, by their bare names; empty for files
    of others that lie anywhere below `folder`, and then a record's `file` is a path relative to it. `run` is the same
    for all dumps of one run; empty where the dump does not say. `extra_info` is False where the dump says that no call
    stacks and no enclosing cells were wanted. `made_with` has versions (`tool`, `framework`, `python`, `numpy`) and the
    `device`, as far as the dump says.
    """

    where: str
    folder: str
    task: str
    level: str
    framework: str
    calls: Sequence[Call]
    construct: dict[str, str | None] = field(default_factory=dict)
    step: int | None = None
    rank: int | None = None
    format_version: int = 0
    missing: tuple[str, ...] = ()
    unfinished: str = ""
    tensors: str = TENSORS
    run: str = ""
    extra_info: bool = True
    made_with: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def columns(self) -> "Columns":
        """All records as columns: those behind `calls`, or made of them where they are plain ones."""
        from .columns import Calls, columns_of  # here: columns are made of what this file describes

        return self.calls.columns if isinstance(self.calls, Calls) else columns_of(self.calls)
