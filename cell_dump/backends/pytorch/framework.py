"""PyTorch behind the collector's framework interface.

PyTorch's recomputation (`torch.utils.checkpoint`): where it begins, and how it ends early.

The names are the framework's inner ones; where a version has them no more, second runs are recorded as further calls.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
import torch.utils.checkpoint as framework

from msprobe.base.framework import MODULES
from msprobe.base.nested import Leaf
from msprobe.base.patches import Patch, Patches
from msprobe.base.settings import Settings
from msprobe.cell_dump.alias_patching import Current, Users
from msprobe.cell_dump.framework import Gradients, Hook, Names
from msprobe.cell_dump.functions import FunctionCalls
from msprobe.cell_dump.gradient import NodeGradients
from msprobe.cell_dump.module_hooks import ModuleHooks
from msprobe.cell_dump.recompute import first_run, plan_hooks, second_run
from msprobe.store.writer import Writer

from . import api, compiled, gradient
from .dispatch import MODES, Dispatch, apart
from .gradient import graph_of, hook_of, next_number, when_backward_ends
from .tensor import Describer, own_parameters

_EARLY_STOP: type[BaseException] | None = getattr(framework, "_StopRecomputationError", None)


def is_early_stop(cause: BaseException) -> bool:
    """Whether an exception is the way in which a recomputation ends when it has what it needs."""
    return _EARLY_STOP is not None and isinstance(cause, _EARLY_STOP)


def plan_recompute(current: Current, guards: Patches) -> None:
    """Plan patches of the framework's recomputation that tell the session when a second run begins and ends."""
    guards.add(framework.CheckpointFunction, "forward", partial(_static, partial(first_run, current)))
    guards.add(framework.CheckpointFunction, "backward", partial(_static, partial(second_run, current, _again)))
    frame, hook = getattr(framework, "_CheckpointFrame", None), getattr(framework, "_recomputation_hook", None)
    if frame is not None and hook is not None:
        plan_hooks(current, guards, frame, hook, _again)


def _again(session: Any, owner: Any) -> AbstractContextManager[None]:
    return session.again_here(owner)  # type: ignore[no-any-return]  # the session's


def _static(wrap: Callable[[Callable[..., Any]], Callable[..., Any]], original: Any) -> Any:
    return staticmethod(wrap(original.__func__))


def _modules(root: Any) -> Iterator[Any]:
    if isinstance(root, torch.nn.Module):
        yield from root.modules()


USERS = Users(modules_of=_modules, layers=("torch.nn.modules.", "torch.nn.attention.", "torch.ao.nn."))
"""Whose modules refer to PyTorch's functions."""


class Sources(FunctionCalls):
    """The sources of one collector. Their places are taken and given back with its patches."""

    users = USERS
    golden = "PyTorch"

    def _functions(self) -> Iterator[Patch]:
        yield from api.plan(self._current, self._patches, self._wanted)

    def _stems(self) -> Iterator[str]:
        return (stem for *_, stem in api.functions())


class PyTorch:
    """The functions that a session binds stand here as they are, without a method around them: they are asked often."""

    kind = MODULES
    module = torch.nn.Module
    own_backward = ""
    next_node = staticmethod(next_number)

    modes = MODES
    apart = staticmethod(apart)
    own_parameters = staticmethod(own_parameters)
    is_early_stop = staticmethod(is_early_stop)
    handles = staticmethod(api.handles)
    messages = staticmethod(api.messages)
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
        plan_recompute(current, guards)
        gradient.plan_node_backward(current, guards)

    def finest(self, current: Current, settings: Settings) -> Dispatch:
        return Dispatch(current)


FRAMEWORK = PyTorch()
