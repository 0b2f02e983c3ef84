"""One collected step: its counters, its open calls, and how a call becomes records.

A session lives from a step's first `start` to its `step`; `on` says whether `start` or `stop` came last. Gradient
hooks may still fire while it is off. Whatever goes wrong in here is noted in the dump and never reaches the training.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import WeakSet

from msprobe.base.errors import reason
from msprobe.base.framework import AnyModule, AnyTensor
from msprobe.base.interrupts import must_propagate
from msprobe.base.names import api_calls, cell_calls, parse
from msprobe.base.nested import Leaf, tree_of
from msprobe.base.scope import Scope
from msprobe.base.settings import CollectOptions, Settings
from msprobe.store.watching.front import Front
from msprobe.store.writer import Raised, StepWriter

from .backward import Backward, extension, new_backward, skeletons
from .collective import Exchanges
from .describer import Describer, Stacks
from .forward import Begin, Forward, Position, outcome, results_of
from .framework import Framework, Gradients, Names
from .unwritten import Blanks, Memory, all_unwritten

_all_gradients: "WeakSet[Gradients]" = WeakSet()
"""Those of all sessions of this process."""

_recording: "WeakSet[Session]" = WeakSet()
"""The sessions between a start and its stop."""


class unrecorded:
    """No session of this process records what runs inside: another tool of ours reads tensors there."""

    def __enter__(self) -> None:
        self._before = [(session, session.busy, session._api) for session in tuple(_recording)]
        for session, _, _ in self._before:
            session.busy, session._api = True, None

    def __exit__(self, *_: object) -> None:
        for session, busy, api in self._before:
            session.busy, session._api = busy, api


def _frames_with(session: "Session") -> Iterator[FrameType]:
    """Return the calls of this package that run now, in this thread, and are about a session."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        if frame.f_globals.get("__package__") == __package__:
            variables = frame.f_locals
            if variables.get("session") is session or variables.get("self") is session:
                yield frame
        frame = frame.f_back


class Tokens:
    """The runs `first` to `last` of a model, both included and counted from 0, since `start`."""

    def __init__(self, model: int, first: int, last: int) -> None:
        self.model = model
        self._first, self._last = first, last
        self._run = -1

    def is_next_collected(self) -> bool:
        """Return whether the run that begins now is collected."""
        self._run += 1
        return self._first <= self._run <= self._last


class Session:
    """Collects one step of one rank."""

    def __init__(
        self,
        framework: Framework,
        settings: Settings,
        wishes: CollectOptions,
        writer: StepWriter,
        scope: Scope,
        names: Names,
    ) -> None:
        """Collect calls; `names` are those of parameters by their ids, if the framework's tensors do not have them."""
        mode = wishes.data_mode
        self.on = self.open = self.busy = self.closed = self.has_yielded = False
        self.is_interrupted = False
        if isinstance(writer, Front):
            writer.when_over = self.stop_permanently
        else:
            writer = framework.writer(writer)
        self.describer = framework.describer(writer, **wishes.of_records(wishes.saves))
        self.collects_backward_input = mode.backward and mode.input
        self.collects_backward_output = mode.backward and mode.output
        self._mode = mode
        self._wishes = wishes
        self.writer = writer
        self.scope = scope
        self._keeps_all, self._saves_some = scope.trivial, bool(wishes.saved)
        self.keeps_backwards = scope.trivial and wishes.values
        """Whether `begin_backward` says yes to every call."""
        self._names = names
        self._saving = self.describer
        if self._saves_some:
            self._saving = framework.describer(writer, **wishes.of_records(True))
        self._stacks = Stacks(writer, Session.call_cell.__code__) if settings.extra_info else None
        self._thread = threading.get_ident()
        self._numbers: dict[str, int] = {}
        self.position = Position(framework.own_backward, framework.next_node)
        self._api: Forward | None = None
        self._tokens: Tokens | None = None
        self._backwards: list[Backward] = []
        # Bound once, for these are asked at every call.
        (self._sees_functions, self._sees_operations), self._apart = framework.modes, framework.apart
        self._settle, self._before_hook = framework.settle, framework.before_hook
        self._own_parameters, self._early_stop = framework.own_parameters, framework.early_stop
        self._runs_hooks = framework.runs_hooks
        self._empty, self._blanks = framework.empty, Blanks(framework.memory_of, framework.memory_is_held)
        self._exchanges = Exchanges(framework.collectives, self.call_api, self._end, writer)
        hook = self.hook
        if extension is not None and framework.takes_any_hook:
            hook = extension.Guard(self, framework.before_hook, framework.modes)  # as `hook`
        self._gradients = framework.gradients(hook, self._flush, names)
        _all_gradients.add(self._gradients)
        self.cell_hooks = framework.module_hooks(self.hook) if settings.gradients == "hooks" and mode.backward else None

    def number(self, stem: str) -> int:
        """Return the number of the next call of a stem."""
        number = self._numbers.get(stem, 0)
        self._numbers[stem] = number + 1
        return number

    def enclosing(self) -> str | None:
        """Return the cell's call that runs now."""
        return self.position.innermost.name if self.position.innermost is not None else None

    def tail(self) -> str:
        """Return the members of entries that describe the place of calls made now in the step."""
        return self.position.tail

    def listens(self) -> bool:
        """Return whether a call made now, by this thread, is to be recorded."""
        return self.on and not self.busy and threading.get_ident() == self._thread

    def is_elsewhere(self) -> bool:
        """Return whether a call made now is not recorded because another thread makes it."""
        return self.on and threading.get_ident() != self._thread

    def resume(self, tokens: Tokens | None = None) -> None:
        """Record from here on; with `tokens` only certain runs of a model."""
        if self.busy or self._api is not None or self.position.is_inside:
            self._forget_interrupted()
        self._gradients.rest()
        self._tokens, self._thread = tokens, threading.get_ident()
        self.open, self.on, self.has_yielded = True, tokens is None, False
        _recording.add(self)

    def _forget_interrupted(self) -> None:
        """Keep of the calls that have begun those that run now: an interrupt may have ended one of the others before
        it was noted that it ended.
        """
        frames = list(_frames_with(self))
        calls = [call for frame in frames if type(call := frame.f_locals.get("call")) is Forward]
        if not any(frame.f_code in _READING for frame in frames):
            self.busy, self._api = False, None
        self.position.keep(calls, is_inside=bool(frames))

    def _note_interrupt(self, cause: BaseException) -> None:
        if not self.is_interrupted and must_propagate(cause):
            self.interrupted(f"{reason(cause)} ended the step before it was completely collected")

    def interrupted(self, cause: str) -> None:
        """Have the dump say that the step was interrupted; once."""
        if not self.is_interrupted:
            self.is_interrupted = True
            self.guard(self.writer.missing, "step", "interrupted", cause)

    def pause(self) -> None:
        """Stop recording calls; the three files say what is known by now."""
        self._stop()
        self._tokens = None
        self._gradients.rest()
        self.guard(self.writer.assemble)

    def close(self) -> None:
        """End the step: what is incomplete is written as it is, and hooks that still fire do nothing."""
        self._stop()
        self.guard(self.writer.close)
        self._gradients.forget()
        self._backwards.clear()
        self.closed = True

    def stop_permanently(self) -> None:
        """Stop collecting in this run, and discard what is open."""
        self.on = self.open = False
        _recording.discard(self)
        self._backwards.clear()
        self._gradients.forget()

    def _stop(self) -> None:
        self.guard(self._exchanges.give_up)
        self.on = self.open = False
        _recording.discard(self)
        self.guard(self._flush)

    def guard(self, work: Callable[..., None], *args: Any) -> None:
        """Do a piece of collecting that the training must not feel: no exception, no record of our own reading."""
        if self.closed:
            return
        if self._sees_functions() or self._sees_operations():
            return self._apart(self.guard, work, *args)
        before = self.busy, self._api
        self.busy, self._api = True, None
        try:
            work(*args)
        except Exception as cause:  # a debugger never stops the training because of itself
            self.note(work, cause)
        finally:
            self.busy, self._api = before

    def note(self, work: Callable[..., Any], cause: Exception) -> None:
        """Have the dump say that a piece of collecting failed; an interrupt is raised again."""
        if must_propagate(cause):
            raise cause
        self.describer.lost("step", getattr(work, "__name__", "collecting"), reason(cause))

    def unwritten(self, result: Any) -> None:
        """Note uninitialized memory that a function returned that is not recorded."""
        self._blanks.note(tree_of((result,)).tensors)

    def unwritten_memory(self, memory: Memory, is_held: Callable[[], bool]) -> None:
        """Note uninitialized memory without a tensor."""
        self._blanks.note_memory(memory, is_held)

    def also_named(self, parameter: Any, other: Any) -> None:
        """Give a parameter's name to another tensor that takes its place for a while."""
        name = self._names.get(id(parameter))
        if name and other is not None:
            self._names[id(other)] = name

    def hook(self, work: Callable[..., None], *args: Any) -> Callable[..., None]:
        """Return `work`, guarded, as a hook; MindSpore 2.7 accepts only a plain function."""
        before_hook = self._before_hook

        def hook(*gradients: Any) -> None:
            if not self.closed:
                before_hook(gradients)
                self.guard(work, *args, *gradients)

        return hook

    @contextmanager
    def run_of(self, model: int) -> Iterator[None]:
        """Record the block as one run of a model; if tokens are collected it may be a run of theirs."""
        if threading.get_ident() != self._thread or self.busy or not self.open:
            yield
            return
        if self._tokens is not None and model == self._tokens.model:
            self.on = self._tokens.is_next_collected()
        with self.position.run_of(model):
            try:
                yield
            except BaseException as cause:
                self._note_interrupt(cause)
                raise

    @contextmanager
    def second_run(self, owner: Any) -> Iterator[None]:
        """Return a second run of what `owner` ran first, in the thread that runs the backward.

        This may be the thread of a device, while ours waits.
        """
        before, ours = self._thread, threading.get_ident()
        self._thread = ours
        try:
            with self.position.second_run(owner):
                yield
        finally:
            if self._thread == ours:  # a later start is in another thread
                self._thread = before

    # ---- forward: a call begins, runs, ends ------------------------------------------------------------------------

    def call_api(
        self,
        stem: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        end: "Callable[[Forward | None, Any], None] | None" = None,
    ) -> Any:
        """Run an API and record it, and nothing inside it. What it returns or raises is passed on untouched.

        `end` does something else with the result than to record it immediately.
        """
        self.busy = True
        try:
            self._api = call = self._begin(stem, api_calls, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except BaseException as cause:
                self._fail(call, cause)
                raise
            finally:
                self._api = None
            if end is None:
                self._end(call, result if result is not None else outcome(args, result))
            else:
                end(call, result)
            return result
        finally:
            self.busy = False

    def call_inner(self, stem: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Run an operation and record it, inside whatever is being recorded, without gradients.

        Operations that our own reading makes are run only.
        """
        before = self.busy, self._api
        if (self.busy and self._api is None) or not self.on or threading.get_ident() != self._thread:
            return run()
        try:
            self.busy, self._api = True, None
            call = self._begin(stem, api_calls, args, {})
            if call is not None:
                call.parent, call.backward = before[1] or call.parent, None
            self.busy, self._api = before
            try:
                result = run()
            except BaseException as cause:
                self._fail(call, cause)
                raise
            self.busy, self._api = True, None
            self._end(call, outcome(args, result))
            return result
        finally:
            self.busy, self._api = before

    def call_cell(
        self, stem: str, function: Callable[..., Any], cell: AnyModule, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a cell and record it, and what is called inside. What it returns or raises is passed on untouched."""
        self.busy = True
        try:
            call = self._begin(stem, cell_calls, args, kwargs, cell)
        finally:
            self.busy = False
        if call is not None:
            self.position.enter(call)
        try:
            result = function(cell, *args, **kwargs)
        except BaseException as cause:
            self._leave(call)
            self._fail(call, cause)
            raise
        self._leave(call)
        self.busy = True
        try:
            self._end(call, result)
        finally:
            self.busy = False
        return result

    def _begin(
        self, stem: str, naming: Begin, args: tuple[Any, ...], kwargs: dict[str, Any], cell: AnyModule = None
    ) -> Forward | None:
        if self._sees_functions() or self._sees_operations():
            return self._apart(self._begin, stem, naming, args, kwargs, cell)
        try:
            tree = tree_of([*args, *kwargs.values()] if kwargs else args)
            tensors = tree.tensors
            awaited = self._own_parameters(cell) if not tensors and cell is not None else tensors
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.describer.lost(stem, "forward", reason(cause))
            return None
        self._settle(awaited)
        try:
            number = self._numbers.get(stem, 0)
            self._numbers[stem] = number + 1
            above, tail = self.position.here
            name, backward = naming(stem, number)
            describer = self._describer_of(name) if self._saves_some else self.describer
            call = Forward(stem, name, above, cell, describer, self._mode, tail)
            call.kept = self._keeps_all or self._keeps(name, cell is not None)
            call.arguments, call.tensors = tree.values, tree.tensors
            call.wanted, call.floor, sources = self._gradients.inputs(tensors)
            if self._mode.backward:
                if cell is not None and call.wanted:
                    call.floor = self._gradients.probe(tensors)
                if self._saves_some:
                    describer = self._describer_of(backward)
                call.backward = new_backward(backward, above.backward if above else None, self, describer, tail)
            if call.kept:
                if self._stacks is not None:
                    call.stack = self._stacks.of_caller(above.stack if above else None)
                if self._wishes.values:
                    shown = self._blanks.mark_unwritten(tree.values) if self._blanks else None
                    if cell is None and "out" in kwargs:
                        shown = shown or list(tree.values)
                        at = len(args) + list(kwargs).index("out")
                        shown[at] = all_unwritten(shown[at])
                    call.describe_inputs(tree.lost, tuple(kwargs), sources, shown)
            return call
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.describer.lost(stem, "forward", reason(cause))
            return None

    def _describer_of(self, name: str) -> Describer:
        return self._saving if self._saves_some and self._wishes.saves_also(name) else self.describer

    def _keeps(self, name: str, is_cell: bool) -> bool:
        return self.scope.enter(name) if is_cell else self.scope.wants(name)

    def _leave(self, call: Forward | None) -> None:
        if call is not None:
            self.position.leave(call)
            if not self._keeps_all:
                self.guard(self.scope.leave, call.name)

    def _fail(self, call: Forward | None, cause: BaseException) -> None:
        """Write the inputs of a call that raised: the user needs them."""
        if self.on:
            self._note_interrupt(cause)
        if call is None or not self.on or (entry := call.entry(',"missing":["output"]')) is None:
            return
        if not isinstance(cause, self._early_stop):  # by which a recomputation ends when it has what it needs
            raised = Raised(call.name, call.parent_name, call.stack, cause, self.position.running)
            self.guard(self.writer.raised, raised)
            self.guard(self.writer.missing, call.name, "output", f"the call raised {reason(cause)}")
        self.guard(call.name_lost)
        self.guard(self.writer.call, call.name, call.parent_name, call.stack, entry)

    def _end(self, call: Forward | None, result: Any) -> None:
        if call is None or not self.on:
            return
        if self._sees_functions() or self._sees_operations():
            return self._apart(self._end, call, result)
        try:
            is_one = not issubclass(type(result), tuple)
            results, tensors, lost, _ = tree_of((result,) if is_one else results_of(result))
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.describer.lost(call.name, "output", reason(cause))
            self.guard(self.writer.call, call.name, call.parent_name, call.stack, call.entry(',"missing":["output"]'))
            return
        try:
            self._settle(tensors)
        except BaseException as cause:  # the training's: in the asynchronous pipeline it is raised after the call
            self._fail(call, cause)
            raise
        try:
            if not tensors and call.cell is None and not call.stem.startswith(("Primitive.", "Jit.")):
                self._numbers[call.stem] -= 1  # not a computation on tensors: as if it had not been called
                self.writer.abandon(call.name)
                return
            if call.stem in self._empty:
                self._blanks.note(tensors)
            if call.kept and self._mode.forward and self._mode.output and self._wishes.values:
                call.describe_outputs(self._blanks.mark_unwritten(results) if self._blanks else results, lost)
            if call.lost:
                call.name_lost()
            above = call.parent
            self.writer.call(call.name, above.name if above is not None else None, call.stack, call.entry())
            if (backward := call.backward) is not None:
                if call.cell is None:
                    self._gradients.place(backward, call.name, call.wanted, tensors, call.floor)
                else:
                    self._expect_gradients(call, backward, tensors)
                if backward.live:
                    backward.describe(skeletons(call.arguments, call.tensors), skeletons(results, tensors))
                    self._backwards.append(backward)
            call.release()
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.describer.lost(call.name, "output", reason(cause))

    def _expect_gradients(self, call: Forward, backward: Backward, tensors: list[Leaf]) -> None:
        """Expect the gradients of a cell."""
        if self.cell_hooks is not None and self.cell_hooks.are_on(call.cell) and self._runs_hooks(call.cell):
            self.cell_hooks.expect(call, backward)
            self._gradients.notice(tensors)
            return
        if not call.wanted:  # the outermost cell of a graph makes its leaves itself
            call.wanted, _, _ = self._gradients.inputs(list(call.tensors))
        self._gradients.place(backward, call.name, call.wanted, tensors, call.floor)

    def call_collective(
        self, stem: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function that exchanges tensors between ranks, and record it when its results are there."""
        return self._exchanges.call(stem, function, args, kwargs)

    def waited(self, handle: Any) -> None:
        """Note that the training has waited for a handle of an exchange."""
        if threading.get_ident() != self._thread:
            return
        before = self.busy, self.on
        self.busy = self.on = True  # the call was made while calls were recorded
        try:
            self._exchanges.waited(handle)
        finally:
            self.busy, self.on = before

    # ---- backward --------------------------------------------------------------------------------------------------

    def begin_backward(self, backward: Backward) -> bool:
        """Return the first gradient of a call arrived; return whether its records are wanted."""
        kept = self._keeps_all or self._keeps(backward.name, parse(backward.name).kind == "cell")
        return kept and self._wishes.values

    def end_backward(self, backward: Backward, incoming: str, outgoing: str) -> None:
        """Write a backward call."""
        self.writer.call(backward.name, backward.parent, None, backward.entry(incoming, outgoing))
        if not self._keeps_all:
            self.scope.leave(backward.name)

    def parameter_gradient(self, stem: str, parameter: str, gradient: AnyTensor, is_sum: bool = False) -> None:
        """Write the gradient of a cell's parameter; later ones of the same step are numbered. `is_sum`: with what
        earlier backwards left in it.

        Where another debugger collects by now, or its backward runs, as in stages that share a model, only those of a
        backward that passes our calls are ours.
        """
        if not self._gradients.running and (self.has_yielded or any(each.running for each in _all_gradients)):
            return
        if not self._wishes.values or not (self._keeps_all or self._keeps(f"{stem}.parameters_grad", False)):
            return
        name = self.name_of_gradient(stem, parameter)
        self._numbers[f"{stem}.parameters_grad.{parameter}"] += 1
        record = self._describer_of(name).tensor(gradient, name, parameter)
        if is_sum and record != "null":
            record = f'{record[:-1]},"gradient":"accumulated"}}'
        self.writer.call(name, None, None, f'{{"{parameter}":[{record}]}}')

    def name_of_gradient(self, stem: str, parameter: str) -> str:
        """Return the name of the entry of the next gradient of a cell's parameter in this step."""
        number = self._numbers.setdefault(f"{stem}.parameters_grad.{parameter}", 0)
        return f"{stem}.parameters_grad" if number == 0 else f"{stem}.parameters_grad.{number}"

    def _flush(self) -> None:
        """End the calls that a whole backward reached, inner ones first."""
        for backward in reversed(self._backwards):
            if backward.begun:
                backward.finish_all()
        self._backwards = [b for b in self._backwards if not b.done]


_READING = {method.__code__ for method in (Session.call_api, Session.call_inner, Session.guard, Session.waited)}
"""The methods inside of which a session is busy."""
