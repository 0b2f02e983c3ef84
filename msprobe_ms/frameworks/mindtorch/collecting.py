"""How calls of PyTorch's API on MindSpore are recorded."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from mindspore import Parameter

from msprobe.base.errors import SettingsError
from msprobe.base.framework import MODULES, AnyModel, AnyModule, AnyParameter, AnyTensor
from msprobe.base.patches import Patches, Removable
from msprobe.base.settings import Settings, collect_options
from msprobe.cell_dump import describer
from msprobe.cell_dump.framework import Gradients, Hook, Names
from msprobe.cell_dump.gradient import FULL_HOOKS, ModuleHooks, node_gradients
from msprobe.cell_dump.recompute import plan_reentrant
from msprobe.cell_dump.session import Session
from msprobe.cell_dump.wrappers import Current, quietly
from msprobe.frameworks.mindspore import records
from msprobe.frameworks.mindspore.autograd import GRAPH, HAS_NODES, TensorGradients
from msprobe.frameworks.mindspore.collecting import MindSpore
from msprobe.frameworks.mindspore.executors import executor
from msprobe.frameworks.mindspore.records import HeldWriter
from msprobe.store.writer import StepWriter

from . import functions
from .functions import namespace

_DEVICE = getattr(torch, "device", None)


class Values(describer.Describer):
    """Differences from MindSpore, on a CPU and on a device."""

    dtypes: ClassVar[describer.Dtypes] = (
        *records.Describer.dtypes,
        *(((_DEVICE, "torch.device"),) if isinstance(_DEVICE, type) else ()),
    )

    def parameters_of(self, module: AnyModule) -> list[tuple[str, AnyParameter]] | None:
        """A module's own parameters as they are when its call begins."""
        return own_parameters(module) if module._parameters else None

    def _rare(self, value: Any, kind: type, call: str, part: str) -> str:
        if issubclass(kind, functions.GROUPS):
            return json.dumps(functions.group_record(value))
        return super()._rare(value, kind, call, part)


class Describer(Values, records.Describer):
    """Makes records of any value."""


class DeviceDescriber(Values, records.DeviceDescriber):
    """As `Describer`, where a look at a tensor waits for a device."""


def own_parameters(module: AnyModule) -> list[tuple[str, AnyParameter]]:
    """Return a module's own parameters, not those of the modules inside, with their names in the module."""
    return [(key, parameter) for key, parameter in module._parameters.items() if parameter is not None]


class MindTorch(MindSpore):
    """MindSpore, but for modules, what they hold, and the functions that users call."""

    kind = MODULES
    module = torch.nn.Module
    calls = functions.Calls
    own_backward = ""
    own_parameters = staticmethod(own_parameters)

    def describer(self, writer: StepWriter, **options: Any) -> describer.Describer:
        if isinstance(writer, HeldWriter):
            return DeviceDescriber(writer, **options)
        return Describer(writer, **options)

    def is_optimizer(self, module: AnyModule) -> bool:
        return False  # optimizers are not modules

    def names_of(self, model: AnyModel) -> Iterable[tuple[str, AnyParameter]]:
        return model.named_parameters()  # type: ignore[no-any-return]  # the layer's names are random

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        if not HAS_NODES:
            return TensorGradients(hook)

        def name_of(tensor: AnyTensor) -> str:
            return names.get(id(tensor)) or (tensor.name if isinstance(tensor, Parameter) else "")

        return node_gradients(replace(GRAPH, name_of=name_of), hook, flush)

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        if not all(hasattr(torch.nn.Module, name) for name in FULL_HOOKS):
            raise SettingsError(
                f'gradients: "hooks" needs torch.nn.Module.{FULL_HOOKS[1]}, which this torch ({torch.__version__} '
                "on MindSpore) does not have; omit it"
            )
        return ModuleHooks(hook, *FULL_HOOKS, executor.requires_grad)

    def refuse(self, settings: Settings) -> None:
        """Raise SettingsError for settings that the installed layer does not support."""
        if settings.jit_cells == "split":
            raise SettingsError(
                'jit_cells: "split" applies to graphs of cells and is not available with PyTorch\'s API on '
                "MindSpore; omit it"
            )
        wanted = collect_options(settings).data_mode
        if (wanted.backward or wanted.parameters_grad) and not _has_gradients():
            raise SettingsError(
                f"data_mode: this torch ({torch.__version__} on MindSpore) does not report gradients, since its "
                'Tensor.register_hook fails; set data_mode to ["forward"]'
            )

    def guard(self, current: Current, guards: Patches, patches: Removable, unhooked: Callable[[], Any]) -> None:
        super().guard(current, guards, patches, unhooked)
        # The layer's own recomputation, reentrant, in addition to that of MindSpore. The kind by hooks on saved tensors
        # runs nothing twice in MSAdapter 0.5.0b1: it is a placeholder there.
        function = getattr(namespace("torch.utils.checkpoint"), "CheckpointFunction", None)
        if function is not None:
            plan_reentrant(current, guards, function, "forward", "backward", Session.second_run)
        autograd = namespace("torch.autograd")
        if hasattr(autograd, "_make_grads"):
            guards.add(autograd, "_make_grads", partial(quietly, current))


def _has_gradients() -> bool:
    """Return whether a parameter accepts a hook; with the layer in mindnlp 0.5.1 it raises an exception."""
    try:
        torch.nn.Parameter(torch.zeros(1)).register_hook(lambda gradient: None).remove()
    except AttributeError:
        return False
    return True


CAPABILITY = MindTorch()
