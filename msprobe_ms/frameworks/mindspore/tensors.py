"""Tensors of MindSpore: reading, creating and copying them."""

import ctypes
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor

from msprobe.base.statistic import Array, widen
from msprobe.frameworks.interface import Refusal, Refused

from .executors import api
from .reading import DRAINS, HAS_ADDRESSES, array_of, array_to_save, drain, settle


class Tensors:
    """Tensors of MindSpore."""

    type_name = "mindspore.Tensor"

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, Tensor)

    def settle(self, tensors: Sequence[Tensor] = ()) -> None:
        if DRAINS:
            drain()
        else:
            settle([("", tensor) for tensor in tensors])

    def array(self, tensor: Tensor) -> Array:
        if not DRAINS:
            settle([("", tensor)])
        return array_of(tensor)

    def array_to_save(self, tensor: Tensor) -> Array:
        return array_to_save(tensor)

    def text(self, tensor: Tensor) -> tuple[str, str]:
        return str(tuple(tensor.shape)), str(tensor.dtype)

    def dtype(self, tensor: Tensor) -> str:
        return str(tensor.dtype).lower().rstrip("_")

    def dtype_of_name(self, name: str) -> Any:
        last = name.rpartition(".")[2].lower()
        return getattr(ms, "bool_" if last == "bool" else last, None)

    def create(self, array: Array, dtype: str, place: Any = None) -> Tensor:
        return Tensor(np.array(array, order="C"), getattr(ms, "bool_" if dtype == "bool" else dtype))

    def refuse(self, tensors: Sequence[object]) -> None:
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise Refused(Refusal.FOREIGN)
            if tensor.has_init:
                raise Refused(Refusal.NO_DATA)

    def float_dtype(self, tensor: Tensor) -> Any:
        return tensor.dtype

    def copy(self, tensor: Tensor) -> Tensor:
        if ms.get_context("device_target") != "CPU":
            return _parameter_like(tensor.copy(), tensor)
        return _parameter_like(Tensor(tensor.asnumpy()), tensor)

    def recorded_copy(self, tensor: Tensor) -> Tensor:
        return tensor.copy()

    def with_values(self, values: Array, like: Tensor) -> Tensor:
        return _parameter_like(Tensor(np.ascontiguousarray(values).reshape(like.shape), like.dtype), like)

    def resized(self, values: Array, like: Tensor) -> Tensor:
        return Tensor(np.array(values, order="C"), like.dtype)

    def raised(self, tensor: Tensor, *, recorded: bool = False) -> Tensor:
        if recorded:
            return tensor.astype(ms.float32)
        return _parameter_like(Tensor(widen(tensor.asnumpy()).astype(np.float32)), tensor)

    def on_cpu(self, tensor: Tensor, *, recorded: bool = False) -> Tensor:
        raise NotImplementedError  # `Execution.has_places` is False

    def is_on_cpu(self, tensor: Tensor) -> bool:
        raise NotImplementedError  # as above

    def cast(self, tensor: Tensor, like: Tensor) -> Tensor:
        return tensor if tensor.dtype == like.dtype else tensor.astype(like.dtype)

    def memory(self, tensor: Tensor) -> tuple[int, int]:
        if tensor.size == 0:
            return 0, 0
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        start = int(tensor.data_ptr())
        return start, start + (last + 1) * int(tensor.itemsize)

    def version(self, tensor: Tensor) -> int | None:
        return getattr(tensor, "_version", None)  # older versions do not count

    def write(self, tensor: Tensor, values: Tensor) -> None:
        self.settle([tensor, values])
        if HAS_ADDRESSES and ms.get_context("device_target") == "CPU":
            _write_to_memory(tensor, values)
            return
        preserve = getattr(api, "_unsafe_preserve_version_counter", nullcontext)  # older versions do not count
        with api._no_grad(), preserve(tensor):
            tensor.copy_(values)


def _write_to_memory(tensor: Tensor, values: Tensor) -> None:
    """Write elements where those of a tensor are; `copy_` of the framework does not write to every view."""
    first, end = CAPABILITY.memory(tensor)
    if first == end:
        return
    width = int(tensor.itemsize)
    raw, element = memoryview((ctypes.c_char * (end - first)).from_address(first)), np.dtype(f"V{width}")
    present: Array = np.ndarray(tuple(tensor.shape), element, raw, strides=[width * step for step in tensor.stride()])
    present[...] = np.ascontiguousarray(values.asnumpy()).view(element).reshape(present.shape)


def _parameter_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a parameter if `like` is one: functions that update a parameter accept nothing else."""
    if not isinstance(like, Parameter):
        return tensor
    return Parameter(tensor, name=like.name, requires_grad=False)


CAPABILITY = Tensors()
