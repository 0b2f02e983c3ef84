"""How a tensor of PyTorch becomes a record."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.parameter import UninitializedTensorMixin

from msprobe.base.framework import array_of
from msprobe.base.statistic import kernel
from msprobe.cell_dump import describer
from msprobe.store.describe import beginning
from msprobe.store.writer import Writer

_LETTERS: dict[torch.dtype, str] = {
    **{torch.float32: "f", torch.float16: "e", torch.bfloat16: "E", torch.float64: "d", torch.bool: "?"},
    **{torch.int8: "b", torch.uint8: "B", torch.int16: "h", torch.int32: "i", torch.int64: "q"},
}
"""The dtypes whose elements the kernel reads where they lie."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensors that have their elements themselves; other subclasses may be made of further tensors."""


class _Head(NamedTuple):
    """What all tensors of one dtype and shape have in common: the record's beginning, and how to read them."""

    text: str
    size: int
    letter: str


class Describer(describer.Describer):
    """Makes records of any value; tensors are PyTorch's."""

    kind = "torch.Tensor"
    dtypes = (
        *((torch.dtype, "torch.dtype"), (torch.device, "torch.device"), (torch.memory_format, "torch.memory_format")),
        (torch.layout, "torch.layout"),
    )

    def __init__(self, writer: Writer, *, saves: bool = False, digests: bool = False) -> None:
        super().__init__(writer, saves=saves, digests=digests)
        self._heads: dict[tuple[torch.dtype, tuple[int, ...]], _Head] = {}

    def read(self, tensor: torch.Tensor, call: str, part: str) -> str:
        """The record of a tensor, which is read now; raises whatever the framework does."""
        dtype, shape = tensor.dtype, tensor.shape
        head = self._heads.get((dtype, shape)) or self._head(dtype, shape)
        text = None
        if kernel is not None and head.letter and _lies_here(tensor):
            text = kernel.text(head.text, tensor.data_ptr(), head.size, head.letter)
            if text is not None and not self.saves and not self.digests:
                return f"{text}}}"
        if text is None and head.size and _is_free(tensor):
            self.lost(call, part, "the tensor has no data now: its storage was set free")
            return "null"
        return self._finished(text or head.text, array_of(tensor), call, part, described=text is not None)

    def dtype(self, tensor: torch.Tensor) -> str:
        """The dtype's name as the dump spells it: `torch.float32`."""
        return str(tensor.dtype)

    def elements(self, tensor: torch.Tensor) -> np.ndarray[Any, Any]:
        """The elements, in memory that may be the tensor's own; bfloat16 as float32."""
        return array_of(tensor)

    def parameters_of(self, module: Any) -> list[tuple[str, Any]] | None:
        """A module's own parameters; those of a lazy module have no elements before its first call."""
        return own_parameters(module) if module._parameters else None

    def _head(self, dtype: torch.dtype, shape: torch.Size) -> _Head:
        text = beginning("torch.Tensor", str(dtype), tuple(shape))
        head = self._heads[dtype, shape] = _Head(text, shape.numel(), _LETTERS.get(dtype, ""))
        return head


def _lies_here(tensor: torch.Tensor) -> bool:
    """Whether the elements stand in this process's memory, one after the other, at `data_ptr`.

    A storage that was set free (sharded training does that) has an address of 0, to which a view adds its offset.
    """
    return (
        tensor.is_cpu
        and type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and tensor.data_ptr() != 0
        and (tensor.storage_offset() == 0 or tensor.untyped_storage().data_ptr() != 0)
    )


def _is_free(tensor: torch.Tensor) -> bool:
    """Whether there is nothing behind the address, which numpy would read all the same."""
    return type(tensor) in _PLAIN and tensor.layout is torch.strided and tensor.untyped_storage().nbytes() == 0


def own_parameters(module: Any) -> list[tuple[str, Any]]:
    """A module's own parameters, not those of the modules inside, with their names in the module."""
    return [
        (key, parameter)
        for key, parameter in module._parameters.items()
        if parameter is not None and not isinstance(parameter, UninitializedTensorMixin)
    ]
