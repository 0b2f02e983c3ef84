"""Optimizers of PyTorch's API on MindSpore, which accept hooks but do not call them."""

from collections.abc import Callable, Sequence
from typing import Any

from mindspore import nn

from msprobe.base.framework import AnyOptimizer
from msprobe.base.patches import Handle
from msprobe.frameworks.interface import GradientProbe
from msprobe.frameworks.mindspore import optimizers as base
from msprobe.frameworks.mindspore.reading import array_to_save
from msprobe.frameworks.torch_optimizers import (
    TorchOptimizers,
    named_parameters,
    report,
    report_before_step,
    watch_optimizer,
    wrap_update,
)


class Optimizers(TorchOptimizers):
    """Optimizers of PyTorch's API on MindSpore."""

    def hook(
        self, optimizer: AnyOptimizer, before: Callable[[Any], None], after: Callable[[], None]
    ) -> Sequence[Handle]:
        return wrap_update(optimizer, before, after)

    def report_gradients(self, optimizer: AnyOptimizer, probe: GradientProbe) -> None:
        if isinstance(optimizer, nn.Cell):
            base.CAPABILITY.report_gradients(optimizer, probe)
            return
        watch = watch_optimizer(optimizer, probe)
        report_before_step(optimizer, lambda: report(watch, list(named_parameters(optimizer)), array_to_save))


CAPABILITY = Optimizers()
