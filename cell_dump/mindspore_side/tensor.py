"""How a tensor of MindSpore becomes a record."""

from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.common.dtype import Type

from msprobe.base.model import own_parameters
from msprobe.base.statistic import kernel
from msprobe.cell_dump import describer
from msprobe.store.describe import beginning
from msprobe.store.write import Writer

from .host import HAS_ADDRESSES, array_of

_LETTERS: dict[Any, str] = {
    **{ms.float32: "f", ms.float16: "e", ms.bfloat16: "E", ms.float64: "d", ms.bool_: "?"},
    **{ms.int8: "b", ms.uint8: "B", ms.int16: "h", ms.uint16: "H", ms.int32: "i", ms.uint32: "I", ms.int64: "q"},
}
"""The dtypes whose elements the kernel reads where they lie."""


class _Head(NamedTuple):
    """What all tensors of one dtype and shape have in common: the record's beginning, and how to read them."""

    text: str
    size: int
    letter: str
    dtype: Any


class Describer(describer.Describer):
    """Makes records of any value; tensors are MindSpore's."""

    kind = "mindspore.Tensor"
    dtypes = ((Type, "mindspore.dtype"),)

    def __init__(self, writer: Writer, *, saves: bool = False, digests: bool = False) -> None:
        super().__init__(writer, saves=saves, digests=digests)
        self._direct = kernel is not None and HAS_ADDRESSES and ms.get_context("device_target") == "CPU"
        # By the dtype's id, since hashing a dtype costs more than reading a small tensor; the head keeps it alive.
        self._heads: dict[tuple[int, tuple[int, ...]], _Head] = {}

    def read(self, tensor: Tensor, call: str, part: str) -> str:
        """The record of a tensor, which is read now; raises whatever the framework does."""
        dtype, shape = tensor.dtype, tensor.shape
        head = self._heads.get((id(dtype), shape)) or self._head(dtype, shape)
        text = None
        if self._direct and head.letter and tensor.is_contiguous():
            text = kernel.text(head.text, tensor.data_ptr(), head.size, head.letter)
            if text is not None and not self.saves and not self.digests:
                return f"{text}}}"
        if text is None and tensor.has_init:  # `asnumpy` would draw its numbers, perhaps before the training does
            self.lost(call, part, "the tensor has no data yet, only an initializer")
            return "null"
        return self._finished(text or head.text, array_of(tensor), call, part, described=text is not None)

    def dtype(self, tensor: Tensor) -> str:
        """The dtype's name as the dump spells it: `Float32`."""
        return str(tensor.dtype)

    def elements(self, tensor: Tensor) -> np.ndarray[Any, Any]:
        """The elements, in memory that may be the tensor's own."""
        return array_of(tensor)

    def parameters_of(self, module: Any) -> list[tuple[str, Any]] | None:
        """A cell's own parameters; they may be initialised at the first call, as the framework does next."""
        if not module._params:
            return None
        if not module._init_flag:
            module._init_check()
        return own_parameters(module)

    def _head(self, dtype: Any, shape: tuple[int, ...]) -> _Head:
        text = beginning("mindspore.Tensor", str(dtype), shape)
        head = _Head(text, int(np.prod(shape, dtype=np.int64)), _LETTERS.get(dtype, ""), dtype)
        self._heads[id(dtype), shape] = head
        return head
