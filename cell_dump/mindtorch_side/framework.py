"""PyTorch's API on MindSpore as the collector of Python's calls sees it.

To be imported where `torch_on_mindspore()` holds, for it imports `torch`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from mindspore import Parameter

from msprobe.base.errors import SettingsError
from msprobe.base.model import MODULES
from msprobe.base.patches import Patches
from msprobe.base.settings import Settings
from msprobe.base.wishes import wishes_of
from msprobe.cell_dump.describer import Describer as AnyDescriber
from msprobe.cell_dump.framework import FunctionSources, Gradients, Hook, Names
from msprobe.cell_dump.gradient import NodeGradients
from msprobe.cell_dump.mindspore_side.device import HeldWriter
from msprobe.cell_dump.mindspore_side.framework import MindSpore
from msprobe.cell_dump.mindspore_side.gradient import GRAPH, HAS_NODES
from msprobe.cell_dump.mindspore_side.tensor_gradient import TensorGradients
from msprobe.cell_dump.module_hooks import ModuleHooks
from msprobe.cell_dump.recorded import Current, quietly
from msprobe.executors import executor
from msprobe.store.write import Writer

from . import collective, recompute
from .namespaces import namespace
from .sources import Sources
from .tensor import Describer, DeviceDescriber, own_parameters

_BEFORE, _AFTER = "register_full_backward_pre_hook", "register_full_backward_hook"


class MindTorch(MindSpore):
    """MindSpore, but for modules, what they hold, and the functions that users call."""

    kind = MODULES
    module = torch.nn.Module
    own_backward = ""
    next_node = None

    own_parameters = staticmethod(own_parameters)
    handles = staticmethod(collective.handles)
    messages = staticmethod(collective.messages)

    def describer(self, writer: Writer, *, saves: bool, digests: bool) -> AnyDescriber:
        kind = DeviceDescriber if isinstance(writer, HeldWriter) else Describer
        return kind(writer, saves=saves, digests=digests)

    def is_optimizer(self, module: Any) -> bool:
        return False  # they are no modules

    def names_of(self, model: Any) -> Iterable[tuple[str, Any]]:
        return model.named_parameters()  # type: ignore[no-any-return]  # the names that they know are random

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        if not HAS_NODES:
            return TensorGradients(hook)

        def name_of(tensor: Any) -> str:
            return names.get(id(tensor)) or (tensor.name if isinstance(tensor, Parameter) else "")

        return NodeGradients(replace(GRAPH, name_of=name_of), hook, flush)

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        if not hasattr(torch.nn.Module, _BEFORE) or not hasattr(torch.nn.Module, _AFTER):
            raise SettingsError(
                f'gradients: "hooks" needs torch.nn.Module.{_AFTER}, and this torch ({torch.__version__} on MindSpore) '
                "has none; leave it out"
            )
        return ModuleHooks(hook, _BEFORE, _AFTER, executor.requires_grad)

    def sources(self, current: Current, patches: Patches) -> FunctionSources:  # type: ignore[override]  # of its own
        return Sources(current, patches)

    def guard(self, current: Current, guards: Patches, patches: Patches, unhooked: Callable[[], Any]) -> None:
        super().guard(current, guards, patches, unhooked)
        recompute.plan(current, guards)
        autograd = namespace("torch.autograd")
        if hasattr(autograd, "_make_grads"):
            guards.add(autograd, "_make_grads", partial(quietly, current))


def refuse(settings: Settings) -> None:
    """Refuse settings that the installed layer cannot serve."""
    if settings.jit_cells == "split":
        raise SettingsError(
            'jit_cells: "split" is about graphs of cells, and this is PyTorch\'s API on MindSpore; leave it out'
        )
    wanted = wishes_of(settings).data_mode
    if (wanted.backward or wanted.parameters_grad) and not _tells_gradients():
        raise SettingsError(
            f"data_mode: this torch ({torch.__version__} on MindSpore) tells no gradients, its Tensor.register_hook "
            'fails; set data_mode to ["forward"]'
        )


def _tells_gradients() -> bool:
    """Whether a parameter takes a hook; that of the layer in mindnlp 0.5.1 raises."""
    try:
        torch.nn.Parameter(torch.zeros(1)).register_hook(_nothing).remove()
    except AttributeError:
        return False
    return True


def _nothing(gradient: Any) -> None:
    """A hook that leaves the gradient as it is."""


FRAMEWORK = MindTorch()
