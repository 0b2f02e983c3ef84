"""What the user saves by hand, `PrecisionDebugger.save`: values at once, and the gradients that flow back to them.

The gradient of a saved tensor is the sum over all its users. Nothing is inserted into the graph and hooks return
nothing to it, so every bit of the training stays as it was.
"""

from collections.abc import Callable
from typing import Any

from msprobe.base.checks import quoted
from msprobe.base.errors import reason
from msprobe.base.framework import AnyTensor
from msprobe.base.interrupts import must_propagate, uninterrupted
from msprobe.base.log import log_once
from msprobe.base.nested import MAX_DEPTH, PLAIN, Tree, is_tensor, leaves_of, tree_of, tree_of_value, type_name
from msprobe.base.settings import Settings, collect_options
from msprobe.store.writer import StepWriter

from .backward import Skeleton, fill, skeleton
from .describer import Describer
from .framework import Framework


class Saves:
    """The saved variables of one run, one dump a step.

    What goes wrong in here is logged, noted in the dump where there is one, and never reaches the training.
    """

    def __init__(self, settings: Settings, framework: Framework) -> None:
        self._framework = framework
        self._wishes = collect_options(settings)
        self._step: _Step | None = None
        self._refused = False

    def save(self, variable: Any, name: str, save_backward: bool, open_writer: Callable[[], StepWriter]) -> None:
        """Save a variable under `name`, and with `save_backward` the gradients that will flow back to its tensors.

        `variable` is a tensor, a number, a text, or lists, tuples and dicts of them, nested at most 50 deep. Anything
        else is logged once, and nothing of it is saved. `open_writer` is called at the first save of a step;
        `end_step` closes that writer.
        """
        try:
            tree = tree_of_value(variable)
            wrong = refusal(tree, name, save_backward)
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            wrong = f"a variable cannot be read: {reason(cause)}"
        if wrong:
            log_once(f"save: {wrong}", f"PrecisionDebugger.save: {wrong}; this call does not save anything")
            return
        self._framework.settle(tree.tensors)
        if self._step is None and not self._refused:
            try:
                uninterrupted(lambda: self._begin(open_writer()))
            except Exception as cause:  # a debugger never stops the training because of itself
                if must_propagate(cause):
                    raise
                self._refused = True
                message = f"PrecisionDebugger.save: data of this step cannot be saved: {reason(cause)}"
                log_once(message, f"{message}; the training continues")
        if self._step is not None:
            self._step.save(tree, name, save_backward)

    def _begin(self, writer: StepWriter) -> None:
        wishes = self._wishes
        describer = self._framework.describer(writer, **wishes.of_records(wishes.saves))
        self._step = _Step(self._framework, writer, describer)

    def interrupted(self, cause: str) -> None:
        """Have the step's dump say that it was interrupted."""
        if self._step is not None:
            self._step.interrupted(cause)

    def end_step(self) -> None:
        """Write what is still awaited, as it is, and finish the step's dump; numbers begin again."""
        if self._step is not None:
            self._step.close()
        self._step = None
        self._refused = False


class _Awaited:
    """The gradients of one saved variable, as far as they have come; `handles` are its hooks on parameters and data."""

    __slots__ = ("call", "done", "expected", "handles", "records", "shape")

    def __init__(self, call: str, shape: Skeleton) -> None:
        self.call, self.shape = call, shape
        self.expected = 0
        self.handles: list[Any] = []
        self.records: dict[str, str] = {}
        self.done = False


class _Step:
    """The saved variables of one step: their numbers, and the gradients that are to come."""

    def __init__(self, framework: Framework, writer: StepWriter, describer: Describer) -> None:
        self._framework, self._writer, self._describer = framework, writer, describer
        self._numbers: dict[str, int] = {}
        self._taken: set[str] = set()
        self._awaited: list[_Awaited] = []
        self._final = self._ended  # kept: the framework may drop its last reference without holding the GIL
        self._is_registered = self._is_interrupted = False

    def save(self, tree: Tree, name: str, save_backward: bool) -> None:
        call, gradients = self._next(name)
        self._guard(call, "value", self._write, call, tree)
        if save_backward:
            self._guard(gradients, "gradients", self._await, gradients, tree)

    def interrupted(self, cause: str) -> None:
        """Have the dump say that the step was interrupted; once."""
        if not self._is_interrupted:
            self._is_interrupted = True
            self._guard("step", "interrupted", self._writer.missing, "step", "interrupted", cause)

    def close(self) -> None:
        """Finish the dump; hooks on parameters and data go, those on nodes that live on do nothing."""
        for awaited in self._awaited:
            self._guard(awaited.call, "gradients", self._finish, awaited)
        self._let_go()
        self._guard("step", "files", self._writer.close)

    def _guard(self, call: str, part: str, work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self._describer.lost(call, part, reason(cause))

    def _next(self, name: str) -> tuple[str, str]:
        """Return the names of a variable and of its gradients.

        The gradients of `x` and a variable `x_grad` would share a name: a number that is taken is passed over.
        """
        while True:
            number = self._numbers.get(name, 0)
            self._numbers[name] = number + 1
            names = f"{name}.{number}.debug", f"{name}_grad.{number}.debug"
            if self._taken.isdisjoint(names):
                self._taken.update(names)
                return names

    def _write(self, call: str, tree: Tree) -> None:
        self._writer.call(call, None, None, self._describer.value(tree.values[0], call, ""))

    # ---- gradients -------------------------------------------------------------------------------------------------

    def _await(self, call: str, tree: Tree) -> None:
        self._is_registered = False  # the end of a backward that raised was not reported
        awaited = _Awaited(call, skeleton(tree.values[0]))
        self._awaited.append(awaited)
        for place, tensor in tree.tensors:
            if self._hook(tensor, awaited, place):
                awaited.expected += 1
        if not awaited.expected:
            self._finish(awaited)
            self._awaited.remove(awaited)

    def _hook(self, tensor: AnyTensor, awaited: _Awaited, place: str) -> bool:
        """Hook the gradient of a tensor for `awaited`; False if none can come."""

        def arrived(gradient: AnyTensor) -> None:
            if not awaited.done:
                self._framework.settle(tree_of((gradient,)).tensors)
                self._guard(awaited.call, place, self._arrived, awaited, place, gradient)

        has_gradient, handle = self._framework.hook_of(tensor, arrived)
        if handle is not None:
            awaited.handles.append(handle)
        return has_gradient

    def _arrived(self, awaited: _Awaited, place: str, gradient: AnyTensor) -> None:
        if place in awaited.records:
            return
        awaited.records[place] = self._describer.value(gradient, awaited.call, place)
        if len(awaited.records) == awaited.expected:
            self._finish(awaited)
        if not self._is_registered:
            self._is_registered = self._framework.when_backward_ends(self._final)

    def _ended(self) -> None:
        """Complete the variables after a whole backward: another one does not add to them."""
        self._is_registered = False
        for awaited in self._awaited:
            if awaited.records:
                self._guard(awaited.call, "gradients", self._finish, awaited)
        self._let_go()

    def _let_go(self) -> None:
        """Forget the variables that are finished; never from a hook, which may be one of those that go."""
        for awaited in self._awaited:
            if awaited.done:
                for handle in awaited.handles:
                    self._guard(awaited.call, "hooks", handle.remove)
        self._awaited = [awaited for awaited in self._awaited if not awaited.done]

    def _finish(self, awaited: _Awaited) -> None:
        if not awaited.done:
            awaited.done = True
            self._writer.call(awaited.call, None, None, fill(awaited.shape, awaited.records))


def refusal(tree: Tree, name: Any, save_backward: Any) -> str:
    """Return the error in the arguments of `save` and its place; empty if there is none."""
    if not isinstance(name, str) or not name:
        return f"the name is {(quoted(name) if name != '' else repr(name))}; pass a string"
    if not isinstance(save_backward, bool):
        return f"save_backward of {name!r} is {quoted(save_backward)}; pass True or False"
    variable = f"variable {name!r}"
    for lost in tree.lost:
        where = _at(variable, lost.place)
        if lost.kind.startswith("nested"):
            return f"{where} is nested deeper than {MAX_DEPTH}; save its parts separately"
        return f"{where} cannot be saved as a whole: {lost.cause}; save its parts separately"
    for place in tree.odd_keys:
        return f"{_at(variable, place)} has a key that is not a string; use strings as keys"
    for place, leaf in leaves_of(tree.values[0]):
        if not is_tensor(leaf) and not issubclass(type(leaf), PLAIN):
            what = "None" if leaf is None else f"of type {type_name(leaf)}"
            return (
                f"{_at(variable, place)} is {what}; pass tensors, int, float, str, or lists, tuples and dicts of these"
            )
    return ""


def _at(variable: str, place: str) -> str:
    """Return the place of something in a variable, for a message."""
    return f"{variable} at {place[:80]}{'...' if len(place) > 80 else ''}" if place else variable
