"""Standing aside while the framework compiles.

The graph compiler reads the source of what a `@jit` function calls; a recording wrapper in the place of `ops.relu`
would be compiled instead of it. So our patches are taken away for the time of a compilation. Only a real compilation
pays for this: a graph that is found in the cache is run with the patches in place.
"""

import importlib
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any

from .patches import Patches

_COMPILERS = ("_JitExecutor", "_CellGraphExecutor")


def plan(guards: Patches, patches: Patches) -> None:
    """Plan, into `guards`, patches of the graph executors that take `patches` away while they compile.

    `_check_recompile` is what an executor calls when it has not found the graph and is about to compile; where a
    version has no such function, every call of `compile` counts as a compilation.
    """
    module = _executors()
    late = hasattr(module, "_check_recompile")
    if late:
        guards.add(module, "_check_recompile", partial(_leaving, patches))
    for name in _COMPILERS:
        guards.add(getattr(module, name), "compile", partial(_restoring, patches, not late))


def _executors() -> ModuleType:
    """The module of the graph executors: `graph.api` since 2.10, `common.api` before."""
    for name in ("mindspore.graph.api", "mindspore.common.api"):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        if all(vars(module).get(c) is not None for c in _COMPILERS):
            return module
    raise ImportError("this MindSpore has no graph executors where msprobe looks for them; versions 2.7 to 2.10 have")


def _leaving(patches: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def leaving(*args: Any, **kwargs: Any) -> Any:
        patches.remove()
        return original(*args, **kwargs)

    return leaving


def _restoring(patches: Patches, early: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def restoring(*args: Any, **kwargs: Any) -> Any:
        installed = patches.installed
        if early:
            patches.remove()
        try:
            return original(*args, **kwargs)
        finally:
            if installed:
                patches.install()

    return restoring
