"""How calls of PyTorch are recorded, with its dispatch mode.

Dispatch shows every operation that the framework dispatches, also in backward: `Aten.{its name}.0.forward`. Finer than
functions: what is computed inside a recorded function or module, and in the backward, appears call by call, with
statistics of arguments and results and the innermost recorded call as its parent. It has no gradients: the operations
of the backward are calls of their own.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint as checkpoint
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode

from msprobe.base.framework import MODULES
from msprobe.base.log import log_once
from msprobe.base.patches import Patches, Removable
from msprobe.cell_dump.framework import Framework, Gradients, Hook, Names
from msprobe.cell_dump.functions import Dispatch
from msprobe.cell_dump.gradient import FULL_HOOKS, Graph, ModuleHooks, node_gradients
from msprobe.cell_dump.recompute import plan_hooks, plan_reentrant
from msprobe.cell_dump.session import Session
from msprobe.cell_dump.unwritten import Memory
from msprobe.cell_dump.wrappers import Current
from msprobe.frameworks.torch_names import ARBITRARY
from msprobe.store.writer import StepWriter

from . import autograd, compiled, functions, shards
from .modes import without_modes
from .records import Describer, own_parameters


def plan_recompute(current: Current, guards: Patches) -> None:
    """Plan patches of the framework's recomputation: the session is notified when a second run begins and ends."""
    plan_reentrant(current, guards, checkpoint.CheckpointFunction, "forward", "backward", Session.second_run)
    frame, hook = getattr(checkpoint, "_CheckpointFrame", None), getattr(checkpoint, "_recomputation_hook", None)
    if frame is not None and hook is not None:
        plan_hooks(current, guards, frame, hook, Session.second_run)


def _innermost() -> Any:
    depth = torch._C._len_torch_dispatch_stack()
    return torch._C._get_dispatch_stack_at(depth - 1) if depth else None


class _Mode(TorchDispatchMode):
    """Passes each operation to the session that records.

    Not the operations on tensors that stand for others while code is traced: they have no values.
    """

    is_active = False

    def __init__(self, current: Current) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types for it
        self._current = current

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether the compiler may compile inside of it, as without it: it is passive where it could not be left."""
        return True

    def __exit__(self, *exc: Any) -> None:
        try:
            super().__exit__(*exc)  # type: ignore[no-untyped-call]  # as above
        except IndexError:  # an interrupt ended a call of this method when it had restored its flags
            if _innermost() is self:
                _pop_mode()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        session = self._current()
        if session is None or not self.is_active or any(issubclass(each, FakeTensor) for each in types):
            return func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]  # type: ignore[attr-defined]  # an operation's overload
        operands = (*args, *(kwargs or {}).values())
        return session.call_inner(f"Aten.{name}", operands, lambda: func(*args, **(kwargs or {})))


class PyTorch(Framework):
    """PyTorch, whose parameters have no names."""

    kind = MODULES
    module = torch.nn.Module
    calls = functions.Calls
    empty = frozenset(f"Aten.{name}" for name in ARBITRARY)
    next_node = staticmethod(autograd.next_number)
    early_stop = getattr(checkpoint, "_StopRecomputationError", ())

    modes = torch._C._is_torch_function_mode_enabled, torch._C._len_torch_dispatch_stack
    apart = staticmethod(without_modes)
    own_parameters = staticmethod(own_parameters)
    hook_of = staticmethod(autograd.hook_of)
    hook_parameter = staticmethod(shards.hook_parameter)
    when_backward_ends = staticmethod(autograd.when_backward_ends)

    @staticmethod
    def memory_of(tensor: torch.Tensor) -> Memory | None:
        if not isinstance(tensor, torch.Tensor) or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return None
        if not tensor.is_cpu or tensor.layout is not torch.strided:
            return None
        try:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
        except (
            NotImplementedError,
            RuntimeError,
        ):  # of `torch.func`, or of code that is traced
            return None
        version = 0 if tensor.is_inference() else tensor._version
        return Memory(address, storage.nbytes(), version) if address and storage.nbytes() else None

    @staticmethod
    def memory_is_held(tensor: torch.Tensor) -> Callable[[], bool]:
        held = StorageWeakRef(tensor.untyped_storage())
        return lambda: not held.expired()

    compiled_class = staticmethod(compiled.compiled_class)
    runs_hooks = staticmethod(compiled.runs_hooks)

    def names_of(self, model: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in model.named_parameters():
            if "_fsdp_wrapped_module" in name or "_flat_param" in name:
                log_once("flat parameters", shards.FLAT, logging.WARNING)
            yield name, parameter

    def describer(self, writer: StepWriter, **options: Any) -> Describer:
        return Describer(writer, **options)

    def graph(self, names: Names) -> Graph:
        return autograd.graph_of(names)

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        return node_gradients(self.graph(names), hook, flush)

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        return ModuleHooks(hook, *FULL_HOOKS, torch.is_grad_enabled)

    def guard(self, current: Current, guards: Patches, patches: Removable, unhooked: Callable[[], Any]) -> None:
        compiled.plan(current, guards, patches)
        plan_recompute(current, guards)
        shards.plan_names(current, guards)
        shards.plan_shapes(current, guards)
        autograd.plan_node_backward(current, guards)

    def dispatch(self, current: Current) -> Dispatch:
        return Dispatch(_Mode(current), _innermost)


CAPABILITY = PyTorch()
