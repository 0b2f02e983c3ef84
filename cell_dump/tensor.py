"""A value becomes a record, as JSON text: what `docs/format.md` 2.2 and 2.3 say of it.

The other implementation of this page's interface would read tensors of another framework.
"""

import json
from json.encoder import encode_basestring_ascii as quote
from typing import Any, NamedTuple, TypeAlias

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.common.dtype import Type

from msprobe.base.statistic import kernel
from msprobe.store.describe import ArrayDescriber, beginning, reason
from msprobe.store.write import Writer

from .host import HAS_ADDRESSES, array_of
from .nested import PLAIN, Bare, children, is_listed, is_tensor

Sources: TypeAlias = dict[int, str]
"""Who produced a tensor, by its id, in the words of the format's `from`."""

DEPTH = 50
"""Values nested deeper than this are cut, as in the format."""

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


class Describer(ArrayDescriber):
    """Makes records of any value, and writes the npy files where tensors are saved."""

    def __init__(self, writer: Writer, *, saves: bool = False, digests: bool = False) -> None:
        super().__init__(writer, saves=saves, digests=digests)
        self._direct = kernel is not None and HAS_ADDRESSES and ms.get_context("device_target") == "CPU"
        # By the dtype's id, since hashing a dtype costs more than reading a small tensor; the head keeps it alive.
        self._heads: dict[tuple[int, tuple[int, ...]], _Head] = {}

    def value(self, value: Any, call: str, part: str, depth: int = 0, sources: Sources | None = None) -> str:
        """The record of any value. `part` is its place in the call, `input.1`."""
        if is_tensor(value):
            record = self.tensor(value, call, part)
            if sources and record != "null" and (source := sources.get(id(value))):
                return f'{record[:-1]},"from":{quote(source)}}}'
            return record
        if value is None:
            return "null"
        if isinstance(value, PLAIN):
            return f'{{"type":"{type(value).__name__}","value":{json.dumps(value)}}}'
        inner = children(value)
        if inner is None:
            return self._rare(value, call, part)
        if depth >= DEPTH:
            self.lost(call, part, f"nested deeper than {DEPTH}")
            return "null"
        members = ((k, self.value(v, call, f"{part}.{k}" if part else str(k), depth + 1, sources)) for k, v in inner)
        if is_listed(value):
            return f"[{','.join([v for _, v in members])}]"
        return f"{{{','.join([f'{quote(str(k))}:{v}' for k, v in members])}}}"

    def _rare(self, value: Any, call: str, part: str) -> str:
        if isinstance(value, slice):
            ends = [e if isinstance(e, int) else None for e in (value.start, value.stop, value.step)]
            return json.dumps({"type": "slice", "value": ends})
        if isinstance(value, Bare):
            return json.dumps(value.value)
        if value is Ellipsis:
            return '{"type":"ellipsis","value":"..."}'
        if isinstance(value, Type):
            return json.dumps({"type": "mindspore.dtype", "value": str(value)})
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            return self.array(value, call, part, "numpy.ndarray", str(value.dtype))
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return json.dumps({"type": type(value).__name__, "value": value.item()})
        return "null"

    def tensor(self, tensor: Tensor, call: str, part: str) -> str:
        """The record of a tensor; null, with a line in `missing`, where it could not be read."""
        try:
            return self.read(tensor, call, part)
        except Exception as cause:  # a debugger never stops the training because of itself
            self.lost(call, part, reason(cause))
            return "null"

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

    def _head(self, dtype: Any, shape: tuple[int, ...]) -> _Head:
        text = beginning("mindspore.Tensor", str(dtype), shape)
        head = _Head(text, int(np.prod(shape, dtype=np.int64)), _LETTERS.get(dtype, ""), dtype)
        self._heads[id(dtype), shape] = head
        return head
