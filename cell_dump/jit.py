"""Standing aside while the framework compiles.

The graph compiler reads the source of what a `@jit` function calls; a recording wrapper in the place of `ops.relu`
would be compiled instead of it. So our patches are taken away for the time of a compilation. Only a real compilation
pays for this: a graph that is found in the cache is run with the patches in place.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from .executors import api
from .patches import Patches

_COMPILERS = ("_JitExecutor", "_CellGraphExecutor")


def plan(guards: Patches, patches: Patches) -> None:
    """Plan, into `guards`, patches of the graph executors that take `patches` away while they compile.

    `_check_recompile` is what an executor calls when it has not found the graph and is about to compile; where a
    version has no such function, every call of `compile` counts as a compilation.
    """
    late = hasattr(api, "_check_recompile")
    if late:
        guards.add(api, "_check_recompile", partial(_leaving, patches))
    for name in _COMPILERS:
        guards.add(getattr(api, name), "compile", partial(_restoring, patches, not late))


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
