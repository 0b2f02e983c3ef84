"""Records of tensors of PyTorch."""

import json
from typing import Any

import torch
from torch import distributed
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch's stub leaves it out

from msprobe.base.errors import reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.statistic import Array
from msprobe.cell_dump import describer
from msprobe.cell_dump.collective import group_id
from msprobe.store.record import REDUCTION
from msprobe.store.writer import StepWriter

from .reading import PLAIN, array_of, is_distributed, local_part
from .shards import Shards, own_part

_LETTERS: dict[torch.dtype, str] = {
    **{torch.float32: "f", torch.float16: "e", torch.bfloat16: "E", torch.float64: "d", torch.bool: "?"},
    **{torch.int8: "b", torch.uint8: "B", torch.int16: "h", torch.int32: "i", torch.int64: "q"},
}
"""The dtypes whose elements the kernel reads in place."""


def _reads_in_place(tensor: torch.Tensor) -> bool:
    """Return whether the elements are contiguous in the memory of this process, at `data_ptr`.

    A storage that was set free (sharded training does that) has an address of 0, to which a view adds its offset.
    """
    return (
        tensor.is_cpu
        and type(tensor) in PLAIN
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and tensor.data_ptr() != 0
        and (tensor.storage_offset() == 0 or tensor.untyped_storage().data_ptr() != 0)
    )


_GROUPS: tuple[type, ...] = (distributed.ProcessGroup,) if distributed.is_available() else ()
_REDUCTIONS: tuple[type, ...] = (distributed.ReduceOp, distributed.ReduceOp.RedOpType) if _GROUPS else ()


def own_parameters(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Return a module's own parameters, not those of the modules inside, with their names in the module.

    Of a parameter that FSDP2 has gathered, the sharded one.
    """
    return [
        (key, own_part(parameter))
        for key, parameter in module._parameters.items()
        if parameter is not None and not isinstance(parameter, UninitializedTensorMixin)
    ]


class Describer(describer.Describer):
    """Makes records of any value; tensors are PyTorch's."""

    kind = "torch.Tensor"
    dtypes = (
        *((torch.dtype, "torch.dtype"), (torch.device, "torch.device"), (torch.memory_format, "torch.memory_format")),
        (torch.layout, "torch.layout"),
    )
    letters = _LETTERS
    tensors = torch.Tensor
    reads_in_place = staticmethod(_reads_in_place)

    def __init__(self, writer: StepWriter, **options: Any) -> None:
        super().__init__(writer, **options)
        self._shards = Shards()

    def tensor(self, tensor: torch.Tensor, call: str, part: str) -> str:
        """As the base; of a distributed tensor the record of this rank's shard, with its place in the whole."""
        if type(tensor) in PLAIN:
            return super().tensor(tensor, call, part)
        try:
            local = local_part(tensor)
            shard = f',"shard":{self._shards.text(tensor)}' if is_distributed(tensor) else ""
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.lost(call, part, reason(cause))
            return "null"
        record = super().tensor(local, call, part)
        return record if record == "null" else f"{record[:-1]}{shard}}}"

    def _rare(self, value: Any, kind: type, call: str, part: str) -> str:
        if issubclass(kind, _GROUPS):
            ranks = distributed.get_process_group_ranks(value)
            return json.dumps({"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group_id(ranks)})
        if issubclass(kind, _REDUCTIONS):  # `ReduceOp.SUM` is a constant, `ReduceOp(...)` contains one
            name = getattr(value, "op", value).name
            return json.dumps({"type": REDUCTION, "value": "prod" if name == "PRODUCT" else name.lower()})
        return super()._rare(value, kind, call, part)

    def without_data(self, tensor: torch.Tensor) -> str:
        """NumPy would read an invalid address."""
        is_plain = type(tensor) in PLAIN and tensor.layout is torch.strided and tensor.numel()
        is_free = is_plain and tensor.untyped_storage().nbytes() == 0
        return "the tensor has no data: its storage was released" if is_free else ""

    def is_finite(self, tensor: torch.Tensor) -> bool:
        """As the base; on a device by an operation there, of which one element is fetched."""
        if type(tensor) in PLAIN and not tensor.is_cpu and tensor.is_floating_point() and tensor.numel():
            return bool(tensor.detach().isfinite().all())
        return super().is_finite(tensor)

    def elements(self, tensor: torch.Tensor) -> Array:
        """Return the elements, in memory that may be the tensor's own; bfloat16 as float32."""
        return array_of(tensor)

    def parameters_of(self, module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]] | None:
        """Return a module's own parameters; those of a lazy module have no elements before its first call."""
        return own_parameters(module) if module._parameters else None
