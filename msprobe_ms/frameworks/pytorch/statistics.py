"""Statistics of PyTorch's tensors, computed on their device."""

from collections.abc import Iterable

import numpy as np
import torch

from msprobe.base.statistic import Array
from msprobe.frameworks.interface import OF_NOTHING

from .modes import without_modes


class Statistics:
    """Statistics of PyTorch's tensors."""

    def is_on_device(self, parameters: Iterable[torch.Tensor]) -> bool:
        first = next(iter(parameters), None)
        return first is not None and first.device.type != "cpu"

    def of(self, tensor: torch.Tensor, eps: float) -> torch.Tensor:
        return without_modes(_statistics, tensor.detach(), eps)

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        return without_modes(torch.clone, tensor.detach())

    def total(self, copy: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        return without_modes(total, copy, tensor.detach())

    def difference(self, tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
        return without_modes(_difference, tensor.detach(), copy)

    def same_sign(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return without_modes(_same_sign, a.detach(), b.detach())

    def fetch(self, pending: list[torch.Tensor]) -> Array:
        return np.asarray(without_modes(torch.stack, pending).cpu().numpy(), np.float64)


def total(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the sum in the wider of both dtypes."""
    with torch.no_grad():
        return a + b


def _difference(tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return tensor.float() - copy.float()


def _same_sign(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return (a.float().sign() == b.float().sign()).float()


def _statistics(tensor: torch.Tensor, eps: float) -> torch.Tensor:
    """Return the six statistics in float32, on the device of the tensor; norm and mean also accumulate in float32."""
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


CAPABILITY = Statistics()
