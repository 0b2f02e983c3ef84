"""Statistics on a device: computed there, one small tensor for each record, and fetched together.

On a device a look at a tensor waits for everything before it. So the numbers stay there, and the lines that need them
are held back, until 256 calls wait, or until `stop` or `step`; then all numbers come over in one piece, with one wait.
The order on the device keeps what was read before a later change in place apart from it, so nothing is copied. Tensors
that are saved or digested are fetched one by one, as they are needed whole.
"""

import re
from math import isfinite
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from msprobe.executors import api
from msprobe.store.describe import beginning, number
from msprobe.store.write import Writer

from .tensor import Describer

MOST_HELD = 256
"""Calls that are held back at most; their statistics are lost when the process is killed."""

DEVICES = ("Ascend", "GPU")
"""Where looking at a tensor waits for the device; chosen at `start`."""

_HOLE = re.compile("\x00([0-9]+)\x00")


class DeviceStatistics:
    """Statistics that are still on the device."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []
        self._kinds: list[str] = []

    def add(self, tensor: Tensor) -> str:
        """Have the statistics of a tensor computed where it is, in float32; gives the hole that `texts` will fill."""
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
        said = [_members(kind, row) for kind, row in zip(self._kinds, rows.astype(np.float64), strict=True)]
        self._rows.clear()
        self._kinds.clear()
        return said


def _members(kind: str, row: Any) -> str:
    top, bottom, mean, norm = (float(each) for each in row)
    if kind == "bool":
        return f'"Max":{"true" if top else "false"},"Min":{"true" if bottom else "false"},"Mean":null,"Norm":null'
    if kind == "whole" and isfinite(top) and isfinite(bottom):
        return f'"Max":{int(top)},"Min":{int(bottom)},"Mean":{number(mean)},"Norm":{number(norm)}'
    return f'"Max":{number(top)},"Min":{number(bottom)},"Mean":{number(mean)},"Norm":{number(norm)}'


class DeviceDescriber(Describer):
    """Makes records with a hole in the place of statistics that are still on the device."""

    def __init__(self, writer: "HeldWriter", *, saves: bool = False, digests: bool = False) -> None:
        super().__init__(writer, saves=saves, digests=digests)  # type: ignore[arg-type]  # it does what a writer does
        self._pending = writer.pending

    def read(self, tensor: Tensor, call: str, part: str) -> str:
        """As the base, but nothing is fetched where numbers are enough."""
        if self.saves or self.digests or tensor.numel() == 0:
            return super().read(tensor, call, part)
        head = beginning("mindspore.Tensor", str(tensor.dtype), tensor.shape)
        return f"{head}{self._pending.add(tensor)}}}"


class HeldWriter:
    """A writer that holds calls back while their statistics are on the device; the order of calls stays."""

    def __init__(self, writer: Writer) -> None:
        self.pending = DeviceStatistics()
        self._writer = writer
        self._held: list[tuple[str, str | None, int | None, str | None]] = []
        self.stack, self.missing, self.tensor = writer.stack, writer.missing, writer.tensor

    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        """As `Writer.call`, sooner or later."""
        if not self._held and (entry is None or "\x00" not in entry):
            self._writer.call(name, parent, stack, entry)
            return
        self._held.append((name, parent, stack, entry))
        if len(self._held) >= MOST_HELD:
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
