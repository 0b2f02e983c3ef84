"""Records the calls of cells in graphs, in one step, from the reports of operators in running graphs.

Forward operators run in the order of the program, so the calls that have begun and not ended form a stack, which
determines the enclosing calls. Gradients arrive in any order, also before the forward has ended: each has the token of
its call. Backward calls are recorded in the reverse order of the forward calls.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Protocol, TypeAlias

import numpy as np
from mindspore.common.dtype import Type

from msprobe.base.errors import reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.names import cell_call
from msprobe.base.schema import NUMBERS
from msprobe.base.scope import Scope
from msprobe.base.settings import CollectOptions
from msprobe.base.statistic import Array
from msprobe.store.describe import ArrayDescriber, place_of_run
from msprobe.store.writer import StepWriter

from .operators import numpy_type
from .structures import Structure, arguments, results

Records = dict[str, str]
"""Records by place in a part of a call."""

Sent: TypeAlias = Array | memoryview | bytes | str | None
"""A tensor as an operator sends it: its elements, flat or shaped; None or no bytes if empty; or its record (str)."""

_KIND = "mindspore.Tensor"
_ALL_ZERO = "".join(f'"{each.key}":0.0,' for each in NUMBERS if each.rule == "extreme")
"""Text in the record of a tensor if and only if all its elements are zero."""


@dataclass(frozen=True, slots=True)
class Value:
    """The location of a tensor in a call.

    part : "input", "kwargs", "parameters" or "output".
    path : place in the part.
    place : place of its gradient, where keyword arguments are counted after the positional ones.
    single : False for a member of a tuple, list or dict, for which the framework sends zeros if it was not used.
    dtype, shape : as known at compile time.
    """

    part: str
    path: str
    place: str
    single: bool
    dtype: Type
    shape: tuple[int, ...]

    def array(self, sent: Sent) -> Array:
        """Return the tensor that was sent, which is not a record."""
        return _array(sent, self.dtype, self.shape)


def _array(sent: Sent, dtype: Type, shape: tuple[int, ...]) -> Array:
    """Return what was sent of a tensor as an array."""
    if 0 in shape:
        return np.zeros(shape, numpy_type(dtype))
    if isinstance(sent, memoryview):
        sent = np.frombuffer(sent, numpy_type(dtype))
    return np.reshape(sent, shape)  # type: ignore[arg-type]  # an array: only empty tensors are sent otherwise


Owners: TypeAlias = tuple[tuple[str, str], ...]
"""The stems of the cells that have a parameter, with its name in each."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A parameter whose gradient an optimizer receives."""

    owners: Owners
    dtype: Type
    shape: tuple[int, ...]


class StepContext(Protocol):
    """The step that calls of graphs are part of: a session of calls from Python, or graphs only."""

    def number(self, stem: str) -> int:
        """Return the number of the next call of a stem."""

    def enclosing(self) -> str | None:
        """Return the name of the forward call that runs the graph; None if it is not recorded."""

    def tail(self) -> str:
        """Return the JSON members that locate a call within the step; empty for the default location."""


class GraphOnlyContext:
    """A step in which only graphs run: calls are numbered here and have no enclosing call from Python."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, stem: str) -> int:
        """Return the number of the next call of a stem."""
        number = self._numbers.get(stem, 0)
        self._numbers[stem] = number + 1
        return number

    def enclosing(self) -> str | None:
        """Return the name of the forward call that runs the graph; None if it is not recorded."""
        return None

    def tail(self) -> str:
        """Return the JSON members that locate a call within the step; empty for the default location."""
        return ""


class Call:
    """A call of a cell in a graph, forward and backward."""

    __slots__ = (
        *("backward", "describer", "ended", "expected_gradients", "gradients", "has_parameters", "inputs"),
        *("is_selected", "keywords", "name", "outputs", "parent", "received_gradients", "stem", "tail", "values"),
    )

    def __init__(
        self, stem: str, name: str, parent: str | None, inputs: Structure, keywords: Structure, tail: str
    ) -> None:
        self.stem, self.name, self.parent, self.tail = stem, name, parent, tail
        self.backward = backward_of(name)
        self.inputs, self.keywords = inputs, keywords
        self.outputs: Structure
        self.is_selected = True
        self.ended = self.has_parameters = False
        self.describer: ArrayDescriber
        self.values: dict[str, Records] = {"input": {}, "kwargs": {}, "parameters": {}, "output": {}}
        self.gradients: dict[str, Records] = {"input": {}, "output": {}}
        self.expected_gradients, self.received_gradients = inputs.gradient_count + keywords.gradient_count, 0


class Run:
    """A run of a model. Calls in it are part of the enclosing call `name`, and their entries contain the run.

    `tail_before` is the tail of entries that is restored when the run ends.
    """

    __slots__ = ("name", "tail_before")

    def __init__(self, name: str | None, tail_before: str) -> None:
        self.name, self.tail_before = name, tail_before


class GraphCalls:
    """Recorder of the calls of graphs in one step; receives the reports of operators. Thread-safe.

    Failures are logged once, noted in the dump, and never reach the training.
    """

    def __init__(self, options: CollectOptions, writer: StepWriter, scope: Scope, context: StepContext) -> None:
        self._mode = options.data_mode
        self._options, self._writer, self._scope, self._context = options, writer, scope, context
        self._selects_all = scope.trivial
        self._describer = ArrayDescriber(writer, saves=options.saves, digests=options.digests, extra=options.extra)
        self._saving_describer = ArrayDescriber(writer, saves=True, digests=options.digests, extra=options.extra)
        self._lock = threading.RLock()
        self._calls: dict[int, Call] = {}
        self._open: list[Call | Run] = []
        self._tail = ""
        self._runs: dict[int, int] = {}
        self._all_runs: dict[int, Run] = {}
        # If a run begins after gradients of an earlier run arrived, another pass (forward and backward) begins.
        self._passes: list[list[tuple[Call, bool]]] = [[]]
        self._written: set[str] = set()
        self._order: list[str] = []
        self._parameters_grad: dict[str, list[str]] = {}
        self._optimizer_ran = False
        self.listens = True
        self.any = self.is_interrupted = False

    @property
    def takes_records(self) -> bool:
        """Return whether operators may send records instead of tensors: every record is needed, and no tensor is."""
        options, mode = self._options, self._mode
        is_all = mode.forward and mode.backward and mode.input and mode.output and self._selects_all
        is_more = options.any_file or options.digests or options.extra or self._writer.holder is not None
        return options.values and is_all and not is_more

    # ---- reports of operators --------------------------------------------------------------------------------------

    def begin(self, token: int, stem: str, inputs: Structure, keywords: Structure) -> None:
        """Begin a call."""
        self.guard(stem, "input", self._begin, token, stem, inputs, keywords)

    def values(self, token: int, described: Sequence[Value], tensors: Sequence[Sent]) -> None:
        """Add values of a forward call."""
        call = self._calls.get(token)
        if call is not None:
            with self._lock:
                self._add_values(call, described, tensors)

    def begin_run(self, token: int, model: int) -> None:
        """Begin a run of a model; `model` is its number in the order of registration."""
        self.guard("step", "run", self._begin_run, token, model)

    def end_run(self, token: int) -> None:
        """End a run of a model."""
        self.guard("step", "run", self._end_run, token)

    def end(self, token: int, outputs: Structure, described: Sequence[Value], tensors: Sequence[Sent]) -> None:
        """End a call, with the values of its results."""
        call = self._calls.get(token)
        if call is not None:
            with self._lock:
                self._add_values(call, described, tensors)
                self.guard(call.name, "output", self._end, call, outputs)

    def gradient(self, token: int, value: Value, tensor: Sent) -> None:
        """Add a gradient of a call."""
        call = self._calls.get(token)
        if call is not None:
            self.guard(call.name, f"{value.part}.{value.place}", self._gradient, call, value, tensor)

    def parameter_gradients(self, owned: Sequence[Owned], tensors: Sequence[Sent]) -> None:
        """Record the gradients of parameters that an optimizer receives."""
        self._optimizer_ran = True
        entries: dict[str, list[str]] = {}
        for each, tensor in zip(owned, tensors, strict=True):
            for stem, parameter in each.owners:
                part = f"{stem}.parameters_grad"
                self.guard(part, parameter, self._parameter_gradient, entries, stem, parameter, each, tensor)
        for name, members in entries.items():
            self.guard(name, "gradients", self._writer.call, name, None, None, f"{{{','.join(members)}}}")

    def interrupted(self, cause: str) -> None:
        """Record in the dump that the step was interrupted, once."""
        if not self.is_interrupted:
            self.is_interrupted = True
            if isinstance(self._context, GraphOnlyContext):  # otherwise the session of calls from Python records it
                self.guard("step", "interrupted", self._writer.missing, "step", "interrupted", cause)

    def guard(self, name: str, part: str, work: Callable[..., None], *args: Any) -> None:
        """Call `work(*args)` under the lock; a failure is noted in the dump for a name and a part, and not raised."""
        with self._lock:
            try:
                work(*args)
            except Exception as cause:  # a debugger never stops the training because of itself
                if must_propagate(cause):
                    raise
                self._describer.lost(name, part, reason(cause))

    # ---- forward ---------------------------------------------------------------------------------------------------

    def _begin(self, token: int, stem: str, inputs: Structure, keywords: Structure) -> None:
        if not self.listens:
            return
        self.any = True
        name = cell_call(stem, self._context.number(stem), "forward")
        parent = self._open[-1].name if self._open else self._context.enclosing()
        call = Call(stem, name, parent, inputs, keywords, self._tail or self._context.tail())
        call.is_selected = self._selects_all or self._scope.enter(name)
        call.describer = self._describer_of(name) if self._options.saved else self._describer
        self._calls[token] = call
        self._open.append(call)
        self._passes[-1].append((call, True))

    def _begin_run(self, token: int, model: int) -> None:
        if self.listens:
            enclosing = self._open[-1].name if self._open else self._context.enclosing()
            self._all_runs[token] = run = Run(enclosing, self._tail)
            self._open.append(run)
            number = self._runs.get(model, 0)
            self._runs[model] = number + 1
            self._tail = place_of_run(number, model)
            if any(call.received_gradients for call, _ in self._passes[-1]):
                self._passes.append([])

    def _end_run(self, token: int) -> None:
        if (run := self._all_runs.pop(token, None)) is not None:
            while self._open and self._open.pop() is not run:
                pass
            self._tail = run.tail_before

    def _add_values(self, call: Call, described: Sequence[Value], tensors: Sequence[Sent]) -> None:
        for value, tensor in zip(described, tensors, strict=True):
            if type(tensor) is str:
                call.values[value.part][value.path] = tensor
            else:
                self.guard(call.name, f"{value.part}.{value.path}", self._value, call, value, tensor)

    def _value(self, call: Call, value: Value, tensor: Sent) -> None:
        mode = self._mode
        wanted = mode.output if value.part == "output" else mode.input or value.part == "parameters"
        if call.is_selected and mode.forward and wanted:
            part = f"{value.part}.{value.path}"
            record = call.describer.array(value.array(tensor), call.name, part, _KIND, str(value.dtype))
            call.values[value.part][value.path] = record

    def _end(self, call: Call, outputs: Structure) -> None:
        while self._open and self._open.pop() is not call:
            pass
        self._passes[-1].append((call, False))
        if not self._selects_all:
            self._scope.leave(call.name)
        call.outputs = results(outputs)
        call.ended = True
        call.expected_gradients += call.outputs.gradient_count
        self._writer.call(call.name, call.parent, None, self._entry(call))
        call.has_parameters = call.is_selected and bool(call.values["parameters"])
        if not (call.inputs.has_known_shapes and call.keywords.has_known_shapes and outputs.has_known_shapes):
            self._note_unknown_shapes(call)
        call.values.clear()
        self._write_complete(call)

    def _entry(self, call: Call) -> str | None:
        if not call.is_selected or not self._mode.forward or not self._options.values:
            return None
        parts = []
        if self._mode.input:
            listed, named = self._part(call, "input", call.inputs), self._part(call, "kwargs", call.keywords)
            parts.append(f'"input_args":{listed},"input_kwargs":{named}')
        if own := call.values["parameters"]:
            parts.append(f'"parameters":{{{",".join([f"{quote(k)}:{record}" for k, record in own.items()])}}}')
        if self._mode.output:
            parts.append(f'"output":{self._part(call, "output", call.outputs)}')
        return f"{{{','.join(parts)}{call.tail}}}" if parts else None

    def _part(self, call: Call, part: str, structure: Structure) -> str:
        records = call.values[part]
        for place, value in structure.constants:
            records[place] = call.describer.plain(value, call.name, f"{part}.{place}")
        records.update(structure.dtypes)
        return structure.text(records)

    def _note_unknown_shapes(self, call: Call) -> None:
        """Note in the dump that tensors of unknown shape were not sent."""
        cause = "its shape was unknown when the graph was compiled; use inputs of fixed shapes"
        for part, structure in (("input", call.inputs), ("kwargs", call.keywords), ("output", call.outputs)):
            if not structure.has_known_shapes:
                self._describer.lost(call.name, part, cause)

    # ---- backward --------------------------------------------------------------------------------------------------

    def _gradient(self, call: Call, value: Value, tensor: Sent) -> None:
        part = "input" if value.part == "output" else "output"
        call.received_gradients += 1
        if type(tensor) is str:
            if value.single or _ALL_ZERO not in tensor:
                call.gradients[part][value.place] = tensor
        elif self._mode.input if part == "input" else self._mode.output:
            array = value.array(tensor)
            if value.single or array.any():
                place = f"{part}.{value.place}"
                record = call.describer.array(array, call.backward, place, _KIND, str(value.dtype))
                call.gradients[part][value.place] = record
        self._write_complete(call)

    def _parameter_gradient(
        self, entries: dict[str, list[str]], stem: str, parameter: str, owned: Owned, tensor: Sent
    ) -> None:
        if not (self.listens and self._options.values):
            return
        number = self._context.number(f"{stem}.parameters_grad.{parameter}")
        name = f"{stem}.parameters_grad" if number == 0 else f"{stem}.parameters_grad.{number}"
        if self._selects_all or self._scope.wants(name):
            if type(tensor) is str:
                record = tensor
            else:
                array = _array(tensor, owned.dtype, owned.shape)
                record = self._describer_of(name).array(array, name, parameter, _KIND, str(owned.dtype))
            entries.setdefault(name, []).append(f"{quote(parameter)}:[{record}]")
            self._parameters_grad.setdefault(stem, []).append(name)

    def _describer_of(self, name: str) -> ArrayDescriber:
        return self._saving_describer if self._options.saved and self._options.saves_also(name) else self._describer

    def _write_complete(self, call: Call) -> None:
        """Write a backward call whose gradients have all arrived, so that it is kept if the process ends."""
        if (
            call.ended
            and call.received_gradients
            and call.received_gradients == call.expected_gradients
            and self._selects_all
        ):
            self._write_backward(call, is_selected=True)

    def _write_backward(self, call: Call, is_selected: bool) -> None:
        if call.backward in self._written:
            return
        self._written.add(call.backward)
        entry = None
        if is_selected and self._options.values:
            parts = []
            if self._mode.input:
                parts.append(f'"input":{call.outputs.text(call.gradients["input"])}')
            if self._mode.output:
                given = arguments(call.inputs, call.keywords)
                parts.append(f'"output":{given.text(call.gradients["output"])}')
            entry = f"{{{','.join(parts)}{call.tail}}}"
        parent = backward_of(call.parent) if call.parent else None
        self._writer.call(call.backward, parent, None, entry)
        call.gradients.clear()

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the backward calls that have arrived, in the reverse order of the forward calls."""
        self.guard("step", "gradients", self._flush)

    def note_missing_optimizer(self) -> None:
        """Note why there is no `parameters_grad` if calls with parameters had a backward but no optimizer ran."""
        if not self._optimizer_ran and any(
            c.received_gradients and c.has_parameters for events in self._passes for c, _ in events
        ):
            cause = "no optimizer ran in a graph between start() and stop(); call stop() after the optimizer"
            self._describer.lost("step", "parameters_grad", cause)

    def note_uninstrumented_graph(self, cause: str) -> None:
        """Note that a graph was compiled without operators and therefore reports no calls."""
        self._writer.missing("step", "graph", f"a graph was compiled without the debugger's operators: {cause}")

    def _flush(self) -> None:
        order: list[str] = []
        for events in self._passes:
            order += [call.name for call, is_begin in events if not is_begin]
            order += self._backward_of(events)
        if order != self._order:  # an unchanged order would cause the files to be rewritten
            self._order = order
            self._writer.order(order)

    def _backward_of(self, events: "list[tuple[Call, bool]]") -> list[str]:
        """Write the backward calls of a pass, and return their names in order."""
        order: list[str] = []
        for call, is_begin in reversed(events):
            if not call.received_gradients:
                continue
            if not is_begin:
                if call.backward not in self._written and not self._selects_all:
                    call.is_selected = self._scope.enter(call.backward)
                continue
            if call.name.endswith(".forward.0"):
                order += self._parameters_grad.get(call.stem, ())
            order.append(call.backward)
            if call.backward not in self._written:
                if not self._selects_all:
                    self._scope.leave(call.backward)
                self._write_backward(call, self._selects_all or call.is_selected)
        return order


def backward_of(forward: str) -> str:
    """Return the name of the backward of a forward call."""
    stem, _, number = forward.rpartition(".forward.")
    return f"{stem}.backward.{number}"
