"""PyTorch as the collector of Python's calls sees it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from msprobe.base.model import MODULES
from msprobe.base.nested import Leaf
from msprobe.base.patches import Patches
from msprobe.base.settings import Settings
from msprobe.cell_dump.framework import Gradients, Hook, Names
from msprobe.cell_dump.gradient import NodeGradients
from msprobe.cell_dump.module_hooks import ModuleHooks
from msprobe.cell_dump.recorded import Current
from msprobe.store.write import Writer

from . import collective, compiled, node_backward, recompute
from .dispatch import MODES, Dispatch, apart
from .gradient import graph_of, hook_of, next_number, when_backward_ends
from .sources import Sources
from .tensor import Describer, own_parameters


class PyTorch:
    """The functions that a session binds stand here as they are, without a method around them: they are asked often."""

    kind = MODULES
    module = torch.nn.Module
    own_backward = ""
    next_node = staticmethod(next_number)

    modes = MODES
    apart = staticmethod(apart)
    own_parameters = staticmethod(own_parameters)
    is_early_stop = staticmethod(recompute.is_early_stop)
    handles = staticmethod(collective.handles)
    messages = staticmethod(collective.messages)
    hook_of = staticmethod(hook_of)
    when_backward_ends = staticmethod(when_backward_ends)

    @staticmethod
    def settle(tensors: Sequence[Leaf]) -> None:
        """On a CPU everything is computed when a call returns; the error of a device comes at its next call too."""

    @staticmethod
    def before_hook(given: tuple[Any, ...]) -> None:
        """As `settle`."""

    def writer(self, writer: Writer) -> Writer:
        return writer

    def describer(self, writer: Writer, *, saves: bool, digests: bool) -> Describer:
        return Describer(writer, saves=saves, digests=digests)

    def is_optimizer(self, module: Any) -> bool:
        return False  # they are no modules

    def names_of(self, model: Any) -> Iterable[tuple[str, Any]]:
        return model.named_parameters()  # type: ignore[no-any-return]  # a module's

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        return NodeGradients(graph_of(names), hook, flush)

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        before, after = "register_full_backward_pre_hook", "register_full_backward_hook"
        return ModuleHooks(hook, before, after, torch.is_grad_enabled)

    def sources(self, current: Current, patches: Patches) -> Sources:
        return Sources(current, patches)

    def guard(self, current: Current, guards: Patches, patches: Patches, unhooked: Callable[[], Any]) -> None:
        compiled.plan(current, guards, patches)
        recompute.plan(current, guards)
        node_backward.plan(current, guards)

    def finest(self, current: Current, settings: Settings) -> Dispatch:
        return Dispatch(current)


FRAMEWORK = PyTorch()
