"""One collected step: its counters, its open calls, and how a call becomes records.

A session lives from a step's first `start` to its `step`; `on` tells whether `start` or `stop` came last. Gradient
hooks may still fire while it is off. Whatever goes wrong in here is noted in the dump and never reaches the training.
"""

import threading
from collections.abc import Callable
from typing import Any

from msprobe.base.names import api_call, cell_call, parse
from msprobe.base.scope import Scope
from msprobe.base.sections import CollectSettings
from msprobe.base.settings import Settings
from msprobe.store.write import Writer

from .backward import Backward
from .gradient import HAS_NODES, NodeGradients
from .host import settle
from .stack import Stacks
from .tensor import JSON, Describer, leaves, reason, skeleton
from .tensor_gradient import TensorGradients


class Forward:
    """A forward call between its begin and its end."""

    __slots__ = ("arguments", "backward", "cell", "entry", "floor", "kept", "name", "parent", "stack", "stem", "wanted")

    def __init__(self, stem: str, name: str, parent: "Forward | None", cell: Any) -> None:
        self.stem, self.name, self.parent, self.cell = stem, name, parent, cell
        self.kept = True
        self.stack: int | None = None
        self.entry: dict[str, JSON] = {}
        self.arguments: Any = ()
        self.wanted: Any = None
        self.floor = -1
        self.backward: Backward | None = None


class Session:
    """Collects one step of one rank."""

    def __init__(self, settings: Settings, section: CollectSettings, writer: Writer, scope: Scope) -> None:
        mode = section.data_mode
        self.on = self.busy = self.closed = False
        self.describer = Describer(writer, settings.task == "tensor")
        self.takes_backward_input = mode.backward and mode.input
        self.takes_backward_output = mode.backward and mode.output
        self._mode = mode
        self._writer = writer
        self._scope = scope
        self._stacks = Stacks(writer) if settings.extra_info else None
        self._thread = threading.get_ident()
        self._numbers: dict[str, int] = {}
        self._open: list[Forward] = []
        self._backwards: list[Backward] = []
        self._gradients = NodeGradients(self.hook, self._flush) if HAS_NODES else TensorGradients(self.hook)

    def listens(self) -> bool:
        """Whether a call made now, by this thread, is to be recorded."""
        return self.on and not self.busy and threading.get_ident() == self._thread

    def pause(self) -> None:
        """Stop recording calls; the three files say what is known by now."""
        self.on = False
        self.guard(self._flush)
        self._gradients.rest()
        self.guard(self._writer.assemble)

    def close(self) -> None:
        """End the step: what is incomplete is written as it is, and hooks that still fire find nobody."""
        self.on = False
        self.guard(self._flush)
        self.guard(self._writer.close)
        self._gradients.forget()
        self._backwards.clear()
        self.closed = True

    def guard(self, work: Callable[..., None], *args: Any) -> None:
        """Do a piece of collecting that the training must not feel: no exception, no record of our own reading."""
        if self.closed:
            return
        before, self.busy = self.busy, True
        try:
            work(*args)
        except Exception as cause:  # a debugger never stops the training because of itself
            self.describer.lost("step", getattr(work, "__name__", "collecting"), reason(cause))
        finally:
            self.busy = before

    def hook(self, work: Callable[..., None], *args: Any) -> Callable[..., None]:
        """`work`, guarded, as a hook; MindSpore 2.7 takes nothing but a plain function."""

        def told(*given: Any) -> None:
            settle(leaves(given))
            self.guard(work, *args, *given)

        return told

    # ---- forward: a call begins, runs, ends ------------------------------------------------------------------------

    def call_api(self, stem: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an API and record it, and nothing inside it. What it gives or raises is passed on untouched."""
        self.busy = True
        try:
            call = self._begin(stem, api_call, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except BaseException as cause:
                self._fail(call, cause)
                raise
            self._end(call, _outcome(args, result))
            return result
        finally:
            self.busy = False

    def call_cell(
        self, stem: str, function: Callable[..., Any], cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a cell and record it, and what is called inside. What it gives or raises is passed on untouched."""
        self.busy = True
        try:
            call = self._begin(stem, cell_call, args, kwargs, cell)
        finally:
            self.busy = False
        if call is not None:
            self._open.append(call)
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

    def _begin(self, stem: str, naming: Callable[..., str], args: Any, kwargs: Any, cell: Any = None) -> Forward | None:
        arguments = [*args, *kwargs.values()] if kwargs else args
        settle(leaves(arguments))
        try:
            number = self._numbers.get(stem, 0)
            self._numbers[stem] = number + 1
            above = self._open[-1] if self._open else None
            call = Forward(stem, naming(stem, number, "forward"), above, cell)
            call.kept = self._keeps(call.name, cell is not None)
            call.arguments = arguments
            if self._mode.backward:
                call.wanted, call.floor = self._gradients.inputs(call.arguments)
                if cell is not None and call.wanted:
                    call.floor = self._gradients.probe(call.arguments)
                call.backward = Backward(naming(stem, number, "backward"), above.backward if above else None, self)
            if call.kept:
                call.stack = self._stacks.here() if self._stacks is not None else None
                if self._mode.forward:
                    self._describe_inputs(call, args, kwargs)
            return call
        except Exception as cause:  # a debugger never stops the training because of itself
            self.describer.lost(stem, "forward", reason(cause))
            return None

    def _keeps(self, name: str, is_cell: bool) -> bool:
        if self._scope.trivial:
            return True
        return self._scope.enter(name) if is_cell else self._scope.wants(name)

    def _describe_inputs(self, call: Forward, args: Any, kwargs: Any) -> None:
        describe, sources = self.describer.value, self._gradients.source
        if self._mode.input:
            call.entry["input_args"] = [describe(v, call.name, f"input.{i}", 1, sources) for i, v in enumerate(args)]
            call.entry["input_kwargs"] = {
                k: describe(v, call.name, f"kwargs.{k}", 1, sources) for k, v in kwargs.items()
            }
        if call.cell is not None and call.cell._params:
            call.entry["parameters"] = {
                key: self.describer.tensor(parameter, call.name, f"parameters.{key}")
                for key, parameter in own_parameters(call.cell)
            }

    def _leave(self, call: Forward | None) -> None:
        """Take a cell off the open calls, with whatever an exception left open above it."""
        if call is None:
            return
        while self._open and self._open.pop() is not call:
            pass
        if not self._scope.trivial:
            self._scope.leave(call.name)

    def _fail(self, call: Forward | None, cause: BaseException) -> None:
        """The call raised: its inputs are what one wants to see, so they are written."""
        if call is not None and self.on and call.kept and call.entry:
            call.entry["missing"] = ["output"]
            self.guard(self._writer.missing, call.name, "output", f"the call raised {reason(cause)}")
            self.guard(self._writer.call, call.name, call.parent.name if call.parent else None, call.stack, call.entry)

    def _end(self, call: Forward | None, result: Any) -> None:
        if call is None or not self.on:
            return
        results = result if type(result) is tuple else (result,)
        tensors = leaves(results)
        settle(tensors)
        try:
            if not tensors and call.cell is None:
                self._numbers[call.stem] -= 1  # not a computation on tensors: as if it had not been called
                return
            if call.kept and self._mode.forward and self._mode.output:
                describe = self.describer.value
                call.entry["output"] = [describe(v, call.name, f"output.{i}", 1) for i, v in enumerate(results)]
            entry = call.entry if call.kept and call.entry else None
            self._writer.call(call.name, call.parent.name if call.parent else None, call.stack, entry)
            if call.backward is not None:
                self._gradients.place(call.backward, call.name, call.wanted, tensors, call.floor)
                if call.backward.live:
                    call.backward.describe(skeleton(list(call.arguments)), skeleton(list(results)))
                    self._backwards.append(call.backward)
        except Exception as cause:  # a debugger never stops the training because of itself
            self.describer.lost(call.name, "output", reason(cause))

    # ---- backward --------------------------------------------------------------------------------------------------

    def begin_backward(self, backward: Backward) -> bool:
        """The first gradient of a call arrived; tells whether its records are wanted."""
        return self._keeps(backward.name, parse(backward.name).kind == "cell")

    def end_backward(self, backward: Backward, incoming: JSON, outgoing: JSON) -> None:
        """Write a backward call."""
        entry: dict[str, JSON] | None = None
        if backward.kept:
            entry = {}
            if self.takes_backward_input:
                entry["input"] = incoming
            if self.takes_backward_output:
                entry["output"] = outgoing
        self._writer.call(backward.name, backward.parent, None, entry)
        if not self._scope.trivial:
            self._scope.leave(backward.name)

    def parameter_gradient(self, stem: str, parameter: str, gradient: Any) -> None:
        """Write the gradient of a cell's parameter; later ones of the same step are numbered."""
        if not self._keeps(f"{stem}.parameters_grad", False):
            return
        counter = f"{stem}.parameters_grad.{parameter}"
        number = self._numbers.get(counter, 0)
        self._numbers[counter] = number + 1
        name = f"{stem}.parameters_grad" if number == 0 else f"{stem}.parameters_grad.{number}"
        self._writer.call(name, None, None, {parameter: [self.describer.tensor(gradient, name, parameter)]})

    def _flush(self) -> None:
        """A whole backward has run: nothing more will come for the calls that it reached; inner ones end first."""
        for backward in reversed(self._backwards):
            if backward.begun:
                backward.finish_all()
        self._backwards = [b for b in self._backwards if not b.done]


def own_parameters(cell: Any) -> list[tuple[str, Any]]:
    """A cell's own parameters, not those of the cells inside, with their names in the cell."""
    return [(key, p) for key, p in cell._params.items() if p is not None]


def _outcome(args: tuple[Any, ...], result: Any) -> Any:
    """What a call did: its result, or the tensor that it changed in place when it gives nothing (`x[0] = 1`)."""
    return args[0] if result is None and args else result
