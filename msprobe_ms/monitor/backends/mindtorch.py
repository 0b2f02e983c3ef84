"""PyTorch's API on MindSpore (MSAdapter) for the monitor: modules and optimizers as PyTorch's, tensors as MindSpore's.

To be imported where `torch_on_mindspore()` holds, for it imports `torch`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import mindspore
import torch

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, AnyModule, AnyOptimizer, AnyParameter, check_model
from msprobe.base.patches import Handle
from msprobe.cell_dump.backends.mindtorch.framework import FRAMEWORK
from msprobe.monitor.backend import Update, hook_module

from .mindspore import MindSpore
from .torch_api import check_optimizer, updated, wrap_update


class MindTorch(MindSpore):
    """Trainings of modules on MindSpore."""

    framework = FRAMEWORK
    module = torch.nn.Module

    def check(self, model: AnyModel, optimizer: AnyOptimizer) -> None:
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise UsageError("set_monitor(): the mode is GRAPH_MODE; set PYNATIVE_MODE")
        check_model(model, torch.nn.Module, self.framework.kind)
        check_optimizer(optimizer)

    def group_rank(self, group: Any) -> int:
        return max(int(torch.distributed.get_rank(group)), 0) if torch.distributed.is_initialized() else 0

    def parameters(self, model: AnyModel) -> Iterable[tuple[str, AnyParameter]]:
        return [(name, each) for name, each in model.named_parameters() if each.requires_grad]

    def modules(self, model: AnyModel) -> Iterator[tuple[str, AnyModule]]:
        return ((name, module) for name, module in model.named_modules() if name)

    def is_training(self, module: AnyModule) -> bool:
        return bool(module.training)

    def module_hook(
        self, module: AnyModule, before: Callable[[Any, Any], None], after: Callable[[Any, Any, Any], None]
    ) -> Sequence[Handle]:
        return hook_module(module, before, after)

    def update_hook(
        self, optimizer: AnyOptimizer, before: Callable[[Any], None], after: Callable[[], None]
    ) -> Sequence[Handle]:
        return wrap_update(optimizer, before, after)  # MSAdapter accepts hooks and calls none

    def update_of(
        self, optimizer: AnyOptimizer, gradients: Any, main_grad: bool, monitored: Sequence[AnyParameter]
    ) -> Update:
        return updated(optimizer, main_grad, monitored)


BACKEND = MindTorch
