"""MindSpore as the collector of Python's calls sees it."""

from collections.abc import Callable, Iterable
from typing import Any

import mindspore
from mindspore import Parameter, nn

from msprobe.base.model import CELLS, own_parameters
from msprobe.base.nested import tree_of
from msprobe.base.patches import Patches
from msprobe.base.settings import Settings
from msprobe.cell_dump.framework import Gradients, Hook, Names
from msprobe.cell_dump.gradient import NodeGradients
from msprobe.cell_dump.module_hooks import ModuleHooks
from msprobe.cell_dump.recorded import Current
from msprobe.executors import executor
from msprobe.store.write import Writer

from . import collective, dispatch, jit, recompute
from .device import DEVICES, DeviceDescriber, HeldWriter
from .gradient import GRAPH, HAS_NODES
from .host import DRAINS, drain, settle
from .sources import Sources
from .tensor import Describer
from .tensor_gradient import TensorGradients

_TELLS_THE_END = hasattr(executor, "queue_backward_final_callback")
"""Whether the framework tells when a whole backward has run; 2.7.0 does not."""


def _before_hook(given: tuple[Any, ...]) -> None:
    if DRAINS:
        drain()
    else:
        settle(tree_of(given).tensors)


def _on_device() -> bool:
    return mindspore.get_context("device_target") in DEVICES


class MindSpore:
    """The functions that a session binds stand here as they are, without a method around them: they are asked often."""

    kind = CELLS
    module = nn.Cell
    own_backward = "bprop"
    next_node = None

    modes = bool, bool  # it has none, and these say False
    settle = staticmethod(settle)
    before_hook = staticmethod(_before_hook)
    own_parameters = staticmethod(own_parameters)
    is_early_stop = staticmethod(recompute.is_early_stop)
    handles = staticmethod(collective.handles)
    messages = staticmethod(collective.messages)

    def apart(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def writer(self, writer: Writer) -> Writer:
        return HeldWriter(writer) if _on_device() else writer  # type: ignore[return-value]  # it does the same

    def describer(self, writer: Writer, *, saves: bool, digests: bool) -> Describer:
        if isinstance(writer, HeldWriter):
            return DeviceDescriber(writer, saves=saves, digests=digests)
        return Describer(writer, saves=saves, digests=digests)

    def is_optimizer(self, module: Any) -> bool:
        return isinstance(module, nn.Optimizer)

    def names_of(self, model: Any) -> Iterable[tuple[str, Any]]:
        return ()  # each knows its own

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        return NodeGradients(GRAPH, hook, flush) if HAS_NODES else TensorGradients(hook)

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        return ModuleHooks(hook, "register_backward_pre_hook", "register_backward_hook", executor.requires_grad)

    def hook_of(self, tensor: Any, told: Callable[[Any], None]) -> tuple[bool, Any]:
        if HAS_NODES:
            node = tensor._grad_node
            if node is None:
                return False, None
            if not node.is_leaf():
                index = tensor._output_index
                node.register_prehook(lambda gradients: told(gradients[index]))
                return True, None
        elif not executor.requires_grad() and not isinstance(tensor, Parameter):
            return False, None
        try:
            return True, tensor.register_hook(told)
        except RuntimeError:
            return False, None  # "requires grad is false"

    def when_backward_ends(self, told: Callable[[], None]) -> bool:
        if _TELLS_THE_END:
            executor.queue_backward_final_callback(told)
        return _TELLS_THE_END

    def sources(self, current: Current, patches: Patches) -> Sources:
        return Sources(current, patches)

    def guard(self, current: Current, guards: Patches, patches: Patches, unhooked: Callable[[], Any]) -> None:
        jit.plan(guards, patches, unhooked)
        recompute.plan(current, guards)

    def finest(self, current: Current, settings: Settings) -> dispatch.Dispatch:
        return dispatch.Dispatch(current)


FRAMEWORK = MindSpore()
