"""The capabilities of a framework as one monitor uses them: with tensors on a CPU, or on a device.

On a CPU the elements of a tensor are read immediately. On a device the statistics are computed there and fetched when
the step ends, because reading a tensor waits for the device.
"""

from collections.abc import Iterable
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, AnyOptimizer, AnyParameter
from msprobe.base.statistic import Array
from msprobe.frameworks.interface import Statistics
from msprobe.frameworks.registry import Framework, framework, name_of_model

Numbers = Array
"""Float64, one row per tensor, one column per statistic of `layout.STATISTICS`."""


class Backend:
    """The framework of a monitored training."""

    def __init__(self, name: str) -> None:
        self.framework: Framework = framework(name)
        self.modules = self.framework.modules
        self.gradients = self.framework.gradients
        self.optimizers = self.framework.optimizers
        self.distributed = self.framework.distributed
        self.collecting = self.framework.collecting
        self.text, self.array = self.framework.tensors.text, self.framework.tensors.array
        self.on_device = self._is_on_device(())
        self.settle = _nothing if self.on_device else self.framework.tensors.settle
        """Wait for the tensors that are read next, outside of code that catches errors."""

    def check(self, model: AnyModel, optimizer: AnyOptimizer) -> None:
        """Raise UsageError for a training that cannot be monitored."""
        self.modules.check(model)
        self.optimizers.check(optimizer)
        self.on_device = self._is_on_device(self.optimizers.parameters(optimizer))

    @property
    def statistics(self) -> Statistics:
        return self.framework.statistics

    def _is_on_device(self, parameters: Iterable[AnyParameter]) -> bool:
        """Return whether statistics are computed on a device; otherwise elements are read, also those on a device."""
        return self.framework.offers("statistics") and self.statistics.is_on_device(parameters)


def backend_of(model: AnyModel) -> Backend:
    """Return the backend of a model, or of the first of a list. UsageError for other objects."""
    models = models_of(model)
    if not models:
        raise UsageError("set_monitor(): the model is an empty list; pass the network")
    name = name_of_model(models[0])
    if name is None:
        raise UsageError(
            f"set_monitor(): the model is a {type(models[0]).__name__}; pass a mindspore.nn.Cell or a torch.nn.Module, "
            "or a list of them"
        )
    return Backend(name)


def models_of(model: AnyModel) -> list[Any]:
    """Return the chunks of a virtual pipeline, or the one model."""
    return list(model) if isinstance(model, (list, tuple)) else [model]


def _nothing() -> None:
    """Do nothing: on a device, errors are raised when results are fetched."""
