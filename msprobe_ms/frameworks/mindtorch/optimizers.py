"""Optimizers of PyTorch's API on MindSpore, which accept hooks but do not call them."""

from collections.abc import Callable, Sequence
from typing import Any

from mindspore import nn

from msprobe.base.framework import AnyOptimizer, AnyParameter
from msprobe.base.patches import Handle
from msprobe.frameworks.interface import GradientProbe, Update
from msprobe.frameworks.mindspore import optimizers as base
from msprobe.frameworks.torch_optimizers import (
    check_optimizer,
    named_parameters,
    parameters_of,
    report,
    report_before_step,
    updated,
    watch_optimizer,
    wrap_update,
)


class Optimizers:
    """Optimizers of PyTorch's API on MindSpore."""

    def check(self, optimizer: object) -> None:
        check_optimizer(optimizer)

    def parameters(self, optimizer: AnyOptimizer) -> list[AnyParameter]:
        return parameters_of(optimizer)

    def hook(
        self, optimizer: AnyOptimizer, before: Callable[[Any], None], after: Callable[[], None]
    ) -> Sequence[Handle]:
        return wrap_update(optimizer, before, after)

    def update_of(
        self, optimizer: AnyOptimizer, gradients: Any, main_grad: bool, monitored: Sequence[AnyParameter]
    ) -> Update:
        return updated(optimizer, main_grad, monitored)

    def report_gradients(self, optimizer: AnyOptimizer, probe: GradientProbe) -> None:
        if isinstance(optimizer, nn.Cell):
            base.CAPABILITY.report_gradients(optimizer, probe)
            return
        watch = watch_optimizer(optimizer, probe)
        report_before_step(optimizer, lambda: report(watch, list(named_parameters(optimizer))))


CAPABILITY = Optimizers()
