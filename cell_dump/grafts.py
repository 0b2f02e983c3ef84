"""The task `graft`: recorded values of a golden run in the place of those that calls of this training compute.

It changes a training, as only `free_benchmark` with `fix` does otherwise. `GraftSession` runs a call, replaces its
results before they are recorded and returned, and hooks the nodes of the autograd graph that the call made, so that the
gradients of its arguments are replaced where they leave the call. A value that has the bits of the golden's already
stays the training's own object: views, in-place changes and the order in which gradients are summed remain as they are,
and a run in which nothing differs is not changed at all.

Replaced is

- a result: the golden's elements, through which the gradient flows back to the training's own result unchanged. A
  result that the call wrote into one of its arguments gets the golden's elements in place. If a plan says so, one of
  another shape: zeros flow back then, and the gradients of the arguments are replaced, too.
- an argument (`inputs`): the same, for this call only. Not parameters, if they are parameters in both runs.
- the gradient that a call adds to that of an argument (`backward`), or that arrives at a result (`incoming`).
- parameters when a step begins.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from msprobe.base.checks import quoted
from msprobe.base.digest import has_digest
from msprobe.base.errors import DumpError, SettingsError, UsageError, reason
from msprobe.base.framework import AnyModel, AnyModule, AnyTensor, weak_roots
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import join_names, log_once, logger
from msprobe.base.names import api_call, api_calls, cell_call, cell_calls, counterpart, parse, similar_calls
from msprobe.base.nested import Leaf, key_names, tree_of, with_replaced
from msprobe.base.sections import ALL_CALLS, GraftSettings
from msprobe.base.settings import Settings
from msprobe.base.statistic import Array, widen
from msprobe.frameworks import process
from msprobe.frameworks.interface import Refused
from msprobe.frameworks.registry import framework, name_of_model
from msprobe.store.writer import StepWriter, Writer

from .backward import summed
from .forward import Forward, results_of
from .framework import Framework
from .functions import COLLECTIVE
from .golden_values import Golden, GoldenStep, Recorded
from .gradient import Identity, Node, _walk
from .session import Session

Result = TypeVar("Result")

_WRITES = re.compile(r"\.(?:[^.]*[^_.]_|__i[a-z]+__|__setitem__)$")
"""The ends of stems of functions that write into their first argument: `Tensor.relu_`, `Tensor.__iadd__`."""

_OF_PARAMETERS = ("parameters", "update")

MAX_NOTES = 50
"""Values of one step that the dump lists because they could not be replaced."""


@dataclass
class Counts:
    """Counts of the golden values of one step: replaced, of these with other bits, and not replaced."""

    values: int = 0
    changed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class CallGrafts:
    """The golden's values of one call, by their places: `output.0`."""

    results: Mapping[str, Recorded]
    arguments: Mapping[str, Recorded]
    gradients: Mapping[str, Recorded]
    incoming: Mapping[str, Recorded]

    @property
    def has_backward(self) -> bool:
        """Return whether a gradient is replaced."""
        return bool(self.gradients or self.incoming)


_NOTHING = CallGrafts({}, {}, {}, {})


@dataclass
class StepGrafts:
    """The replacements of one step. `calls` are the full names of forward calls; None: all.

    `left` are those of them that were not made yet.
    """

    golden: GoldenStep
    calls: frozenset[str] | None
    what: tuple[str, ...]
    described: dict[str, Any]
    counts: Counts = field(default_factory=Counts)
    left: set[str] = field(default_factory=set)

    def of_call(self, forward: str, backward: str) -> CallGrafts | None:
        """Return what is replaced of a call; None if nothing is."""
        if self.calls is not None and forward not in self.calls:
            return None
        self.left.discard(forward)
        known = self.golden.calls
        if forward not in known and backward not in known:
            if not self.golden.is_planned:  # a plan names what it replaces, and leaves the rest
                self.counts.skipped += 1
                log_once(
                    f"graft: calls without counterpart {self.described['golden']}",
                    f"graft: {self.golden.dump.where} has no call {forward}; such calls keep their own values, and the "
                    "header of the dump has their number",
                )
            return None
        of_forward, of_backward = self.golden.of_call(forward), self.golden.of_call(backward)
        made = CallGrafts(
            self._chosen("forward", of_forward, "output."),
            self._chosen("inputs", of_forward, "input."),
            self._chosen("backward", of_backward, "output."),
            self._chosen("incoming", of_backward, "input."),
        )
        return made if made.results or made.arguments or made.has_backward else None

    def of_parameters(self, name: str) -> Mapping[str, Recorded]:
        """Return the gradients that replace those of a module's own parameters, by their names in the module.

        They are of a module that is grafted, or that is inside one.
        """
        if "backward" not in self.what or name not in self.golden.calls:
            return {}
        if self.calls is not None and name not in self.calls:
            path = f"{parse(name).path}."
            if not any(path.startswith(above) for above in self.paths):
                return {}
        self.left.discard(name)
        return self.golden.of_call(name)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the grafted modules, each with a dot at its end."""
        names = (parse(name) for name in self.calls or ())
        return tuple({f"{name.path}." for name in names if name.kind == "cell"})

    def _chosen(self, what: str, values: Mapping[str, Recorded], prefix: str) -> Mapping[str, Recorded]:
        if what not in self.what:
            return {}
        return {place: each for place, each in values.items() if place.startswith(prefix)}

    def header(self) -> dict[str, Any]:
        """Return the member `grafted` of the header of the dump."""
        return {**self.described, **vars(self.counts)}


class Grafts:
    """The grafts of one debugger: checked at its first start, and then made for each step."""

    def __init__(self, section: GraftSettings, framework: Framework) -> None:
        self._section, self._framework = section, framework
        self._golden: Golden | None = None
        self._roots: Sequence[tuple[str, Callable[[], Any]]] = ()
        self._steps: frozenset[int] = frozenset()
        self._calls: frozenset[str] | None = None
        self._parameters: frozenset[str] | None = None
        self._read: tuple[int, GoldenStep] | None = None
        self._has_begun = False

    # ---- at start --------------------------------------------------------------------------------------------------

    def check(self, model: AnyModel, settings: Settings) -> None:
        """Check, once, that the golden has the values: SettingsError and UsageError if it has not."""
        if model is not None:
            self._roots = weak_roots(model)
        if self._golden is not None:
            return
        section, golden = self._section, Golden(self._section.golden)
        of_parameters = [what for what in section.what if what in _OF_PARAMETERS]
        if of_parameters and not self._roots:
            raise UsageError(
                f"start(): graft.what has {quoted(of_parameters[0])}, but no model is known; pass it: start(net)"
            )
        of_gradients = [what for what in section.what if what in ("backward", "incoming")]
        if of_gradients and self._framework.graph({}) is None:
            raise UsageError(
                f"start(): graft.what has {quoted(of_gradients[0])}, but this version of the framework does not "
                'show gradients of calls; update it, or set graft.what to ["forward"]'
            )
        steps = [number for number in golden.steps if settings.collects_step(number)]
        if section.steps:
            if missing := sorted(set(section.steps).difference(golden.steps)):
                has = join_names(golden.steps)
                raise SettingsError(
                    f"graft.steps: {golden.where} has no step {missing[0]}, only {has}; correct the steps, or collect "
                    "them in the golden run"
                )
            steps = list(section.steps)
        if not steps:
            raise SettingsError(
                f"graft.golden: {golden.where} has the steps {join_names(golden.steps) or 'none'}, of which this run "
                'collects none; correct "step", or collect other steps in the golden run'
            )
        is_all = section.calls == (ALL_CALLS,)
        calls, parameters = set[str](), set[str]()
        for number in steps[:1] if is_all else steps:
            step = golden.step(number, process.rank() or 0)
            if number == steps[0]:
                self._read = number, step
            if is_all:
                _check_tensors(step)
                continue
            try:
                _check_names(section, number, step, calls, parameters)
                self._check_shapes(step, parameters)
            except DumpError as cause:
                raise SettingsError(f"graft.golden: {cause}") from cause
        self._calls = None if is_all else frozenset(calls)
        self._parameters = None if is_all else frozenset(parameters)
        self._steps, self._golden = frozenset(steps), golden

    def _check_shapes(self, step: GoldenStep, names: set[str]) -> None:
        own = self._own_parameters()
        for name in sorted(names):
            recorded, parameter = step.parameter(name), own.get(name)
            if parameter is None:
                near = join_names(similar_calls(name, list(own)))
                hint = f" (did you mean {near}?)" if near else ""
                raise UsageError(f"graft.calls: the model has no parameter {name}{hint}; correct the name")
            if recorded is not None and recorded.shape != tuple(parameter.shape):
                raise SettingsError(
                    f"graft.calls: {name} has the shape {tuple(parameter.shape)}, but {step.dump.where} has "
                    f"{recorded.name} with {recorded.shape}; write a plan with `msprobe graft`, which maps layouts"
                )

    def _own_parameters(self) -> dict[str, Any]:
        """Return the model's parameters, by their paths and by the names that they have themselves."""
        found: dict[str, Any] = {}
        for _, root in self._roots:
            if (module := root()) is None or (name := name_of_model(module)) is None:
                continue
            modules = framework(name).modules
            for path, parameter in modules.parameters(module):
                found.setdefault(path, parameter)
                if own := modules.name_of(parameter):
                    found.setdefault(own, parameter)
        return found

    # ---- steps -----------------------------------------------------------------------------------------------------

    def of_step(self, run: dict[str, Any]) -> StepGrafts | None:
        """Return what is replaced in the step that begins, and write the parameters; None if nothing is replaced.

        `run` is the header's description of the run, in which the grafts are noted.
        """
        golden, section, number = self._golden, self._section, run["step"]
        assert golden is not None
        is_first, self._has_begun = not self._has_begun, True
        if number not in self._steps:
            if not section.steps:
                log_once(f"no step {number}", f"graft: {golden.where} has no step {number}, which is not grafted")
            return None
        what = join_names(section.what, len(section.what))
        log_once(
            f"graft {golden.where}",
            f"PrecisionDebugger: task graft CHANGES THIS TRAINING: {what} values of {join_names(section.calls)} are "
            f"replaced by those of {golden.where} in step {join_names(sorted(self._steps))}",
            logging.WARNING,
        )
        step = self._read[1] if self._read and self._read[0] == number else golden.step(number, run["rank"])
        self._read = None
        described = {"golden": str(golden.where), "calls": list(section.calls), "what": list(section.what)}
        run["grafted"] = described
        made = StepGrafts(step, self._calls, section.what, described, left=set(self._calls or ()))
        if "parameters" in section.what or ("update" in section.what and not is_first):
            self._write_parameters(made)
        return made

    def _write_parameters(self, grafts: StepGrafts) -> None:
        written = set[int]()
        for name, parameter in self._own_parameters().items():
            if id(parameter) in written or (self._parameters is not None and name not in self._parameters):
                continue
            recorded = grafts.golden.parameter(name)
            if recorded is None:
                continue
            written.add(id(parameter))
            try:
                made = golden_tensor(recorded, parameter)
            except UnfitError as cause:
                grafts.counts.skipped += 1
                log_once(f"graft parameter {name}", f"graft: parameter {name} keeps its own value: {cause}")
                continue
            grafts.counts.values += 1
            if made is not None:
                grafts.counts.changed += 1
                _tensors(parameter).write(parameter, made)


def _check_tensors(step: GoldenStep) -> None:
    if not any(step.dump.columns.file):
        raise SettingsError(_unsaved(step))


def _unsaved(step: GoldenStep) -> str:
    task = step.dump.task or "unknown"
    return (
        f"graft.golden: {step.dump.where}: has no tensors (task {task}), only their statistics; collect the golden run "
        "again with task tensor"
    )


_NEEDS: Mapping[str, tuple[bool, str]] = {
    "forward": (False, "output."),
    "inputs": (False, "input."),
    "backward": (True, "output."),
    "incoming": (True, "input."),
}
"""Of what is replaced of a call: whether it is of its backward call, and how its places begin."""


def _check_names(section: GraftSettings, number: int, step: GoldenStep, calls: set[str], parameters: set[str]) -> None:
    """Add the calls and parameters that the names mean; SettingsError if a step of the golden lacks their values."""
    known, own = step.calls, frozenset(step.parameters)
    where = f"step {number} of {section.golden}"
    for text in section.calls:
        forward = forward_name(text)
        is_call = forward in known or counterpart(forward, "backward") in known
        if not is_call and text not in own:
            near = join_names(similar_calls(text, sorted({*known, *own})))
            hint = f" (did you mean {near}?)" if near else ""
            raise SettingsError(f"graft.calls: {where} has no call or parameter {quoted(text)}{hint}; correct the name")
        kinds = [what for what in section.what if (what in _OF_PARAMETERS) != is_call]
        if not kinds:
            noun, words = ("call", tuple(_NEEDS)) if is_call else ("parameter", _OF_PARAMETERS)
            raise SettingsError(
                f"graft.calls: {text} is a {noun}, and graft.what has nothing that is replaced of one; add one of "
                f"{join_names(map(quoted, words), len(words))}"
            )
        if is_call:
            _check_call(text, forward, kinds, step, where)
            calls.add(forward)
        else:
            _check_value(text, step.parameter(text), step)
            parameters.add(text)


def _check_call(text: str, forward: str, kinds: Sequence[str], step: GoldenStep, where: str) -> None:
    if parse(forward).stem.partition(".")[0] in COLLECTIVE:
        raise SettingsError(
            f"graft.calls: {text} exchanges tensors between ranks and is not replaced; name calls that use its result"
        )
    absent = []
    is_of_parameters = parse(forward).kind == "parameters_grad"
    for what in kinds:
        is_backward, prefix = _NEEDS[what]
        if is_of_parameters:
            prefix = "" if what == "backward" else prefix
        name = counterpart(forward, "backward") if is_backward else forward
        values = {place: each for place, each in step.of_call(name).items() if place.startswith(prefix)}
        for place, recorded in values.items():
            _check_value(f"{name}.{place}", recorded, step)
        if not values:
            absent.append(what)
    only_gradients = is_of_parameters or all(_NEEDS[what][0] for what in absent)
    if absent and (len(absent) == len(kinds) or not only_gradients):
        raise SettingsError(
            f"graft.calls: {where} has no values {quoted(absent[0])} of {text}; remove {quoted(absent[0])} from "
            "graft.what, or collect the golden run again without data_mode, scope and list"
        )
    if absent:
        log_once(
            f"no gradients {text}",
            f"graft: {where} has no gradients of {text}: its arguments had none, or only their sum with those of other "
            "calls is known; its results are replaced",
            logging.INFO,
        )


def _check_value(name: str, recorded: Recorded | None, step: GoldenStep) -> None:
    if recorded is None:
        return
    if not recorded.is_saved:
        if not any(step.dump.columns.file):
            raise SettingsError(_unsaved(step))
        raise SettingsError(
            f"graft.golden: {step.dump.where}: {recorded.name} has no tensor, only statistics; collect the golden run "
            "again with task tensor and without list"
        )
    if recorded.shape is None:
        raise SettingsError(
            f"graft.golden: the plan's permute {recorded.layout.permute} and reshape {recorded.layout.reshape} of "
            f"{name} do not fit {recorded.name} of {step.dump.where} with the shape {recorded.recorded_shape}; write "
            "the plan again with `msprobe graft`"
        )


def forward_name(text: str) -> str:
    """Return the full name of a forward call that is named as in a dump, or without its direction.

    `Functional.linear.3` and `Functional.linear.3.backward` are `Functional.linear.3.forward`, and `Cell.fc.Dense.0` is
    `Cell.fc.Dense.forward.0`. Any other text is returned as it is.
    """
    if parse(text).kind in ("api", "cell"):
        return counterpart(text, "forward")
    stem, _, number = text.rpartition(".")
    if not stem or not number.isdecimal() or not number.isascii():
        return text
    made = cell_call if stem.startswith(("Cell.", "Module.")) else api_call
    return made(stem, int(number), "forward")


# ---- values --------------------------------------------------------------------------------------------------------


class UnfitError(Exception):
    """A golden value cannot take the place of one of the training; the message says why."""


def _tensors(tensor: AnyTensor) -> Any:
    found = process.of_tensor(tensor)
    assert found is not None  # only tensors are replaced
    return found.tensors


def golden_tensor(recorded: Recorded, own: AnyTensor) -> AnyTensor | None:
    """Return the golden's elements as a tensor like `own`; None if `own` has the same bits.

    With digests in the golden, its elements are read only if they differ: a checksum of 32 bits takes less time.
    UnfitError if they have another shape, cannot be read, or `own` is not a plain tensor.
    """
    shape, is_resized = tuple(own.shape), recorded.layout.is_resized
    if recorded.shape != shape and not is_resized:
        raise UnfitError(f"it has the shape {list(shape)}, but {recorded.name} of the golden {recorded.shape}")
    tensors = _tensors(own)
    try:
        tensors.refuse([own])
        present = tensors.array(own)
        if recorded.digest and has_digest(present, recorded.digest):
            return None
        array = recorded.load()
        if is_resized and array.shape != shape:
            return tensors.resized(array, own)
    except (Refused, DumpError) as cause:
        raise UnfitError(str(cause)) from cause
    if present.dtype == array.dtype:
        return None if _same_bits(present, array) else tensors.with_values(array, own)
    made = tensors.with_values(array, own)
    return None if _same_bits(present, tensors.array(made)) else made


def _same_bits(one: Array, other: Array) -> bool:
    """Return whether two arrays of one dtype and shape have the same bytes."""
    word = np.uint8 if one.nbytes % 8 else np.uint64  # numpy compares elements, of which there are fewer then
    left, right = (np.ascontiguousarray(each).reshape(-1).view(np.uint8).view(word) for each in (one, other))
    return bool(np.array_equal(left, right))


# ---- gradients -----------------------------------------------------------------------------------------------------

Action = Callable[[AnyTensor], AnyTensor]
"""Returns what takes the place of a gradient: the gradient itself if nothing does."""


class NodeGrafts:
    """The replacements at one node of the graph: gradients that come in, and that go out, by their indices."""

    __slots__ = ("has_run", "incoming", "is_hooked", "is_prehooked", "outgoing")

    def __init__(self) -> None:
        self.incoming: list[tuple[int, Action]] = []
        self.outgoing: list[tuple[int, Action]] = []
        self.is_hooked = self.is_prehooked = self.has_run = False


def replaced(gradients: tuple[Any, ...], actions: Sequence[tuple[int, Action]]) -> tuple[Any, ...] | None:
    """Return the gradients of a node after some actions; None if they have changed nothing."""
    found = list(gradients)
    for index, action in actions:
        if found[index] is not None:
            found[index] = action(found[index])
    return tuple(found) if any(new is not old for new, old in zip(found, gradients, strict=True)) else None


class SummedGradient:
    """The gradient of an argument that several nodes of one call contribute to, of which the golden has the sum.

    The parts pass as they are, so that the engine sums them in its usual order, and the last of them is corrected if
    the sum has other bits than the golden's. A part that is not finite is replaced by zeros.
    """

    def __init__(self, session: "GraftSession", call: str, recorded: Recorded, parts: int) -> None:
        self._session, self._call, self._recorded, self._left = session, call, recorded, parts
        self._own: Array | None = None
        self._passed: Array | None = None

    def take(self, gradient: AnyTensor) -> AnyTensor:
        """Return what takes the place of the next part."""
        tensors, self._left = _tensors(gradient), self._left - 1
        array = widen(tensors.array(gradient))
        own = self._own = summed(self._own, array)
        if self._left:
            if not np.isfinite(array).all():
                return tensors.with_values(np.zeros(array.shape, array.dtype), gradient)
            self._passed = array.astype(np.float64) if self._passed is None else self._passed + array
            return gradient
        recorded = self._recorded
        if recorded.shape != array.shape:
            raise UnfitError(f"it has the shape {array.shape}, but {recorded.name} of the golden {recorded.shape}")
        golden = widen(recorded.load())
        is_same = golden.dtype == own.dtype and _same_bits(golden, own)
        self._session.count(not is_same)
        if is_same:
            return gradient
        with np.errstate(all="ignore"):
            rest = golden if self._passed is None else golden.astype(np.float64) - self._passed
        return tensors.with_values(rest.astype(array.dtype), gradient)


# ---- the session ---------------------------------------------------------------------------------------------------


class GraftSession(Session):
    """Collects one step, and replaces values of its calls."""

    def __init__(
        self, grafts: StepGrafts, framework: Framework, settings: Settings, wishes: Any, writer: StepWriter, *rest: Any
    ):
        super().__init__(framework, settings, wishes, writer, *rest)
        self._grafts = grafts
        self._file = writer
        self._graph = framework.graph(rest[-1])
        self._nodes: dict[Identity, NodeGrafts] = {}
        self._inside = 0
        """How many calls are open whose gradients are replaced."""
        self._notes = 0

    # ---- calls -----------------------------------------------------------------------------------------------------

    def call_api(
        self,
        stem: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        end: "Callable[[Forward | None, Any], None] | None" = None,
    ) -> Any:
        """Run an API, with the golden's values, and record it. An exchange between ranks is left as it is."""
        grafts = self._of(api_calls(stem, self._numbers.get(stem, 0))) if end is None else None
        if grafts is None:
            return super().call_api(stem, function, args, kwargs, end)

        def run(*args: Any, **kwargs: Any) -> Any:
            return self._run(grafts, self._api, function, args, kwargs)

        return super().call_api(stem, run, args, kwargs, end)

    def call_cell(
        self, stem: str, function: Callable[..., Any], cell: AnyModule, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a cell, with the golden's values, and record it."""
        grafts = self._of(cell_calls(stem, self._numbers.get(stem, 0)))
        if grafts is None:
            return super().call_cell(stem, function, cell, args, kwargs)

        def run(cell: AnyModule, *args: Any, **kwargs: Any) -> Any:
            call = self.position.innermost
            own = call if call is not None and call.cell is cell and call.stem == stem else None
            return self._run(grafts, own, partial(function, cell), args, kwargs)

        with self._open(grafts):
            return super().call_cell(stem, run, cell, args, kwargs)

    def _of(self, names: tuple[str, str]) -> CallGrafts | None:
        """Return what is replaced of a call; what has nothing replaced but is inside such a call has its nodes hooked,
        before others hook them."""
        found = self._safely(names[0], None, self._grafts.of_call, *names)
        return _NOTHING if found is None and self._inside else found

    @contextmanager
    def _open(self, grafts: CallGrafts) -> Iterator[None]:
        self._inside += grafts.has_backward
        try:
            yield
        finally:
            self._inside -= grafts.has_backward

    def _run(
        self,
        grafts: CallGrafts,
        call: Forward | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if call is None:
            return function(*args, **kwargs)
        if grafts.arguments:
            args, kwargs = self._safely(
                call.name, (args, kwargs), self._with_arguments, call, grafts.arguments, args, kwargs
            )
        versions: dict[int, int | None] = {}
        if grafts.results:
            versions = self._safely(call.name, versions, self._versions, args, kwargs)
        result = function(*args, **kwargs)
        self._settle(tree_of((result,)).tensors)
        if grafts.results:
            result = self._safely(call.name, result, self._with_results, call, grafts.results, versions, args, result)
        if self._graph is not None and (grafts.has_backward or self._inside):
            self._safely(call.name, None, self._hook_gradients, call, grafts, args, result)
        return result

    def _safely(self, name: str, otherwise: Result, work: Callable[..., Result], *args: Any) -> Result:
        """Return the result of a piece of work that is not recorded; `otherwise` if it fails, which the dump notes."""
        if self._sees_functions() or self._sees_operations():
            return self._apart(self._safely, name, otherwise, work, *args)  # type: ignore[no-any-return]  # of the work
        before = self.busy, self._api
        self.busy, self._api = True, None
        try:
            return work(*args)
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self._skip(name, reason(cause))
            return otherwise
        finally:
            self.busy, self._api = before

    def _skip(self, name: str, cause: str) -> None:
        """Note that a value was not replaced."""
        self._grafts.counts.skipped += 1
        self._notes += 1
        text = f"{name} is not replaced: {cause}"
        log_once(f"graft: {cause}", f"graft: {text}; the training continues with its own value", logging.WARNING)
        if self._notes <= MAX_NOTES:
            self.writer.missing("step", "graft", text)

    def count(self, is_changed: bool) -> None:
        """Count a value that was replaced, and whether it had other bits."""
        self._grafts.counts.values += 1
        self._grafts.counts.changed += is_changed

    def _value(self, name: str, recorded: Recorded, own: AnyTensor) -> AnyTensor | None:
        """Return what takes the place of a tensor; None if it stays."""
        try:
            made = golden_tensor(recorded, own)
        except UnfitError as cause:
            self._skip(name, str(cause))
            return None
        self.count(made is not None)
        return made

    @staticmethod
    def _substitute(own: AnyTensor, value: AnyTensor) -> AnyTensor:
        found = process.of_tensor(own)
        assert found is not None
        return found.gradients.substitute(own, value)

    def hook(self, work: Callable[..., None], *args: Any) -> Callable[..., None]:
        """Return `work`, guarded, as a hook; that of a parameter also replaces the gradient."""
        made = super().hook(work, *args)
        if work != self.parameter_gradient:
            return made
        stem, parameter = args

        def replacing(gradient: AnyTensor, *rest: Any) -> Any:
            if self.closed or rest:  # with the rest comes a sum, which is no longer in the graph
                return made(gradient, *rest)
            name = self.name_of_gradient(stem, parameter)
            value = self._safely(name, None, self._parameter_gradient, name, parameter, gradient)
            made(gradient if value is None else value)
            return value

        return replacing

    def _parameter_gradient(self, name: str, parameter: str, gradient: AnyTensor) -> AnyTensor | None:
        self._before_hook((gradient,))
        recorded = self._grafts.of_parameters(name).get(parameter)
        return None if recorded is None else self._value(f"{name}.{parameter}", recorded, gradient)

    # ---- arguments and results -------------------------------------------------------------------------------------

    def _with_arguments(
        self, call: Forward, recorded: Mapping[str, Recorded], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        names = key_names(list(kwargs), list(kwargs.values()))
        found: dict[int, Any] = {}
        for place, own in tree_of([*args, *kwargs.values()]).tensors:
            number, dot, rest = place.partition(".")
            at = int(number) - len(args)
            name = f"input.{number if at < 0 else names[at]}{dot}{rest}"
            if name not in recorded or id(own) in found:
                continue
            if recorded[name].is_parameter and self._may_be_parameter(own):
                continue
            value = self._value(f"{call.name}.{name}", recorded[name], own)
            if value is None:
                continue
            if (number == "0" and _WRITES.search(call.stem)) or name == "input.out":
                _tensors(own).write(own, value)
            else:
                found[id(own)] = self._substitute(own, value)
        return with_replaced(args, found), with_replaced(kwargs, found)

    def _may_be_parameter(self, own: AnyTensor) -> bool:
        return self._graph is None or bool(self._graph.name_of(own))

    @staticmethod
    def _versions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, int | None]:
        """Return, of the tensors among the arguments, how often each was written to, by its id."""
        tensors = tree_of([*args, *kwargs.values()]).tensors
        return {id(tensor): _tensors(tensor).version(tensor) for _, tensor in tensors}

    def _with_results(
        self,
        call: Forward,
        recorded: Mapping[str, Recorded],
        versions: dict[int, int | None],
        args: tuple[Any, ...],
        result: Any,
    ) -> Any:
        found: dict[int, Any] = {}
        for place, own in self._leaves(args, result):
            name = f"output.{place}"
            if name not in recorded or id(own) in found:
                continue
            value = self._value(f"{call.name}.{name}", recorded[name], own)
            if value is None:
                continue
            tensors = _tensors(own)
            if id(own) in versions and (result is None or self._is_written(call, own, versions[id(own)])):
                tensors.write(own, value)
            else:
                found[id(own)] = self._substitute(own, value)
        return with_replaced(result, found) if found else result

    @staticmethod
    def _is_written(call: Forward, argument: AnyTensor, before: int | None) -> bool:
        """Return whether a call wrote into an argument that it returns; by its name where writes are not counted."""
        return bool(_WRITES.search(call.stem)) if before is None else before != _tensors(argument).version(argument)

    @staticmethod
    def _leaves(args: tuple[Any, ...], result: Any) -> list[Leaf]:
        """Return the tensors of a call's results with their places; see `outcome`."""
        if result is None:
            result = args[0] if args else None
        return tree_of(results_of(result)).tensors

    # ---- gradients -------------------------------------------------------------------------------------------------

    def _hook_gradients(self, call: Forward, grafts: CallGrafts, args: tuple[Any, ...], result: Any) -> None:
        graph = self._graph
        assert graph is not None
        wanted, results = call.wanted or {}, []
        for place, tensor in self._leaves(args, result):
            node = graph.node_of(tensor)
            if node is not None:
                results.append((place, (graph.identity(node), graph.index_of(tensor)), node))
        edges, _, _ = _walk(graph, results, wanted, call.floor)
        for place, key, node in results:
            if key in wanted or graph.is_leaf(node):  # passed through: its gradient is not that of a result
                continue
            at = self._node(key[0], node, is_incoming=True)
            if (recorded := grafts.incoming.get(f"input.{place}")) is not None:
                at.incoming.append((key[1], partial(self._gradient, f"{_backward(call)}.input.{place}", recorded)))
        parts = Counter(place for _, _, _, places, _, _ in edges for place in places)
        sums: dict[str, SummedGradient] = {}
        for identity, node, slot, places, is_shared, _ in edges:
            at = self._node(identity, node, is_incoming=False)
            recorded = grafts.gradients.get(f"output.{places[0]}")
            if recorded is None or is_shared or len(places) > 1:
                continue
            (place,) = places
            name = f"{_backward(call)}.output.{place}"
            if parts[place] == 1:
                at.outgoing.append((slot, partial(self._gradient, name, recorded)))
                continue
            if place not in sums:
                sums[place] = SummedGradient(self, name, recorded, parts[place])
            at.outgoing.append((slot, partial(self._part, name, sums[place])))

    def _node(self, identity: Identity, node: Node, *, is_incoming: bool) -> NodeGrafts:
        """Return what is replaced at a node, which is hooked if it was not."""
        found = self._nodes.get(identity)
        if found is None:
            found = self._nodes[identity] = NodeGrafts()
        if is_incoming and not found.is_prehooked:
            found.is_prehooked = True
            node.register_prehook(self._replacing(found, found.incoming))
        if not is_incoming and not found.is_hooked:
            found.is_hooked = True
            node.register_hook(self._replacing(found, found.outgoing))
        return found

    def _replacing(self, at: NodeGrafts, actions: list[tuple[int, Action]]) -> Callable[..., Any]:
        """Return a hook of a node that replaces its gradients."""

        def hook(gradients: tuple[Any, ...], *_: Any) -> Any:
            at.has_run = True
            if self.closed or not actions:
                return None
            self._before_hook(gradients)
            return self._safely("a gradient", None, replaced, gradients, actions)

        return hook

    def _gradient(self, name: str, recorded: Recorded, gradient: AnyTensor) -> AnyTensor:
        value = self._value(name, recorded, gradient)
        return gradient if value is None else value

    def _part(self, name: str, whole: SummedGradient, gradient: AnyTensor) -> AnyTensor:
        try:
            return whole.take(gradient)
        except (UnfitError, DumpError) as cause:
            self._skip(name, str(cause))
            return gradient

    def _flush(self) -> None:
        """End the calls that a whole backward reached, and hold the nodes that it ran no longer."""
        super()._flush()
        self._nodes = {identity: at for identity, at in self._nodes.items() if not at.has_run}

    # ---- the end of a step -----------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop recording calls; the header says how many values were replaced by now."""
        self.guard(self._note_counts)
        super().pause()

    def close(self) -> None:
        """End the step; the header says how many values were replaced."""
        if not self.closed:
            if self._grafts.left:
                names = join_names(sorted(self._grafts.left))
                self.guard(self._skip, names, "the training made no such call that Python can see in this step")
                self._grafts.left.clear()
            self.guard(self._note_counts)
            counts = self._grafts.counts
            logger.info(
                "graft: %d values were replaced in this step, of which %d had other bits; %d were not replaced",
                *(counts.values, counts.changed, counts.skipped),
            )
        super().close()
        self._nodes.clear()

    def stop_permanently(self) -> None:
        """Stop replacing and collecting in this run."""
        super().stop_permanently()
        self._nodes.clear()

    def _note_counts(self) -> None:
        if isinstance(self._file, Writer):
            self._file.describe_run({"grafted": self._grafts.header()})


def _backward(call: Forward) -> str:
    return call.backward.name if call.backward is not None else call.name
