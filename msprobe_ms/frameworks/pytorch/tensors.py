"""Tensors of PyTorch: reading, creating and copying them.

Copies have the strides of the original, and an address of the same alignment: the order in which kernels for matrices
sum depends on both, and a second run without a change must have the same bits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch's stub leaves it out

from msprobe.base.statistic import Array
from msprobe.frameworks.interface import Refusal, Refused

from .modes import without_modes
from .reading import array_of

_PLAIN = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))
_ALIGNMENT = 64
_WIDEST = 8
"""A view that spans more than this multiple of its elements is copied without the gaps."""

_is_transformed: Callable[[Any], bool] = getattr(
    getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda tensor: False
)


class Tensors:
    """Tensors of PyTorch."""

    type_name = "torch.Tensor"

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, torch.Tensor)

    def settle(self, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Do nothing: results on a CPU are computed when a call returns, and devices raise errors at the next call."""

    def array(self, tensor: torch.Tensor) -> Array:
        return without_modes(_array, tensor)

    def array_to_save(self, tensor: torch.Tensor) -> Array:
        return array_of(tensor)

    def text(self, tensor: torch.Tensor) -> tuple[str, str]:
        return str(list(tensor.shape)), str(tensor.dtype)  # as mindstudio-probe writes them for each framework

    def dtype(self, tensor: torch.Tensor) -> str:
        return str(tensor.dtype).rpartition(".")[2]

    def dtype_of_name(self, name: str) -> Any:
        found = getattr(torch, name.rpartition(".")[2].lower(), None)
        return found if isinstance(found, torch.dtype) else None

    def create(self, array: Array, dtype: str, place: Any = None) -> torch.Tensor:
        return torch.from_numpy(np.array(array, order="C")).to(place or "cpu", getattr(torch, dtype))

    def refuse(self, tensors: Sequence[object]) -> None:
        with torch._C.DisableTorchFunction():  # a mode of the user would intercept each attribute that is read
            for tensor in tensors:
                if not isinstance(tensor, torch.Tensor):
                    raise Refused(Refusal.FOREIGN)
                if _is_transformed(tensor) or torch._C._functorch.peek_interpreter_stack() is not None:
                    raise Refused(Refusal.TRANSFORM)
                if isinstance(tensor, UninitializedTensorMixin) or tensor.is_meta or not _has_data(tensor):
                    raise Refused(Refusal.NO_DATA)
                if type(tensor) not in _PLAIN or tensor.is_nested:
                    raise Refused(Refusal.FOREIGN)

    def float_dtype(self, tensor: torch.Tensor) -> Any:
        return tensor.dtype if tensor.layout is torch.strided else None

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
            return tensor.clone()
        span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if span > _WIDEST * tensor.numel():
            return tensor.clone()
        item = tensor.element_size()
        buffer = torch.empty(span + 2 * _ALIGNMENT // item, dtype=tensor.dtype, device=tensor.device)
        start = (tensor.data_ptr() - buffer.data_ptr()) % _ALIGNMENT // item
        buffer[start : start + span].copy_(tensor.as_strided((span,), (1,)))
        return buffer.as_strided(tensor.shape, tensor.stride(), start)

    def recorded_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()

    def with_values(self, values: Array, like: torch.Tensor) -> torch.Tensor:
        made = self.copy(like)
        made.copy_(torch.from_numpy(np.ascontiguousarray(values)).reshape(like.shape))  # the dtype has all values
        return made

    def resized(self, values: Array, like: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.array(values, order="C")).to(like.device, like.dtype)

    def raised(self, tensor: torch.Tensor, *, recorded: bool = False) -> torch.Tensor:
        return (tensor if recorded else tensor.detach()).to(torch.float32)

    def on_cpu(self, tensor: torch.Tensor, *, recorded: bool = False) -> torch.Tensor:
        if recorded:
            return tensor.to("cpu", copy=True)
        return self.copy(tensor) if self.is_on_cpu(tensor) else tensor.detach().to("cpu")

    def is_on_cpu(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.device.type == "cpu")

    def cast(self, tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return tensor.to(device=like.device, dtype=like.dtype)

    def memory(self, tensor: torch.Tensor) -> tuple[int, int]:
        if tensor.layout is not torch.strided:
            return 0, 0
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    def version(self, tensor: torch.Tensor) -> int | None:
        return None if tensor.is_inference() else tensor._version

    def write(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        tensor.data.copy_(values)  # `detach` would share the counter of writes, with which backward checks its tensors


def _array(tensor: torch.Tensor) -> Array:
    return array_of(tensor if tensor.layout is torch.strided else tensor.detach().to_dense())


def _has_data(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has memory; sharded training releases storages."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return True
    return tensor.untyped_storage().nbytes() > 0 and not tensor._is_zerotensor()


CAPABILITY = Tensors()
