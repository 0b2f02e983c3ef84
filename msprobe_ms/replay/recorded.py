"""The parts of one recorded call: its arguments as Python passed them, its parameters, outputs and gradients.

Tensors are `Leaf`s, which are read when they are needed. A backward call comes with its forward's arguments, and with
the argument that each gradient belongs to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor
from msprobe.store.record import Dump, Record


@dataclass(frozen=True)
class Residual:
    """The residual of one recorded output: its distance from the float64 reference on the call's recorded inputs.

    `part` and `path` name the record. `count` is the number of elements measured: all, or those of the sample of a very
    large call. The figures are those of `residual.measured`, which has their formulas.
    """

    part: str
    path: tuple[str, ...]
    count: int
    eta: float
    peak: float
    bias: float
    slope: float
    relative: float


@dataclass(frozen=True)
class Replayed:
    """A call that was executed again.

    `operation` is one canonical name for both frameworks: calls of one kind share it. `moves_data`: the call only
    copies, arranges or casts its inputs, so that its outputs must be equal to the reference (rounded to their dtype).
    `residuals` are per candidate of what the record does not tell (`eps=1e-05`); the only key is "" where there is
    nothing to choose. `is_exhaustive` is False where the candidates are the usual values of an option and the call may
    have had another one (an epsilon, a stride, any attribute of a primitive): a residual that is large under every
    candidate then has no meaning.
    """

    operation: str
    moves_data: bool
    residuals: Mapping[str, tuple[Residual, ...]]
    is_exhaustive: bool = True


class Cause(Enum):
    """Why a call was not replayed."""

    NO_LIBRARY = "torch is not installed"
    UNKNOWN_OPERATION = "no operation with this name is known"
    COMMUNICATION = "a collective: other ranks take part"
    RANDOM = "the output depends on random numbers"
    UNINITIALISED = "the output is uninitialized memory"
    MISSING_TENSOR = "a tensor of the call was not recorded, or cannot be read"
    MISSING_FORWARD = "the forward call of this backward call is not in the dump"
    ACCUMULATED_GRADIENT = "a gradient is the sum over all users of a tensor"
    NOTHING_TO_MEASURE = "the call has no output or gradient that can be measured"
    UNSUPPORTED_ARGUMENT = "an argument has no counterpart in the reference"
    UNKNOWN_CELL = "a cell of an unknown class"
    NOT_A_CALL = "a record that is not a call of a function or cell"
    OTHER_SHAPE = "the reference has another shape than the record"
    TOO_LARGE = "the call is too large, and has no sample"
    FAILED = "the reference raised"


NOT_APPLICABLE = frozenset(
    {
        *(Cause.COMMUNICATION, Cause.RANDOM, Cause.UNINITIALISED, Cause.ACCUMULATED_GRADIENT),
        *(Cause.NOTHING_TO_MEASURE, Cause.UNKNOWN_CELL, Cause.NOT_A_CALL),
    }
)
"""Causes for which a call has no value in float64 that it could be checked against; any other leaves it unjudged."""


@dataclass(frozen=True)
class NotReplayed:
    """A call that was not replayed, and why; `detail` names the argument, the record or the exception's class."""

    cause: Cause
    detail: str = ""


Array = np.ndarray[Any, Any]
Path = tuple[str, ...]


class CannotReplay(Exception):
    """Raised inside this package only: carries the answer out of a replay that cannot go on."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(cause, detail)
        self.outcome = NotReplayed(cause, detail)


@dataclass(frozen=True, eq=False)
class Leaf:
    """A recorded tensor: a leaf of the tree of arguments."""

    dump: Dump
    record: Record

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the recorded value."""
        return self.record.shape or ()

    @property
    def dtype(self) -> str:
        """Return the dtype in NumPy's notation: `float32`, also for `Float32` and `torch.float32`; `bfloat16`."""
        return self.record.dtype.rpartition(".")[2].lower()

    @property
    def is_floating(self) -> bool:
        """Return whether it is a tensor with a real floating-point dtype."""
        return "float" in self.dtype

    @cached_property
    def array(self) -> Array:
        """Return the elements; CannotReplay if they were not recorded or cannot be read."""
        array = self.loaded()
        if tuple(array.shape) != self.shape:
            raise CannotReplay(Cause.MISSING_TENSOR, self.record.name)
        return array

    def loaded(self) -> Array:
        """Return the content of the record's file; CannotReplay where there is none, or it cannot be read."""
        if not self.record.file:
            raise CannotReplay(Cause.MISSING_TENSOR, self.record.name)
        try:
            return load_tensor(self.dump, self.record)
        except DumpError as err:
            raise CannotReplay(Cause.MISSING_TENSOR, self.record.name) from err


@dataclass(frozen=True, eq=False)
class Number(Leaf):
    """A number that a call returned, as a tensor without axes."""

    @cached_property
    def array(self) -> Array:
        """Return the number."""
        return np.array(self.record.value, self.dtype)


_NUMBERS = {"int": "int64", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class Named:
    """A dtype, device or other thing that the record has by its name: `kind` is the record's type."""

    kind: str
    text: str


@dataclass(frozen=True)
class RecordedCall:
    """A call of an API, primitive or cell.

    `stem` is its name without direction and number. `args` and `kwargs` are those of the forward call, `parameters`
    a cell's own; `activation` is the class of the cell that a `Dense` applies to its result. `outputs` are the
    forward's. Of a backward call, `incoming` are the gradients with respect to the outputs, by the outputs' paths, and
    `gradients` are pairs: the leaf of the forward, and the record of its gradient.
    """

    name: str
    stem: str
    kind: names.Kind
    framework: str
    is_backward: bool
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    parameters: Mapping[str, Leaf]
    outputs: Mapping[Path, Leaf]
    incoming: Mapping[Path, Leaf] = field(default_factory=dict)
    gradients: tuple[tuple[Leaf, Leaf], ...] = ()
    activation: str = ""

    @property
    def tops(self) -> tuple[str, ...]:
        """Return the arguments by position or keyword, as for `Correspondence.fits`."""
        return (*(str(i) for i in range(len(self.args))), *self.kwargs)


def call_of(dump: Dump, at: int) -> RecordedCall:
    """Return the call at a place of a dump; CannotReplay where it is none, or its forward is not there."""
    call = dump.calls[at]
    name = names.parse(call.name)
    if name.kind not in ("api", "cell") or not name.direction:
        raise CannotReplay(Cause.NOT_A_CALL, call.name)
    is_backward = name.direction == "backward"
    forward = call
    if is_backward:
        place = dump.counterpart(at, "forward")
        if place < 0:
            raise CannotReplay(Cause.MISSING_FORWARD, names.counterpart(call.name, "forward"))
        forward = dump.calls[place]
    if "input" in forward.missing or any(part.startswith("input.") for part in forward.missing):
        raise CannotReplay(Cause.MISSING_TENSOR, forward.name)
    args, kwargs = _arguments(dump, [r for r in forward.records if r.part == "input"])
    tensors = [r for r in forward.records if r.kind == "tensor"]
    made = RecordedCall(
        name=call.name,
        stem=name.stem,
        kind=name.kind,
        framework=dump.framework,
        is_backward=is_backward,
        args=args,
        kwargs=kwargs,
        parameters={".".join(r.path): Leaf(dump, r) for r in tensors if r.part == "parameters"},
        outputs={r.path: Leaf(dump, r) for r in tensors if r.part == "output"} or _numbers(dump, forward.records),
        activation=dump.cells.get(f"{name.path}.activation", "") if name.kind == "cell" else "",
    )
    return _with_gradients(made, dump, [r for r in call.records if r.kind == "tensor"]) if is_backward else made


def _numbers(dump: Dump, records: Sequence[Record]) -> dict[Path, Leaf]:
    """Return the whole numbers and bools that a call without tensors returned, such as a shape."""
    return {
        r.path: Number(dump, replace(r, kind="tensor", dtype=_NUMBERS[r.type], shape=()))
        for r in records
        if r.part == "output" and r.kind == "value" and r.type in _NUMBERS
    }


def _with_gradients(call: RecordedCall, dump: Dump, records: Sequence[Record]) -> RecordedCall:
    """Return a backward call with its gradients, whose paths begin with the number of the argument, keywords last."""
    arguments = {leaf.record.path: leaf for leaf in leaves([call.args, call.kwargs])}
    incoming, pairs, accumulated = {}, [], []
    for record in records:
        if record.part == "input":
            if record.gradient != "own":
                raise CannotReplay(Cause.ACCUMULATED_GRADIENT, record.name)
            incoming[record.path] = Leaf(dump, record)
        elif record.part == "output" and record.gradient != "own":
            accumulated.append(record.name)
        elif record.part == "output" and record.path and record.path[0].isdigit():
            first, *rest = record.path
            of = arguments.get((call.tops[int(first)], *rest)) if int(first) < len(call.tops) else None
            if of is not None:
                pairs.append((of, Leaf(dump, record)))
    if not pairs and accumulated:
        raise CannotReplay(Cause.ACCUMULATED_GRADIENT, accumulated[0])
    return replace(call, incoming=incoming, gradients=tuple(pairs))


class _Branch(dict[str, Any]):
    """A list, tuple or dict of arguments in the making."""


def _arguments(dump: Dump, records: Sequence[Record]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments, assembled by the paths of their records.

    Records do not distinguish lists and tuples: both become tuples. A position without a record was empty.
    """
    top = _Branch()
    for record in records:
        inner = top
        for part in record.path[:-1]:
            found = inner.setdefault(part, _Branch())
            if not isinstance(found, _Branch):
                raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, record.name)
            inner = found
        inner[record.path[-1]] = _value(dump, record)
    positions = [int(key) for key in top if key.isdigit()]
    args = tuple(_built(top.get(str(i), {})) for i in range(max(positions, default=-1) + 1))
    return args, {key: _built(value) for key, value in top.items() if not key.isdigit()}


def _built(value: Any) -> Any:
    if isinstance(value, dict):
        if all(key.isdigit() for key in value):
            return tuple(_built(value[key]) for key in sorted(value, key=int))
        return {key: _built(inner) for key, inner in value.items()}
    return value


def _value(dump: Dump, record: Record) -> Any:
    kind, value = record.type, record.value
    if record.kind == "tensor":
        return Leaf(dump, record)
    if record.kind == "null":
        return None
    if kind == "slice" and isinstance(value, (list, tuple)):
        return slice(*value)
    if kind == "ellipsis":
        return ...
    if kind in ("bool", "int", "float", "str") or not isinstance(value, str):
        return value
    return Named(kind, value)


def leaves(value: Any) -> Iterator[Leaf]:
    """Return every tensor in a tree of arguments, in order."""
    if isinstance(value, Leaf):
        yield value
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from leaves(inner)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a tree of arguments with `change` applied to everything but containers; lists become tuples."""
    if isinstance(value, (tuple, list)):
        return tuple(mapped(inner, change) for inner in value)
    if isinstance(value, Mapping):
        return {key: mapped(inner, change) for key, inner in value.items()}
    return change(value)
