"""How values of the layer become records: tensors are MindSpore's, modules keep their parameters as PyTorch's do."""

import json
from typing import Any

import torch

from msprobe.cell_dump import describer
from msprobe.cell_dump.mindspore_side import device, tensor

from . import collective

_DEVICE = getattr(torch, "device", None)


class Values(describer.Describer):
    """What differs from MindSpore, whoever reads the tensors."""

    dtypes = (*tensor.Describer.dtypes, *(((_DEVICE, "torch.device"),) if isinstance(_DEVICE, type) else ()))

    def parameters_of(self, module: Any) -> list[tuple[str, Any]] | None:
        """A module's own parameters as they are when its call begins."""
        return own_parameters(module) if module._parameters else None

    def _rare(self, value: Any, kind: type, call: str, part: str) -> str:
        if issubclass(kind, collective.GROUPS):
            return json.dumps(collective.group_record(value))
        return super()._rare(value, kind, call, part)


class Describer(Values, tensor.Describer):
    """Makes records of any value."""


class DeviceDescriber(Values, device.DeviceDescriber):
    """As `Describer`, where a look at a tensor waits for a device."""


def own_parameters(module: Any) -> list[tuple[str, Any]]:
    """A module's own parameters, not those of the modules inside, with their names in the module."""
    return [(key, parameter) for key, parameter in module._parameters.items() if parameter is not None]
