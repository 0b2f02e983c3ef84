"""MindSpore behind the collector's framework interface."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from typing import Any

import mindspore
from mindspore import Parameter, nn

from msprobe.base.framework import CELLS, own_parameters
from msprobe.base.nested import tree_of
from msprobe.base.patches import Patch, Patches
from msprobe.base.settings import Settings
from msprobe.cell_dump.alias_patching import Current
from msprobe.cell_dump.framework import Gradients, Hook, Names
from msprobe.cell_dump.functions import FunctionCalls
from msprobe.cell_dump.gradient import NodeGradients
from msprobe.cell_dump.module_hooks import ModuleHooks
from msprobe.cell_dump.recompute import first_run, plan_hooks, second_run
from msprobe.executors import executor
from msprobe.store.writer import Writer

from . import api, dispatch, jit
from .api import USERS, PrimitiveCalls
from .gradient import GRAPH, HAS_NODES, TensorGradients
from .tensor import DEVICES, DRAINS, Describer, DeviceDescriber, HeldWriter, drain, settle

# By its full name: `mindspore.common.recompute` as an attribute is the function.
_framework = import_module("mindspore.common.recompute")

_EarlyStop: type[BaseException] | None = getattr(_framework, "_StopRecomputationError", None)

# What the kind by hooks keeps of a first run: two names in the course of time.
_KEEPERS = ("_RecomputeHandle", "_RecomputeState")


def is_early_stop(cause: BaseException) -> bool:
    """Whether an exception is the way in which a recomputation ends when it has what it needs."""
    return _EarlyStop is not None and isinstance(cause, _EarlyStop)


def plan_recompute(current: Current, guards: Patches) -> None:
    """Plan patches of the framework's recomputation that tell the session when a second run begins and ends."""
    guards.add(_framework._RecomputeCell, "construct", partial(first_run, current))
    guards.add(_framework._RecomputeCell, "bprop", partial(second_run, current, _again))
    for name in _KEEPERS:
        if hasattr(_framework, name):
            plan_hooks(current, guards, getattr(_framework, name), _framework._RecomputationHook, _again)


def _again(session: Any, owner: Any) -> AbstractContextManager[None]:
    return session.position.second_run(owner)  # type: ignore[no-any-return]  # the session's


class Sources(FunctionCalls):
    """The sources of one collector. Their places are taken and given back with its patches."""

    users = USERS
    other_stems = ("Primitive.", "Jit.")
    golden = "MindSpore"

    def __init__(self, current: Current, patches: Patches) -> None:
        super().__init__(current, patches)
        self._primitives = PrimitiveCalls(current)

    def _functions(self) -> Iterator[Patch]:
        yield from api.plan(self._current, self._patches, self._wanted)
        jit.plan_calls(self._current, self._patches, self._wanted)

    def _stems(self) -> Iterator[str]:
        return (stem for *_, stem in api.functions())

    def _take_in(self, roots: list[Any]) -> None:
        self._primitives.add(roots, self._patches, self._wanted)
        super()._take_in(roots)


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
    is_early_stop = staticmethod(is_early_stop)
    handles = staticmethod(api.handles)
    messages = staticmethod(api.messages)

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
        plan_recompute(current, guards)

    def finest(self, current: Current, settings: Settings) -> dispatch.Dispatch:
        return dispatch.Dispatch(current)


FRAMEWORK = MindSpore()
