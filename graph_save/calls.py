"""One step of a Cell dump in graphs: what the operators of running graphs report becomes the calls of a dump.

Forward operators run in the order of the program, so the calls that have begun and not ended are a stack, which says
what encloses what. Gradients come in any order, also before the forward has ended: each belongs to the call whose
token it carries, and the order of the backward calls is the order of the forward ones, backwards.
"""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quote
from typing import Any, TypeAlias

from msprobe.base.errors import reason
from msprobe.base.names import cell_call
from msprobe.base.scope import Scope
from msprobe.base.settings import CollectOptions
from msprobe.store.describe import ArrayDescriber, place_of_run
from msprobe.store.writer import Writer

from .operators import CONTAINERS, Array

Records = dict[str, str]
"""Records by their place in a part of a call."""

Plain = Callable[[Any, str], str]
"""Makes the record of a number or text at a place."""

_KIND = "mindspore.Tensor"


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
    dtype: Any
    shape: tuple[int, ...]


Owners: TypeAlias = tuple[tuple[str, str], ...]
"""The cells that a parameter belongs to, by their stems, with its name in each."""


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
        *("arrived", "describer", "ended", "expected", "gradients", "inputs", "keywords", "kept", "learns", "name"),
        *("outputs", "parent", "stem", "tail", "values"),
    )

    def __init__(self, stem: str, name: str, parent: str | None, inputs: Any, keywords: Any, tail: str) -> None:
        self.stem, self.name, self.parent, self.tail = stem, name, parent, tail
        self.inputs, self.keywords = inputs, keywords
        self.outputs: Any = None
        self.kept = True
        self.ended = self.learns = False
        self.describer: ArrayDescriber
        self.values: dict[str, Records] = {"input": {}, "kwargs": {}, "parameters": {}, "output": {}}
        self.gradients: dict[str, Records] = {"input": {}, "output": {}}
        self.expected = self.arrived = 0

    @property
    def backward(self) -> str:
        """The name of the call's backward."""
        return backward_of(self.name)


class Run:
    """A run of a model: what is inside stands in the call around it, and says in its entries which run it was."""

    __slots__ = ("before", "name")

    def __init__(self, name: str | None, before: str) -> None:
        self.name, self.before = name, before


class GraphCalls:
    """Records the calls of graphs in one step; a `Listener` of the operators. Thread-safe.

    What goes wrong in here is logged once, noted in the dump, and never reaches the training.
    """

    def __init__(self, wishes: CollectOptions, writer: Writer, scope: Scope, surroundings: GraphsOnly) -> None:
        self._mode = wishes.data_mode
        self._wishes, self._writer, self._scope, self._around = wishes, writer, scope, surroundings
        self._describer = ArrayDescriber(writer, saves=wishes.saves, digests=wishes.digests)
        self._saving = ArrayDescriber(writer, saves=True, digests=wishes.digests)
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
        self.any = False

    # ---- what the operators report ---------------------------------------------------------------------------------

    def begin(self, token: int, stem: str, inputs: Any, keywords: Any) -> None:
        """A call begins."""
        self.guard(stem, "input", self._begin, token, stem, inputs, keywords)

    def value(self, token: int, value: Value, array: Array) -> None:
        """A value of a forward call."""
        self._of(token, f"{value.part}.{value.path}", self._value, value, array)

    def begin_run(self, token: int, model: int) -> None:
        """A run of a model begins; `model` is its number in the order of the models."""
        self.guard("step", "run", self._begin_run, token, model)

    def end_run(self, token: int) -> None:
        """A run of a model ends."""
        self.guard("step", "run", self._end_run, token)

    def end(self, token: int, outputs: Any) -> None:
        """A call ends."""
        self._of(token, "output", self._end, outputs)

    def gradient(self, token: int, value: Value, array: Array) -> None:
        """A gradient of a call."""
        self._of(token, f"{value.part}.{value.place}", self._gradient, value, array)

    def parameter_gradient(self, owners: Owners, dtype: Any, array: Array) -> None:
        """The gradient of a parameter."""
        self._optimizer_ran = True
        for stem, parameter in owners:
            self.guard(f"{stem}.parameters_grad", parameter, self._parameter_gradient, stem, parameter, dtype, array)

    def _of(self, token: int, part: str, work: Callable[..., None], *args: Any) -> None:
        call = self._calls.get(token)
        if call is not None:
            self.guard(call.name, part, work, call, *args)

    def guard(self, name: str, part: str, work: Callable[..., None], *args: Any) -> None:
        """Do a piece of recording that the training must not feel; what fails is noted under a name and a part."""
        with self._lock:
            try:
                work(*args)
            except Exception as cause:  # a debugger never stops the training because of itself
                self._describer.lost(name, part, reason(cause))

    # ---- forward ---------------------------------------------------------------------------------------------------

    def _begin(self, token: int, stem: str, inputs: Any, keywords: Any) -> None:
        if not self.listens:
            return
        self.any = True
        name = cell_call(stem, self._around.number(stem), "forward")
        call = Call(stem, name, self._enclosing(), inputs, keywords, self._tail or self._around.tail())
        call.kept = self._scope.trivial or self._scope.enter(name)
        call.describer = self._describer_of(name)
        call.expected = _tensors(inputs) + _tensors(keywords)
        self._calls[token] = call
        self._open.append(call)
        self._passes[-1].append((call, True))

    def _enclosing(self) -> str | None:
        return self._open[-1].name if self._open else self._around.enclosing()

    def _begin_run(self, token: int, model: int) -> None:
        if self.listens:
            self._all_runs[token] = run = Run(self._enclosing(), self._tail)
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

    def _value(self, call: Call, value: Value, array: Array) -> None:
        mode = self._mode
        wanted = mode.output if value.part == "output" else mode.input or value.part == "parameters"
        if call.kept and mode.forward and wanted:
            part = f"{value.part}.{value.path}"
            call.values[value.part][value.path] = call.describer.array(array, call.name, part, _KIND, str(value.dtype))

    def _end(self, call: Call, outputs: Any) -> None:
        while self._open and self._open.pop() is not call:
            pass
        self._passes[-1].append((call, False))
        if not self._scope.trivial:
            self._scope.leave(call.name)
        call.outputs = outputs if outputs[0] == "tuple" else ("tuple", (outputs,))
        call.ended = True
        call.expected += _tensors(call.outputs)
        self._writer.call(call.name, call.parent, None, self._entry(call))
        call.learns = call.kept and bool(call.values["parameters"])
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

    def _part(self, call: Call, part: str, structure: Any) -> str:
        def plain(value: Any, place: str) -> str:
            return call.describer.plain(value, call.name, f"{part}.{place}")

        return _filled(structure, call.values[part], plain)

    def _unshaped(self, call: Call) -> None:
        """Tensors whose shape the compiler did not know are not sent; the dump says so."""
        cause = "its shape was not known when the graph was compiled; give the network inputs of fixed shapes"
        for part, structure in (("input", call.inputs), ("kwargs", call.keywords), ("output", call.outputs)):
            if any(kind == "unshaped" for kind in _kinds(structure)):
                self._describer.lost(call.name, part, cause)

    # ---- backward --------------------------------------------------------------------------------------------------

    def _gradient(self, call: Call, value: Value, array: Array) -> None:
        part = "input" if value.part == "output" else "output"
        call.arrived += 1
        wanted = self._mode.input if part == "input" else self._mode.output
        if wanted and (value.single or array.any()):
            place = f"{part}.{value.place}"
            record = call.describer.array(array, call.backward, place, _KIND, str(value.dtype))
            call.gradients[part][value.place] = record
        self._write_complete(call)

    def _parameter_gradient(self, stem: str, parameter: str, dtype: Any, array: Array) -> None:
        if not (self.listens and self._wishes.values):
            return
        number = self._around.number(f"{stem}.parameters_grad.{parameter}")
        name = f"{stem}.parameters_grad" if number == 0 else f"{stem}.parameters_grad.{number}"
        if self._scope.trivial or self._scope.wants(name):
            record = self._describer_of(name).array(array, name, parameter, _KIND, str(dtype))
            self._writer.call(name, None, None, f"{{{quote(parameter)}:[{record}]}}")
            self._parameters_grad.setdefault(stem, []).append(name)

    def _describer_of(self, name: str) -> ArrayDescriber:
        return self._saving if self._wishes.saved and self._wishes.saves_also(name) else self._describer

    def _write_complete(self, call: Call) -> None:
        """Write a backward whose gradients have all come, so that it survives the process."""
        if call.ended and call.arrived and call.arrived == call.expected and self._scope.trivial:
            self._write_backward(call, kept=True)

    def _write_backward(self, call: Call, kept: bool) -> None:
        if call.backward in self._written:
            return
        self._written.add(call.backward)
        entry = None
        if kept and self._wishes.values:
            parts = []
            if self._mode.input:
                parts.append(f'"input":{_filled(call.outputs, call.gradients["input"])}')
            if self._mode.output:
                parts.append(f'"output":{_filled(_arguments(call), call.gradients["output"])}')
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
            cause = "no optimizer ran in a graph between start and stop; call stop() behind the optimizer"
            self._describer.lost("step", "parameters_grad", cause)

    def lack(self, cause: str) -> None:
        """Note that a graph was compiled without the operators, which therefore reports nothing."""
        self._writer.missing("step", "graph", f"a graph was compiled without the debugger's operators: {cause}")

    def _flush(self) -> None:
        order = []
        for turns in self._passes:
            order += [call.name for call, is_begin in turns if not is_begin]
            order += self._backward_of(turns)
        if order != self._order:  # a line that says nothing new would have the files written again
            self._order = order
            self._writer.order(order)

    def _backward_of(self, turns: "list[tuple[Call, bool]]") -> list[str]:
        """Write the backward calls of a pass; returns their names in order."""
        order = []
        for call, is_begin in reversed(turns):
            if not call.arrived:
                continue
            if not is_begin:
                if call.backward not in self._written and not self._scope.trivial:
                    call.kept = self._scope.enter(call.backward)
                continue
            if call.name.endswith(".forward.0"):
                order += self._parameters_grad.get(call.stem, ())
            order.append(call.backward)
            if call.backward not in self._written:
                if not self._scope.trivial:
                    self._scope.leave(call.backward)
                self._write_backward(call, self._scope.trivial or call.kept)
        return order


def backward_of(forward: str) -> str:
    """The name of a forward call's backward."""
    stem, _, number = forward.rpartition(".forward.")
    return f"{stem}.backward.{number}"


# ---- structures: nested tuples, as `structure_of` makes them ---------------------------------------------------------


def _arguments(call: Call) -> Any:
    """All arguments in one list: keyword arguments stand behind the rest."""
    return ("tuple", (*call.inputs[1], *call.keywords[2]))


def _kinds(structure: Any) -> Iterator[str]:
    yield structure[0]
    for inner in structure[-1] if structure[0] in CONTAINERS else ():
        yield from _kinds(inner)


def _tensors(structure: Any) -> int:
    """How many gradients can flow back to what stands in a structure."""
    if structure[0] == "tensor":
        return int(_flows(structure[1]))
    return sum(map(_tensors, structure[-1])) if structure[0] in CONTAINERS else 0


def _flows(dtype: Any) -> bool:
    return str(dtype).startswith(("Float", "BFloat", "Complex"))


def _filled(structure: Any, records: Records, plain: Plain | None = None, place: str = "") -> str:
    """The JSON text of a structure with its tensors' records, and those that `plain` makes of constants and places."""
    kind = structure[0]
    if kind in CONTAINERS:
        keys = structure[1] if kind == "dict" else range(len(structure[1]))
        inner = [
            _filled(part, records, plain, f"{place}.{key}" if place else str(key))
            for key, part in zip(keys, structure[-1], strict=True)
        ]
        if kind != "dict":
            return f"[{','.join(inner)}]"
        return f"{{{','.join([f'{quote(key)}:{text}' for key, text in zip(keys, inner, strict=True)])}}}"
    if kind == "constant" and plain is not None:
        return plain(structure[1], place)
    if kind == "dtype" and plain is not None:
        return json.dumps({"type": "mindspore.dtype", "value": structure[1]})
    return records.get(place, "null")
