"""Where the framework keeps its executors: `mindspore.graph.api` in newer versions, `mindspore.common.api` before; and
the device that it works on.

The old place still works in newer versions, but complains when it is imported.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import mindspore
from mindspore import context


class Executor(Protocol):
    """Runs PyNative operations and their backward."""

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
    """The module of the executors: what is used of it by name."""

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
                return module  # type: ignore[no-any-return]  # a module, which has no type of its own
    raise ImportError(
        f"this version of MindSpore has its executors in none of {', '.join(_MODULES)}; use MindSpore 2.7 to 2.10"
    )


api = _find()
"""The module of the executors."""

GRAPHS = ("_JitExecutor", "_CellGraphExecutor")
"""The classes of `api` that Python asks for a graph at each call."""

COMPILERS = ("JitExecutor_", "GraphExecutor_")
"""The classes of `api` that these ask where the graph is not there yet."""

executor = api._pynative_executor
"""Runs PyNative operations and their backward."""

tracer = import_module(api._jit_trace.__module__)
"""The module of what captures code by tracing it."""


def device_target() -> str:
    """The device that operations run on."""
    return str(_of_context("device_target"))


def is_graph_mode() -> bool:
    """Whether the mode is GRAPH_MODE."""
    return bool(_of_context("mode") == mindspore.GRAPH_MODE)


def _of_context(key: str) -> Any:
    """What `mindspore.get_context` gives, which looks at more than that: 75 us, not 9."""
    try:
        return context._context().get_param(getattr(context.ms_ctx_param, key))
    except AttributeError:  # another version keeps it elsewhere
        return mindspore.get_context(key)
