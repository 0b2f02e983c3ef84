"""Tensors of MindSpore: read without copying where possible, and recorded; on a device, statistics are computed there.

On a device, reading a tensor waits for all earlier operations. Therefore statistics remain there, one small tensor for
each record, and the lines that need them are held back until 256 calls wait, or until `stop` or `step`; then all
numbers are fetched in one transfer. Operations on the device are ordered, so a later change in place does not affect
statistics that were computed before, and nothing is copied. Tensors that are saved or digested are fetched
individually.
"""

import re
from math import isfinite
from operator import attrgetter, methodcaller
from typing import Any, ClassVar

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.dtype import Type

from msprobe.base.framework import own_parameters
from msprobe.base.schema import members
from msprobe.base.statistic import Array
from msprobe.cell_dump import describer
from msprobe.store.describe import beginning, number
from msprobe.store.writer import StepWriter

from .executors import api, device_target
from .reading import DEVICES, HAS_ADDRESSES, TensorBase, address_of, array_of

_LETTERS = {
    **{ms.float32: "f", ms.float16: "e", ms.bfloat16: "E", ms.float64: "d", ms.bool_: "?"},
    **{ms.int8: "b", ms.uint8: "B", ms.int16: "h", ms.uint16: "H", ms.int32: "i", ms.uint32: "I", ms.int64: "q"},
}


class Describer(describer.Describer):
    """Creates records of any value, with tensors of MindSpore."""

    kind = "mindspore.Tensor"
    dtypes: ClassVar[describer.Dtypes] = ((Type, "mindspore.dtype"),)

    letters = _LETTERS
    tensors = Tensor
    dtype_of = attrgetter("_dtype" if hasattr(TensorBase, "_dtype") else "dtype")
    shape_of = attrgetter("_shape" if hasattr(TensorBase, "_shape") else "shape")
    address_of = staticmethod(address_of)
    reads_in_place = staticmethod(getattr(TensorBase, "is_contiguous", methodcaller("is_contiguous")))

    def __init__(self, writer: StepWriter, **options: Any) -> None:
        target = device_target()
        self._on_device = target in DEVICES
        self.has_addresses = HAS_ADDRESSES and target == "CPU"
        super().__init__(writer, **options)

    def without_data(self, tensor: Tensor) -> str:
        """`asnumpy` would draw the numbers of an initializer, perhaps before the training does."""
        return "the tensor has no data yet, only an initializer" if tensor.has_init else ""

    def elements(self, tensor: Tensor) -> Array:
        """Return the elements, in memory that may be the tensor's own."""
        return array_of(tensor)

    def is_finite(self, tensor: Tensor) -> bool:
        """As the base; on a device by an operation there, of which one element is fetched."""
        if self._on_device and tensor.is_floating_point() and not self.without_data(tensor):
            with api._no_grad():
                return bool(ops.isfinite(tensor).all())
        return super().is_finite(tensor)

    def parameters_of(self, module: nn.Cell) -> list[tuple[str, Parameter]] | None:
        """Return a cell's own parameters; they may be initialised at the first call, as the framework does next."""
        if not module._params:
            return None
        if not module._init_flag:
            module._init_check()
        return own_parameters(module)


MAX_HELD = 256
"""Maximum number of calls that are held back; their statistics are lost when the process is killed."""

_HOLE = re.compile("\x00([0-9]+)\x00")


class DeviceStatistics:
    """Statistics that are still on the device."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []
        self._kinds: list[str] = []

    def add(self, tensor: Tensor) -> str:
        """Compute the statistics of a tensor where it is, in float32; returns the hole that `texts` will fill."""
        kind = "bool" if tensor.dtype == ms.bool_ else "float" if tensor.is_floating_point() else "whole"
        if tensor.is_complex():
            tensor, kind = ops.abs(tensor), "float"
        with api._no_grad():
            wide = tensor.astype(ms.float32).reshape(-1)
            numbers = (ops.max(wide)[0], ops.min(wide)[0], ops.mean(wide), ops.sqrt(ops.sum(ops.square(wide))))
            self._rows.append(ops.stack([n.reshape(()) for n in numbers]))
        self._kinds.append(kind)
        return f"\x00{len(self._rows) - 1}\x00"

    def texts(self) -> list[str]:
        """Fetch everything in one piece: the members of the records in the order of `add`."""
        if not self._rows:
            return []
        with api._no_grad():
            rows = ops.stack(self._rows).asnumpy()
        texts = [_members(kind, row) for kind, row in zip(self._kinds, rows.astype(np.float64), strict=True)]
        self._rows.clear()
        self._kinds.clear()
        return texts


def _members(kind: str, row: Array) -> str:
    top, bottom, mean, norm = (float(each) for each in row)
    if kind == "bool":
        return members(tuple(map(number, (top != 0, bottom != 0, None, None))))
    if kind == "whole" and isfinite(top) and isfinite(bottom):
        return members(tuple(map(number, (int(top), int(bottom), mean, norm))))
    return members(tuple(map(number, (top, bottom, mean, norm))))


class DeviceDescriber(Describer):
    """Makes records with a hole in the place of statistics that are still on the device."""

    def __init__(self, writer: "HeldWriter", **options: Any) -> None:
        super().__init__(writer, **options)
        self._pending = writer.pending

    def read(self, tensor: Tensor, call: str, part: str) -> str:
        """As the base, but nothing is fetched where numbers are enough."""
        if self.saves or self.digests or self.extra or self._with_layout or tensor.numel() == 0:
            return super().read(tensor, call, part)
        head = beginning("mindspore.Tensor", str(tensor.dtype), tensor.shape)
        return f"{head}{self._pending.add(tensor)}}}"


class HeldWriter:
    """A writer that holds calls back while their statistics are on the device; the order of calls stays."""

    def __init__(self, writer: StepWriter) -> None:
        self.pending = DeviceStatistics()
        self._writer = writer
        self._held: list[tuple[str, str | None, int | None, str | None]] = []
        self.stack, self.missing, self.tensor = writer.stack, writer.missing, writer.tensor
        self.abandon, self.raised, self.order = writer.abandon, writer.raised, writer.order
        self.holder, self.suffix = None, writer.suffix

    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        """As `Writer.call`, sooner or later."""
        if not self._held and (entry is None or "\x00" not in entry):
            self._writer.call(name, parent, stack, entry)
            return
        self._held.append((name, parent, stack, entry))
        if len(self._held) >= MAX_HELD:
            self.flush()

    def flush(self) -> None:
        """Fetch what is on the device and write what was held back."""
        if not self._held:
            return
        held, self._held = self._held, []
        texts = self.pending.texts()
        for name, parent, stack, entry in held:
            filled = entry and _HOLE.sub(lambda hole: texts[int(hole[1])], entry)
            self._writer.call(name, parent, stack, filled)

    def assemble(self) -> None:
        """As `Writer.assemble`, of everything."""
        self.flush()
        self._writer.assemble()

    def close(self) -> None:
        """As `Writer.close`, of everything."""
        self.flush()
        self._writer.close()
