"""PyTorch for the monitor."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from msprobe.base.framework import array_of, check_model
from msprobe.base.framework import rank as known_rank
from msprobe.cell_dump.backends.pytorch.framework import FRAMEWORK, apart
from msprobe.cell_dump.framework import Framework
from msprobe.monitor.backend import OF_NOTHING, Handle, Numbers, Update, hook_module

from .torch_api import check_optimizer, hook_update, updated, wrap_update


class PyTorch:
    """Trainings of modules."""

    framework: Framework = FRAMEWORK
    on_device = False

    def check(self, model: Any, optimizer: Any) -> None:
        check_model(model, torch.nn.Module, self.framework.kind)
        check_optimizer(optimizer)
        first = next((p for group in optimizer.param_groups for p in group["params"]), None)
        self.on_device = first is not None and first.device.type != "cpu"

    def rank(self) -> int:
        return known_rank("pytorch") or 0

    def group_rank(self, group: Any) -> int:
        is_ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        return max(torch.distributed.get_rank(group), 0) if is_ready else 0

    def parameters(self, model: Any) -> Iterable[tuple[str, Any]]:
        return [(name, each) for name, each in model.named_parameters() if each.requires_grad]

    def modules(self, model: Any) -> Iterator[tuple[str, Any]]:
        return ((name, module) for name, module in model.named_modules() if name)

    def is_training(self, module: Any) -> bool:
        return bool(module.training)

    def gradient_hooks(
        self, parameter: Any, computed: Callable[[Any], None], accumulated: Callable[[], None]
    ) -> Sequence[Handle]:
        def after(_: Any) -> None:
            accumulated()

        return [parameter.register_hook(computed), parameter.register_post_accumulate_grad_hook(after)]

    def is_accumulating(self, parameter: Any) -> bool:
        return parameter.grad is not None and bool(apart(_is_nonzero, parameter.grad.detach()))

    def accumulated(self, parameter: Any, main_grad: bool, is_moved: bool) -> tuple[Any, bool]:
        main = getattr(parameter, "main_grad", None) if main_grad else None
        gradient = parameter.grad
        # Megatron's fused kernels add to main_grad themselves; what is in .grad is then a placeholder.
        if gradient is None or (main is not None and getattr(parameter, "grad_added_to_main_grad", False)):
            return main, True
        if not is_moved:
            return gradient, True
        return (gradient, False) if main is None else (apart(_total, main.detach(), gradient.detach()), True)

    def module_hook(
        self, module: Any, before: Callable[[Any, Any], None], after: Callable[[Any, Any, Any], None]
    ) -> Sequence[Handle]:
        return hook_module(module, before, after)

    def update_hook(self, optimizer: Any, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
        has_hooks = all(hasattr(optimizer, f"register_step_{when}_hook") for when in ("pre", "post"))
        return (hook_update if has_hooks else wrap_update)(optimizer, before, after)

    def update_of(self, optimizer: Any, gradients: Any, main_grad: bool, monitored: Sequence[Any]) -> Update:
        return updated(optimizer, main_grad, monitored)

    def settle(self) -> None:
        """Everything on a processor is computed when a call returns."""

    def array(self, tensor: Any) -> Numbers:
        return apart(_array, tensor)  # type: ignore[no-any-return]  # an array

    def statistics(self, tensor: Any, eps: float) -> Any:
        return apart(_statistics, tensor.detach(), eps)

    def copied(self, tensor: Any) -> Any:
        return apart(torch.clone, tensor.detach())

    def total(self, copy: Any, tensor: Any) -> Any:
        return apart(_total, copy, tensor.detach())

    def difference(self, tensor: Any, copy: Any) -> Any:
        return apart(_difference, tensor.detach(), copy)

    def same_sign(self, a: Any, b: Any) -> Any:
        return apart(_same_sign, a.detach(), b.detach())

    def fetch(self, pending: list[Any]) -> Numbers:
        return np.asarray(apart(torch.stack, pending).cpu().numpy(), np.float64)

    def text(self, tensor: Any) -> tuple[str, str]:
        return str(list(tensor.shape)), str(tensor.dtype)  # as msprobe writes them of each framework

    def debugger(self) -> Callable[..., Any]:
        from msprobe.pytorch_debugger import PrecisionDebugger  # here: only an alert needs it

        return PrecisionDebugger


def _array(tensor: Any) -> Numbers:
    return array_of(tensor if tensor.layout is torch.strided else tensor.detach().to_dense())


def _is_nonzero(tensor: torch.Tensor) -> bool:
    with torch.no_grad():
        return bool(tensor.count_nonzero()) if tensor.layout is torch.strided else tensor._nnz() > 0


def _total(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum in the wider of both dtypes."""
    with torch.no_grad():
        return a + b


def _difference(tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return tensor.float() - copy.float()


def _same_sign(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return (a.float().sign() == b.float().sign()).float()


def _statistics(tensor: torch.Tensor, eps: float) -> torch.Tensor:
    """The six statistics in float32, where the tensor is; the norm and the sum of many elements in float32 as well."""
    if not tensor.numel():
        return torch.tensor(OF_NOTHING, device=tensor.device)
    with torch.no_grad():
        wide = tensor.float()
        numbers = (
            wide.norm(),
            wide.min(),
            wide.max(),
            (wide.abs() < eps).float().mean(),
            wide.isnan().sum().float(),
            wide.mean(),
        )
        return torch.stack(numbers)


BACKEND = PyTorch
