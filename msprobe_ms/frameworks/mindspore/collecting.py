"""How calls of MindSpore are recorded, with its recomputation and its dispatch mode.

Dispatch shows every operation that the framework dispatches, also in backward: `Dispatch.{its name}.0.forward`.
Finer than functions and primitives: what is computed inside a recorded function or cell, and most of the backward,
appears call by call, with statistics of arguments and results and the innermost recorded call as its parent. It has no
gradients: the operations of the backward are calls of their own. The framework shows them from MindSpore 2.9 on.

Dispatch does not show: basic indexing (`x[0]`, `x[:, 1]`) and other views, operations in place (`add_`, `x[0] = 1`),
anything inside `@jit` code and optimizers that are such, some kernels of the backward (those of LayerNorm and BiasAdd),
and other threads. While the user is inside a mode of his own that he entered after `start`, only that one sees
operations; call `start` and `stop` both inside or both outside of such a `with`.
"""

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, ClassVar
from weakref import ref

import mindspore
from mindspore import Parameter, Tensor, nn, utils
from mindspore.ops import Primitive

from msprobe.base.errors import UsageError
from msprobe.base.framework import CELLS, own_parameters
from msprobe.base.nested import tree_of
from msprobe.base.patches import Patches, Removable
from msprobe.cell_dump import describer
from msprobe.cell_dump.backward import extension
from msprobe.cell_dump.framework import Framework, Gradients, Hook, Names
from msprobe.cell_dump.functions import Dispatch, FunctionCalls
from msprobe.cell_dump.gradient import Graph, ModuleHooks, node_gradients
from msprobe.cell_dump.recompute import plan_hooks, plan_reentrant
from msprobe.cell_dump.unwritten import Memory
from msprobe.cell_dump.wrappers import Current, Recorder
from msprobe.store.writer import StepWriter

from . import functions, jit
from .autograd import GRAPH, HAS_IDENTITIES, HAS_NODES, TensorGradients
from .executors import executor
from .reading import DEVICES, DRAINS, drain, settle
from .records import Describer, DeviceDescriber, HeldWriter

# By its full name: `mindspore.common.recompute` as an attribute is the function.
_recompute = import_module("mindspore.common.recompute")

# What the kind by hooks keeps of a first run: two names in the course of time.
_KEEPERS = ("_RecomputeHandle", "_RecomputeState")


def plan_recompute(current: Current, guards: Patches) -> None:
    """Plan patches of the framework's recomputation: the session is notified when a second run begins and ends."""

    def again(session: Recorder, owner: object) -> AbstractContextManager[None]:
        return session.position.second_run(owner)

    plan_reentrant(current, guards, _recompute._RecomputeCell, "construct", "bprop", again)
    for name in _KEEPERS:
        if hasattr(_recompute, name):
            plan_hooks(current, guards, getattr(_recompute, name), _recompute._RecomputationHook, again)


HAS_DISPATCH = hasattr(utils, "MsDispatchMode")


def dispatch_depth() -> int:
    """Return the number of entered dispatch modes."""
    from mindspore._c_expression import _DispatchGuardStack  # here: older versions have none

    return int(_DispatchGuardStack.depth())


def _dispatch_mode(current: Current) -> Any:
    class Mode(utils.MsDispatchMode):  # type: ignore[misc]  # the framework has no types
        """Passes each operation to the session that records."""

        is_active = False

        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            session = current()
            if session is None or not self.is_active:
                return func(*args)
            operands = tuple(args)
            if len(args) == 3 and isinstance(args[0], Primitive) and isinstance(args[2], (tuple, list)):
                operands = tuple(args[2])  # an older kind of operation comes as (primitive, name, its arguments)
            return session.call_inner(f"Dispatch.{func.name}", operands, lambda: func(*args))

    return Mode()


_HAS_FINAL_CALLBACK = hasattr(executor, "queue_backward_final_callback")
"""Whether the framework has a callback for the end of a whole backward, which 2.7.0 does not have."""


def _settle_gradients(gradients: tuple[Any, ...]) -> None:
    settle(tree_of(gradients).tensors)


_HAS_MEMORY = all(hasattr(mindspore.Tensor, name) for name in ("untyped_storage", "_version"))
"""Whether tensors have attributes for their memory and the number of writes to it; not in older versions."""


def _plan_registering(guards: Patches) -> None:
    """Plan that an interrupt waits until a hook is registered.

    MindSpore registers hooks of nodes by a function of Python, and does not expect it to raise: the process would end.
    """
    utils = getattr(sys.modules.get("mindspore.common.hook_handle"), "_HookUtils", None)
    if extension is not None and isinstance(vars(utils or object).get("register_hook"), staticmethod):
        guards.add(utils, "register_hook", lambda original: staticmethod(extension.insistent(original.__func__)))


class MindSpore(Framework):
    """MindSpore, whose modules are cells."""

    kind = CELLS
    module: ClassVar[type] = nn.Cell
    calls: ClassVar[type[FunctionCalls]] = functions.Calls
    own_backward = "bprop"
    takes_any_hook = HAS_IDENTITIES  # older versions take plain functions only
    early_stop = getattr(_recompute, "_StopRecomputationError", ())

    empty = frozenset(
        f"{prefix}.{name}"
        for prefix in ("Functional", "Mint", "Tensor", "Dispatch")
        for name in ("empty", "empty_like", "new_empty", "empty_strided", "Empty", "EmptyLike", "NewEmpty")
    )
    settle = staticmethod(settle)
    before_hook = staticmethod(drain if DRAINS else _settle_gradients)
    own_parameters = staticmethod(own_parameters)

    @staticmethod
    def memory_of(tensor: Tensor) -> Memory | None:
        if not _HAS_MEMORY or mindspore.get_context("device_target") in DEVICES or tensor.has_init:
            return None
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        return Memory(address, size, tensor._version) if address and size else None

    @staticmethod
    def memory_is_held(tensor: Tensor) -> Callable[[], bool]:
        held = ref(tensor)
        return lambda: held() is not None

    def writer(self, writer: StepWriter) -> StepWriter:
        on_device = mindspore.get_context("device_target") in DEVICES
        return HeldWriter(writer) if on_device else writer

    def describer(self, writer: StepWriter, **options: Any) -> describer.Describer:
        if isinstance(writer, HeldWriter):
            return DeviceDescriber(writer, **options)
        return Describer(writer, **options)

    def is_optimizer(self, module: object) -> bool:
        return isinstance(module, nn.Optimizer)

    def names_of(self, model: Any) -> Iterable[tuple[str, Any]]:
        return ()  # parameters have names

    def graph(self, names: Names) -> Graph | None:
        return GRAPH if HAS_NODES else None

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        return node_gradients(GRAPH, hook, flush) if HAS_NODES else TensorGradients(hook)

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        return ModuleHooks(hook, "register_backward_pre_hook", "register_backward_hook", executor.requires_grad)

    @staticmethod
    def hook_of(tensor: Tensor, hook: Callable[[Any], None]) -> tuple[bool, Any]:
        if HAS_NODES:
            node = tensor._grad_node
            if node is None:
                return False, None
            if not node.is_leaf():
                index = tensor._output_index
                node.register_prehook(lambda gradients: hook(gradients[index]))
                return True, None
        elif not executor.requires_grad() and not isinstance(tensor, Parameter):
            return False, None
        try:
            return True, tensor.register_hook(hook)
        except RuntimeError:
            return False, None  # "requires grad is false"

    @staticmethod
    def when_backward_ends(call: Callable[[], None]) -> bool:
        if _HAS_FINAL_CALLBACK:
            executor.queue_backward_final_callback(call)
        return _HAS_FINAL_CALLBACK

    def guard(self, current: Current, guards: Patches, patches: Removable, unhooked: Callable[[], Any]) -> None:
        _plan_registering(guards)
        jit.plan(guards, patches, unhooked)
        plan_recompute(current, guards)

    def dispatch(self, current: Current) -> Dispatch:
        if not HAS_DISPATCH:
            raise UsageError(
                f"start(): dispatch needs MindSpore 2.9 or newer, and this is {mindspore.__version__}; "
                "set dispatch to false, or update MindSpore"
            )
        return Dispatch(_dispatch_mode(current), dispatch_depth)


CAPABILITY = MindSpore()
