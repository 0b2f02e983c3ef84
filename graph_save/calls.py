"""One step of a Cell dump in graphs: what the operators of running graphs report becomes the calls of a dump.

Forward operators run in the order of the program, so the calls that have begun and not ended are a stack, which says
what encloses what. Gradients come in any order, also before the forward has ended: each belongs to the call whose
token it carries, and the order of the backward calls is the order of the forward ones, backwards.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Protocol, TypeAlias

import numpy as np
from mindspore.common.dtype import Type

from msprobe.base.errors import reason
from msprobe.base.interrupts import passes
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
"""Records by their place in a part of a call."""

Sent: TypeAlias = Array | memoryview | bytes | str | None
"""A tensor as an operator sends it: its elements, flat or shaped; None or nothing of one without any; or its record."""

_KIND = "mindspore.Tensor"
_ZERO = "".join(f'"{each.key}":0.0,' for each in NUMBERS if each.rule == "extreme")
"""What the record of a tensor has in which every element is zero, and of no other."""


@dataclass(frozen=True, slots=True)
class Value:
    """Where a tensor stands in a call: `part` is `input`, `kwargs`, `parameters` or `output`, `path` its place there.

    `place` is the gradient's: keyword arguments are counted behind the positional ones. Of one that is not `single`,
    but stands beside others in a tuple, list or dict, the framework sends zeros where nothing used it.
    """

    part: str
    path: str
    place: str
    single: bool
    dtype: Type
    shape: tuple[int, ...]

    def array(self, sent: Sent) -> Array:
        """The tensor that was sent here, which was no record."""
        return _array(sent, self.dtype, self.shape)


def _array(sent: Sent, dtype: Type, shape: tuple[int, ...]) -> Array:
    """What was sent of a tensor as an array."""
    if 0 in shape:
        return np.zeros(shape, numpy_type(dtype))
    if isinstance(sent, memoryview):
        sent = np.frombuffer(sent, numpy_type(dtype))
    return np.reshape(sent, shape)  # type: ignore[arg-type]  # an array: others are sent of no elements alone


Owners: TypeAlias = tuple[tuple[str, str], ...]
"""The cells that a parameter belongs to, by their stems, with its name in each."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A parameter whose gradient an optimizer receives."""

    owners: Owners
    dtype: Type
    shape: tuple[int, ...]


class Surroundings(Protocol):
    """What else runs in a step in which graphs run: the session of Python's calls, or nothing."""

    def number(self, stem: str) -> int:
        """The number of the next call of a stem."""

    def enclosing(self) -> str | None:
        """The forward call that runs the graph; None where nothing recorded does."""

    def tail(self) -> str:
        """What the entries of calls made now say of their place in the step, as members; empty at the usual place."""


class GraphsOnly:
    """The surroundings of graphs in a step: here nothing else runs, so calls are numbered here and nothing encloses
    them. The session of Python's calls has the same methods, where graphs are recorded in its dump.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, stem: str) -> int:
        """The number of the next call of a stem."""
        number = self._numbers.get(stem, 0)
        self._numbers[stem] = number + 1
        return number

    def enclosing(self) -> str | None:
        """The forward call that runs the graph; None where nothing recorded does."""
        return None

    def tail(self) -> str:
        """What the entries of calls made now say of their place in the step, as members; empty at the usual place."""
        return ""


class Call:
    """A cell's call in a graph, forward and backward."""

    __slots__ = (
        *("arrived", "backward", "describer", "ended", "expected", "gradients", "inputs", "keywords", "kept", "learns"),
        *("name", "outputs", "parent", "stem", "tail", "values"),
    )

    def __init__(
        self, stem: str, name: str, parent: str | None, inputs: Structure, keywords: Structure, tail: str
    ) -> None:
        self.stem, self.name, self.parent, self.tail = stem, name, parent, tail
        self.backward = backward_of(name)
        self.inputs, self.keywords = inputs, keywords
        self.outputs: Structure
        self.kept = True
        self.ended = self.learns = False
        self.describer: ArrayDescriber
        self.values: dict[str, Records] = {"input": {}, "kwargs": {}, "parameters": {}, "output": {}}
        self.gradients: dict[str, Records] = {"input": {}, "output": {}}
        self.expected, self.arrived = inputs.flows + keywords.flows, 0


class Run:
    """A run of a model: what is inside stands in the call around it, and says in its entries which run it was."""

    __slots__ = ("before", "name")

    def __init__(self, name: str | None, before: str) -> None:
        self.name, self.before = name, before


class GraphCalls:
    """Records the calls of graphs in one step; a `Listener` of the operators. Thread-safe.

    What goes wrong in here is logged once, noted in the dump, and never reaches the training.
    """

    def __init__(self, wishes: CollectOptions, writer: StepWriter, scope: Scope, surroundings: Surroundings) -> None:
        self._mode = wishes.data_mode
        self._wishes, self._writer, self._scope, self._around = wishes, writer, scope, surroundings
        self._is_all = scope.trivial
        self._describer = ArrayDescriber(writer, saves=wishes.saves, digests=wishes.digests, extra=wishes.extra)
        self._saving = ArrayDescriber(writer, saves=True, digests=wishes.digests, extra=wishes.extra)
        self._lock = threading.RLock()
        self._calls: dict[int, Call] = {}
        self._open: list[Call | Run] = []
        self._tail = ""
        self._runs: dict[int, int] = {}
        self._all_runs: dict[int, Run] = {}
        # Where a run begins when gradients of an earlier one have come, another pass begins, forward and backward.
        self._passes: list[list[tuple[Call, bool]]] = [[]]
        self._written: set[str] = set()
        self._order: list[str] = []
        self._parameters_grad: dict[str, list[str]] = {}
        self._optimizer_ran = False
        self.listens = True
        self.any = self.is_interrupted = False

    @property
    def takes_records(self) -> bool:
        """Whether operators may send the records of tensors in place of them: all are wanted, and nothing else is."""
        wishes, mode = self._wishes, self._mode
        is_all = mode.forward and mode.backward and mode.input and mode.output and self._is_all
        is_more = wishes.any_file or wishes.digests or wishes.extra or self._writer.holder is not None
        return wishes.values and is_all and not is_more

    # ---- what the operators report ---------------------------------------------------------------------------------

    def begin(self, token: int, stem: str, inputs: Structure, keywords: Structure) -> None:
        """A call begins."""
        self.guard(stem, "input", self._begin, token, stem, inputs, keywords)

    def values(self, token: int, described: Sequence[Value], tensors: Sequence[Sent]) -> None:
        """Values of a forward call."""
        call = self._calls.get(token)
        if call is not None:
            with self._lock:
                self._take(call, described, tensors)

    def begin_run(self, token: int, model: int) -> None:
        """A run of a model begins; `model` is its number in the order of the models."""
        self.guard("step", "run", self._begin_run, token, model)

    def end_run(self, token: int) -> None:
        """A run of a model ends."""
        self.guard("step", "run", self._end_run, token)

    def end(self, token: int, outputs: Structure, described: Sequence[Value], tensors: Sequence[Sent]) -> None:
        """A call ends, with the values of its results."""
        call = self._calls.get(token)
        if call is not None:
            with self._lock:
                self._take(call, described, tensors)
                self.guard(call.name, "output", self._end, call, outputs)

    def gradient(self, token: int, value: Value, tensor: Sent) -> None:
        """A gradient of a call."""
        call = self._calls.get(token)
        if call is not None:
            self.guard(call.name, f"{value.part}.{value.place}", self._gradient, call, value, tensor)

    def parameter_gradients(self, owned: Sequence[Owned], tensors: Sequence[Sent]) -> None:
        """Gradients of parameters, all that an optimizer receives."""
        self._optimizer_ran = True
        made: dict[str, list[str]] = {}
        for each, tensor in zip(owned, tensors, strict=True):
            for stem, parameter in each.owners:
                part = f"{stem}.parameters_grad"
                self.guard(part, parameter, self._parameter_gradient, made, stem, parameter, each, tensor)
        for name, members in made.items():
            self.guard(name, "gradients", self._writer.call, name, None, None, f"{{{','.join(members)}}}")

    def interrupted(self, cause: str) -> None:
        """Have the dump say that the step was interrupted; once."""
        if not self.is_interrupted:
            self.is_interrupted = True
            if isinstance(self._around, GraphsOnly):  # else the session of Python's calls says so
                self.guard("step", "interrupted", self._writer.missing, "step", "interrupted", cause)

    def guard(self, name: str, part: str, work: Callable[..., None], *args: Any) -> None:
        """Do a piece of recording that the training must not feel; what fails is noted under a name and a part."""
        with self._lock:
            try:
                work(*args)
            except Exception as cause:  # a debugger never stops the training because of itself
                if passes(cause):
                    raise
                self._describer.lost(name, part, reason(cause))

    # ---- forward ---------------------------------------------------------------------------------------------------

    def _begin(self, token: int, stem: str, inputs: Structure, keywords: Structure) -> None:
        if not self.listens:
            return
        self.any = True
        name = cell_call(stem, self._around.number(stem), "forward")
        parent = self._open[-1].name if self._open else self._around.enclosing()
        call = Call(stem, name, parent, inputs, keywords, self._tail or self._around.tail())
        call.kept = self._is_all or self._scope.enter(name)
        call.describer = self._describer_of(name) if self._wishes.saved else self._describer
        self._calls[token] = call
        self._open.append(call)
        self._passes[-1].append((call, True))

    def _begin_run(self, token: int, model: int) -> None:
        if self.listens:
            enclosing = self._open[-1].name if self._open else self._around.enclosing()
            self._all_runs[token] = run = Run(enclosing, self._tail)
            self._open.append(run)
            number = self._runs.get(model, 0)
            self._runs[model] = number + 1
            self._tail = place_of_run(number, model)
            if any(call.arrived for call, _ in self._passes[-1]):
                self._passes.append([])

    def _end_run(self, token: int) -> None:
        if (run := self._all_runs.pop(token, None)) is not None:
            while self._open and self._open.pop() is not run:
                pass
            self._tail = run.before

    def _take(self, call: Call, described: Sequence[Value], tensors: Sequence[Sent]) -> None:
        for value, tensor in zip(described, tensors, strict=True):
            if type(tensor) is str:
                call.values[value.part][value.path] = tensor
            else:
                self.guard(call.name, f"{value.part}.{value.path}", self._value, call, value, tensor)

    def _value(self, call: Call, value: Value, tensor: Sent) -> None:
        mode = self._mode
        wanted = mode.output if value.part == "output" else mode.input or value.part == "parameters"
        if call.kept and mode.forward and wanted:
            part = f"{value.part}.{value.path}"
            record = call.describer.array(value.array(tensor), call.name, part, _KIND, str(value.dtype))
            call.values[value.part][value.path] = record

    def _end(self, call: Call, outputs: Structure) -> None:
        while self._open and self._open.pop() is not call:
            pass
        self._passes[-1].append((call, False))
        if not self._is_all:
            self._scope.leave(call.name)
        call.outputs = results(outputs)
        call.ended = True
        call.expected += call.outputs.flows
        self._writer.call(call.name, call.parent, None, self._entry(call))
        call.learns = call.kept and bool(call.values["parameters"])
        if not (call.inputs.is_whole and call.keywords.is_whole and outputs.is_whole):
            self._unshaped(call)
        call.values.clear()
        self._write_complete(call)

    def _entry(self, call: Call) -> str | None:
        if not call.kept or not self._mode.forward or not self._wishes.values:
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

    def _unshaped(self, call: Call) -> None:
        """Tensors whose shape the compiler did not know are not sent; the dump says so."""
        cause = "its shape was unknown when the graph was compiled; use inputs of fixed shapes"
        for part, structure in (("input", call.inputs), ("kwargs", call.keywords), ("output", call.outputs)):
            if not structure.is_whole:
                self._describer.lost(call.name, part, cause)

    # ---- backward --------------------------------------------------------------------------------------------------

    def _gradient(self, call: Call, value: Value, tensor: Sent) -> None:
        part = "input" if value.part == "output" else "output"
        call.arrived += 1
        if type(tensor) is str:
            if value.single or _ZERO not in tensor:
                call.gradients[part][value.place] = tensor
        elif self._mode.input if part == "input" else self._mode.output:
            array = value.array(tensor)
            if value.single or array.any():
                place = f"{part}.{value.place}"
                record = call.describer.array(array, call.backward, place, _KIND, str(value.dtype))
                call.gradients[part][value.place] = record
        self._write_complete(call)

    def _parameter_gradient(
        self, made: dict[str, list[str]], stem: str, parameter: str, owned: Owned, tensor: Sent
    ) -> None:
        if not (self.listens and self._wishes.values):
            return
        number = self._around.number(f"{stem}.parameters_grad.{parameter}")
        name = f"{stem}.parameters_grad" if number == 0 else f"{stem}.parameters_grad.{number}"
        if self._is_all or self._scope.wants(name):
            if type(tensor) is str:
                record = tensor
            else:
                array = _array(tensor, owned.dtype, owned.shape)
                record = self._describer_of(name).array(array, name, parameter, _KIND, str(owned.dtype))
            made.setdefault(name, []).append(f"{quote(parameter)}:[{record}]")
            self._parameters_grad.setdefault(stem, []).append(name)

    def _describer_of(self, name: str) -> ArrayDescriber:
        return self._saving if self._wishes.saved and self._wishes.saves_also(name) else self._describer

    def _write_complete(self, call: Call) -> None:
        """Write a backward whose gradients have all come, so that it survives the process."""
        if call.ended and call.arrived and call.arrived == call.expected and self._is_all:
            self._write_backward(call, kept=True)

    def _write_backward(self, call: Call, kept: bool) -> None:
        if call.backward in self._written:
            return
        self._written.add(call.backward)
        entry = None
        if kept and self._wishes.values:
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
        """Write the backward calls as far as they have come, in the order of the forward calls, backwards."""
        self.guard("step", "gradients", self._flush)

    def miss_optimizer(self) -> None:
        """Note, where calls with parameters had a backward and no optimizer ran, why there are no `parameters_grad`."""
        if not self._optimizer_ran and any(c.arrived and c.learns for turns in self._passes for c, _ in turns):
            cause = "no optimizer ran in a graph between start() and stop(); call stop() after the optimizer"
            self._describer.lost("step", "parameters_grad", cause)

    def lack(self, cause: str) -> None:
        """Note that a graph was compiled without the operators, which therefore reports nothing."""
        self._writer.missing("step", "graph", f"a graph was compiled without the debugger's operators: {cause}")

    def _flush(self) -> None:
        order: list[str] = []
        for turns in self._passes:
            order += [call.name for call, is_begin in turns if not is_begin]
            order += self._backward_of(turns)
        if order != self._order:  # a line that says nothing new would have the files written again
            self._order = order
            self._writer.order(order)

    def _backward_of(self, turns: "list[tuple[Call, bool]]") -> list[str]:
        """Write the backward calls of a pass; returns their names in order."""
        order: list[str] = []
        for call, is_begin in reversed(turns):
            if not call.arrived:
                continue
            if not is_begin:
                if call.backward not in self._written and not self._is_all:
                    call.kept = self._scope.enter(call.backward)
                continue
            if call.name.endswith(".forward.0"):
                order += self._parameters_grad.get(call.stem, ())
            order.append(call.backward)
            if call.backward not in self._written:
                if not self._is_all:
                    self._scope.leave(call.backward)
                self._write_backward(call, self._is_all or call.kept)
        return order


def backward_of(forward: str) -> str:
    """The name of a forward call's backward."""
    stem, _, number = forward.rpartition(".forward.")
    return f"{stem}.backward.{number}"
