"""Optimizers of PyTorch, whose parameters hold the gradients when `step()` is called.

A model may be given in place of its optimizer: every optimizer that has one of its parameters is watched. The names are
those of the model, or those that the optimizer was made with (`model.named_parameters()`); without either, a parameter
is called by its group and its place in it.
"""

from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import MethodType
from typing import Any

import torch
from torch.optim import optimizer as _optimizers

from msprobe.base.framework import array_of
from msprobe.base.log import once
from msprobe.base.statistic import Array
from msprobe.cell_dump.backends.torch_api import torch_on_mindspore
from msprobe.grad_probe.probe import GradProbe, NotAnOptimizerError, Watch


def attach(optimizer: Any, probe: GradProbe) -> None:
    """Have the gradients reported that an optimizer's steps find. NotAnOptimizerError where it is none."""
    runs_hooks = not torch_on_mindspore()  # the layer's optimizers take hooks, and never call them
    if isinstance(optimizer, torch.nn.Module) and runs_hooks:
        _attach_model(optimizer, probe)
        return
    if not isinstance(getattr(optimizer, "param_groups", None), list) or not callable(getattr(optimizer, "step", None)):
        raise NotAnOptimizerError(
            f"monitor(): {type(optimizer).__name__} is not an optimizer: it has no param_groups, or no step(); "
            f"pass the optimizer{', or the model' * runs_hooks}"
        )
    if any("param_names" not in group for group in optimizer.param_groups):
        once(
            f"no names {id(optimizer)}",
            "monitor(): this optimizer has no parameter names, so files are named after parameter positions; "
            f"construct it with model.named_parameters() (PyTorch 2.6){', or call monitor(model)' * runs_hooks}",
        )
    watch = probe.watch([name for name, _ in _named(optimizer)])

    def before(*_: Any) -> None:
        report(watch, list(_named(optimizer)))

    if runs_hooks and hasattr(optimizer, "register_step_pre_hook"):
        _hooked(
            lambda: [optimizer.register_step_pre_hook(before)],
            lambda: [each for group in optimizer.param_groups for each in group["params"]],
        )
        return
    step = optimizer.step

    @wraps(step)
    def observed(_: Any, *args: Any, **kwargs: Any) -> Any:
        before()
        return step(*args, **kwargs)

    optimizer.step = MethodType(observed, optimizer)  # schedulers want a method


def _attach_model(model: Any, probe: GradProbe) -> None:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    watches: dict[int, tuple[Any, Watch]] = {}
    if not names:
        raise NotAnOptimizerError("monitor(): the model has no parameters; pass the one that is trained")

    def before(optimizer: Any, *_: Any) -> None:
        of_model = [
            (names[id(each)], each) for group in optimizer.param_groups for each in group["params"] if id(each) in names
        ]
        if not of_model:
            return
        if id(optimizer) not in watches:
            watches[id(optimizer)] = optimizer, probe.watch([name for name, _ in of_model])
        report(watches[id(optimizer)][1], of_model)

    _hooked(lambda: [_optimizers.register_optimizer_step_pre_hook(before)], lambda: list(model.parameters()))


def _hooked(register: Callable[[], list[Any]], parameters: Callable[[], list[Any]]) -> None:
    from msprobe.cell_dump.backends.pytorch.compiled import UpdateHooks  # here: this module also serves a layer

    UpdateHooks(register, parameters, _missed)


def _missed() -> None:
    once(
        "grad_probe of a compiled update",
        "grad_probe: the optimizer's step runs inside code compiled by torch.compile, so its gradients are not "
        "collected; call optimizer.step() outside of compiled code",
    )


def _named(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of an optimizer with their names."""
    for number, group in enumerate(optimizer.param_groups):
        named = group.get("param_names")
        for place, parameter in enumerate(group["params"]):
            yield (str(named[place]) if named else f"group{number}.{place}"), parameter


def report(watch: Watch, parameters: list[tuple[str, torch.nn.Parameter]]) -> None:
    """One update with the gradients that the parameters hold."""
    if not watch.begin():
        return
    for name, parameter in parameters:
        if parameter.grad is not None and watch.wants(name):
            watch.take(name, partial(_array, parameter.grad))
    watch.end()


def _array(gradient: torch.Tensor) -> Array:
    if not torch_on_mindspore() and gradient.layout is not torch.strided:
        gradient = gradient.to_dense()
    return array_of(gradient)
