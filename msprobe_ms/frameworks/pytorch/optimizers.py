"""Optimizers of PyTorch, whose parameters hold the gradients when `step()` is called.

`report_gradients` also accepts a model: then every optimizer that has one of its parameters is watched. The names are
those of the model, or those with which the optimizer was constructed (`model.named_parameters()`); without either, a
parameter is named by its group and its position in it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import optimizer as _optimizers

from msprobe.base.log import log_once
from msprobe.base.patches import Handle
from msprobe.base.statistic import Array
from msprobe.frameworks.interface import GradientProbe, GradientWatch, NotAnOptimizerError, Removal
from msprobe.frameworks.torch_optimizers import (
    TorchOptimizers,
    hook_update,
    named_parameters,
    report,
    report_before_step,
    watch_optimizer,
    wrap_update,
)

from .compiled import UpdateHooks
from .reading import array_of


class Optimizers(TorchOptimizers):
    """Optimizers of PyTorch."""

    def hook(self, optimizer: Any, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
        has_hooks = all(hasattr(optimizer, f"register_step_{when}_hook") for when in ("pre", "post"))
        if not has_hooks:
            return wrap_update(optimizer, before, after)

        def missed() -> None:
            log_once(
                "monitor of a compiled update",
                "monitor: the optimizer's step runs inside code compiled by torch.compile, so its gradients and "
                "moments are not measured; call optimizer.step() outside of compiled code, or monitor without "
                "torch.compile",
            )
            after()

        hooks = UpdateHooks(
            lambda: list(hook_update(optimizer, before, after)), lambda: self.parameters(optimizer), missed
        )
        return [Removal(hooks.end)]

    def report_gradients(self, optimizer: Any, probe: GradientProbe) -> None:
        if isinstance(optimizer, torch.nn.Module):
            _report_of_model(optimizer, probe)
            return
        watch = watch_optimizer(optimizer, probe, ", or call monitor(model)")

        def before(*_: Any) -> None:
            report(watch, list(named_parameters(optimizer)), _elements)

        if hasattr(optimizer, "register_step_pre_hook"):
            UpdateHooks(
                lambda: [optimizer.register_step_pre_hook(before)],
                lambda: self.parameters(optimizer),
                _missed_gradients,
            )
        else:
            report_before_step(optimizer, before)


def _report_of_model(model: Any, probe: GradientProbe) -> None:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    watches: dict[int, tuple[Any, GradientWatch]] = {}
    if not names:
        raise NotAnOptimizerError("monitor(): the model has no parameters; pass the one that is trained")

    def before(optimizer: Any, *_: Any) -> None:
        of_model = [(names[id(each)], each) for each in CAPABILITY.parameters(optimizer) if id(each) in names]
        if not of_model:
            return
        if id(optimizer) not in watches:
            watches[id(optimizer)] = optimizer, probe.watch([name for name, _ in of_model])
        report(watches[id(optimizer)][1], of_model, _elements)

    UpdateHooks(
        lambda: [_optimizers.register_optimizer_step_pre_hook(before)],
        lambda: list(model.parameters()),
        _missed_gradients,
    )


def _missed_gradients() -> None:
    log_once(
        "grad_probe of a compiled update",
        "grad_probe: the optimizer's step runs inside code compiled by torch.compile, so its gradients are not "
        "collected; call optimizer.step() outside of compiled code",
    )


def _elements(gradient: torch.Tensor) -> Array:
    return array_of(gradient if gradient.layout is torch.strided else gradient.to_dense())


CAPABILITY = Optimizers()
