"""The executors of MindSpore (in `mindspore.graph.api`, or `mindspore.common.api` in older versions), and its device.

In newer versions, importing the older module logs a warning.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import mindspore
from mindspore import context


class Executor(Protocol):
    """Executor of PyNative operations and their backward."""

    def sync(self) -> None: ...

    def requires_grad(self) -> bool: ...

    def grad_flag(self) -> bool: ...

    def set_grad_flag(self, flag: bool) -> None: ...

    def enable_grad(self) -> bool: ...

    def set_enable_grad(self, flag: bool) -> None: ...

    def queue_backward_final_callback(self, callback: Callable[[], None]) -> None: ...

    def push_saved_tensor_hook(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None: ...

    def pop_saved_tensor_hook(self) -> None: ...


class Executors(Protocol):
    """The attributes that are used of the module of the executors."""

    _pynative_executor: Executor
    _JitExecutor: type[Any]
    PIJitCaptureContext: type[Any]
    _jit_trace: Callable[..., Any]

    def _no_grad(self) -> AbstractContextManager[None]: ...


_MODULES = ("mindspore.graph.api", "mindspore.common.api")


def _find() -> Executors:
    for name in _MODULES:
        parent = name.rpartition(".")[0]
        if find_spec(parent) is not None and find_spec(name) is not None:
            module: Any = import_module(name)
            if hasattr(module, "_pynative_executor") and hasattr(module, "_JitExecutor"):
                return module  # type: ignore[no-any-return]  # a module
    raise ImportError(
        f"this version of MindSpore has its executors in none of {', '.join(_MODULES)}; use MindSpore 2.7 to 2.10"
    )


api = _find()
"""The module of the executors."""

GRAPHS = ("_JitExecutor", "_CellGraphExecutor")
"""Classes of `api` whose method `compile` is called for a graph at each call."""

COMPILERS = ("JitExecutor_", "GraphExecutor_")
"""Classes of `api` whose method `compile` compiles a graph that is not in the cache."""

executor = api._pynative_executor
"""The executor of PyNative operations and their backward."""

tracer = import_module(api._jit_trace.__module__)
"""The module that captures code by tracing."""


def device_target() -> str:
    """Return the device on which operations run."""
    return str(_context_value("device_target"))


def is_graph_mode() -> bool:
    """Return whether the mode is GRAPH_MODE."""
    return bool(_context_value("mode") == mindspore.GRAPH_MODE)


def _context_value(key: str) -> Any:
    """Return the same as `mindspore.get_context`, in 9 us instead of 75 us."""
    try:
        return context._context().get_param(getattr(context.ms_ctx_param, key))
    except AttributeError:  # not available in other versions
        return mindspore.get_context(key)
