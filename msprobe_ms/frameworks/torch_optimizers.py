"""Optimizers with PyTorch's interface, in PyTorch and in its API on MindSpore; imports neither."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from types import MethodType
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyOptimizer, AnyParameter
from msprobe.base.log import log_once
from msprobe.base.patches import Handle
from msprobe.base.statistic import Array

from .interface import GradientProbe, GradientWatch, NotAnOptimizerError, Removal, Update


def hook_update(optimizer: Any, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
    """Hook the updates of an optimizer by its own methods."""

    def enter(*_: Any) -> None:
        before(None)

    def leave(*_: Any) -> None:
        after()

    return [optimizer.register_step_pre_hook(enter), optimizer.register_step_post_hook(leave)]


def wrap_update(optimizer: Any, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
    """Wrap the method `step` of one object, if it has no hooks or does not call them."""
    original = optimizer.step
    had_own = "step" in vars(optimizer)

    @wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        before(None)
        result = original(*args, **kwargs)
        after()
        return result

    def restore() -> None:
        if vars(optimizer).get("step") is not step:
            return  # a scheduler has wrapped it: this wrapper remains and does nothing
        if had_own:
            optimizer.step = original
        else:
            del optimizer.step

    optimizer.step = step
    return [Removal(restore)]


class TorchOptimizers:
    """Common parts of the `Optimizers` of frameworks with PyTorch's interface."""

    def check(self, optimizer: AnyOptimizer) -> None:
        """Raise UsageError if an object does not have the attributes of an optimizer."""
        if not callable(getattr(optimizer, "step", None)) or not hasattr(optimizer, "param_groups"):
            raise UsageError(
                f"set_monitor(): the optimizer is a {type(optimizer).__name__} without step() or param_groups; pass "
                "the optimizer whose step() updates the parameters"
            )

    def parameters(self, optimizer: AnyOptimizer) -> list[AnyParameter]:
        """Return the parameters of all groups."""
        return [each for group in optimizer.param_groups for each in group["params"]]

    def update_of(
        self, optimizer: AnyOptimizer, gradients: Any, main_grad: bool, monitored: Sequence[AnyParameter]
    ) -> Update:
        """Return the gradients of the parameters, preferably `main_grad` if it is selected, and the optimizer's state.

        With mixed precision, an optimizer may update float32 copies, which are `main_param` of the model's parameters.
        """
        parameters = [(p, p) for p in self.parameters(optimizer)]
        own = {id(p) for p, _ in parameters}
        copies = ((p, getattr(p, "main_param", None)) for p in monitored if id(p) not in own)
        parameters += [(p, copy) for p, copy in copies if id(copy) in own]
        found = []
        for parameter, _ in parameters:
            main = getattr(parameter, "main_grad", None) if main_grad else None
            gradient = parameter.grad if main is None else main
            if gradient is not None:
                found.append((parameter, gradient))
        state = getattr(optimizer, "state", {})
        first, second = (
            [(p, state[copy][name]) for p, copy in parameters if name in state.get(copy, {})]
            for name in ("exp_avg", "exp_avg_sq")
        )
        return Update(found, first, second)


def watch_optimizer(optimizer: Any, probe: GradientProbe, also: str = "") -> GradientWatch:
    """Return the watch of an optimizer. Raises NotAnOptimizerError; `also` is what the user may pass instead."""
    if not isinstance(getattr(optimizer, "param_groups", None), list) or not callable(getattr(optimizer, "step", None)):
        raise NotAnOptimizerError(
            f"monitor(): {type(optimizer).__name__} is not an optimizer: it has no param_groups, or no step(); "
            f"pass the optimizer{', or the model' if also else ''}"
        )
    if any("param_names" not in group for group in optimizer.param_groups):
        log_once(
            f"no names {id(optimizer)}",
            "monitor(): this optimizer has no parameter names, so files are named after parameter positions; "
            f"construct it with model.named_parameters() (PyTorch 2.6){also}",
        )
    return probe.watch([name for name, _ in named_parameters(optimizer)])


def report_before_step(optimizer: Any, report_update: Callable[[], None]) -> None:
    """Call a function before each `step` of an optimizer, for good."""
    step = optimizer.step

    @wraps(step)
    def observed(_: Any, *args: Any, **kwargs: Any) -> Any:
        report_update()
        return step(*args, **kwargs)

    optimizer.step = MethodType(observed, optimizer)  # schedulers require a method


def named_parameters(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Return the parameters of an optimizer with their names."""
    for number, group in enumerate(optimizer.param_groups):
        named = group.get("param_names")
        for place, parameter in enumerate(group["params"]):
            yield (str(named[place]) if named else f"group{number}.{place}"), parameter


def report(watch: GradientWatch, parameters: list[tuple[str, Any]], array_of: Callable[[Any], Array]) -> None:
    """Report one update with the gradients that the parameters hold, whose elements `array_of` returns."""
    if not watch.begin():
        return
    for name, parameter in parameters:
        if parameter.grad is not None and watch.wants(name):
            watch.take(name, partial(array_of, parameter.grad))
    watch.end()
