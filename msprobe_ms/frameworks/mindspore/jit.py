"""`@jit` code: recorded from outside as one call, not touched while it is compiled.

A call of a `@jit` function, or of a cell whose construct is one, becomes `Jit.{its name}.0.forward` with its arguments
and results; nothing inside is recorded, for no Python runs there. So it is with code captured from its source
(`capture_mode="ast"`, the default). What would be captured from bytecode runs as plain Python while a collection is
open, and its calls are recorded one by one. Of code captured by tracing nothing is recorded.

The graph compiler reads the source of what a `@jit` function calls; a recording wrapper in the place of `ops.relu`
would be compiled instead of it. So our patches are taken away for the time of a compilation. Only a real compilation
pays for this: a graph that is found in the cache is run with the patches in place.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any

from mindspore import Parameter, Tensor, nn

from msprobe.base.log import log_once
from msprobe.base.patches import Patches, Removable
from msprobe.cell_dump.wrappers import Current, Stems

from .at_compile import AtCompile
from .autograd import HAS_NODES
from .executors import COMPILERS, GRAPHS, api, tracer


def _in_graph() -> bool:
    log_once(
        "save in a graph",
        "PrecisionDebugger.save: has no effect inside @jit and in graph mode; use msprobe.mindspore.save there",
    )
    return True


in_graph = AtCompile(_in_graph, eager=False)
"""Of `PrecisionDebugger.save`: where Python runs, a function that returns False; where the graph compiler reads the
call, the constant True.

The compiler drops the code after `if in_graph(): return`, which it could neither compile nor run.
"""


def plan_calls(current: Current, patches: Patches, wanted: Stems = None) -> None:
    """Plan to record the calls of `@jit` code whose stem is `wanted`."""
    patches.add(api._JitExecutor, "__call__", partial(_recorded, current, wanted))


def _recorded(current: Current, wanted: Stems, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or not session.listens() or (wanted is not None and stem_of(executor) not in wanted):
            return original(executor, *args, **kwargs)
        # the owner of a method is before the arguments
        bound = partial(original, executor, *(args[:1] if executor.obj is not None else ()))
        return session.call_api(stem_of(executor), bound, args if executor.obj is None else args[1:], kwargs)

    return __call__


def stem_of(executor: Any) -> str:
    """Return the stem of the calls of a compiled function, or of a cell with a compiled construct."""
    name = getattr(executor.fn, "__name__", type(executor.fn).__name__)
    is_cell = isinstance(executor.obj, nn.Cell) and name == "construct"
    return f"Jit.{type(executor.obj).__name__ if is_cell else name}"


def plan(guards: Patches, patches: Removable, unhooked: Callable[[], AbstractContextManager[None]]) -> None:
    """Plan, into `guards`, patches of the graph executors that take `patches` away while they compile.

    `unhooked` takes our hooks off the parameters meanwhile: the compiler would take them into a graph that has the
    parameters' gradients inside, and fail there.

    `_check_recompile` is what an executor calls when it has not found the graph and is about to compile; where a
    version has no such function, every call of `compile` counts as a compilation.
    """
    late = hasattr(api, "_check_recompile")
    if late:
        guards.add(api, "_check_recompile", partial(_leaving, patches))
    for name in GRAPHS:
        guards.add(getattr(api, name), "compile", partial(_restoring, patches, not late))
    for name in COMPILERS:
        guards.add(getattr(api, name), "compile", partial(_unhooking, unhooked))
    traced: list[bool] = []
    guards.add(tracer, "_jit_trace_begin", partial(_tracing, patches, traced))
    guards.add(tracer, "_jit_trace_end", partial(_traced, patches, traced))
    for name in ("__enter__", "__exit__"):
        guards.add(api.PIJitCaptureContext, name, partial(_capturing, patches))


def _leaving(patches: Removable, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def leaving(*args: Any, **kwargs: Any) -> Any:
        patches.remove()
        return original(*args, **kwargs)

    return leaving


def _restoring(patches: Removable, early: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def restoring(*args: Any, **kwargs: Any) -> Any:
        installed = patches.installed
        if early:
            patches.remove()
        try:
            return original(*map(_unhooked, args), **kwargs)
        finally:
            if installed:
                patches.install()

    return restoring


def _unhooking(
    unhooked: Callable[[], AbstractContextManager[None]], original: Callable[..., Any]
) -> Callable[..., Any]:
    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        with unhooked():
            return original(*args, **kwargs)

    return compile


def _unhooked(argument: Any) -> Any:
    """Return an argument without gradient hooks.

    Where we have to hook tensors, for want of autograd nodes, the compiler would take our hooks into the graph. They
    still fire in PyNative: the graph is run with the very arguments.
    """
    if HAS_NODES or not isinstance(argument, Tensor) or isinstance(argument, Parameter) or not argument.hooks():
        return argument
    return Tensor(argument.asnumpy(), argument.dtype)


def _tracing(patches: Removable, traced: list[bool], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def begin(*args: Any, **kwargs: Any) -> Any:
        traced[:] = [patches.installed]
        patches.remove()
        return original(*args, **kwargs)

    return begin


def _traced(patches: Removable, traced: list[bool], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def end(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            if traced and traced.pop():
                patches.install()

    return end


def _capturing(patches: Removable, original: Callable[..., Any]) -> Callable[..., Any]:
    """Neither begin nor end to capture bytecode: it would break off at each of our wrappers, or compile them."""

    @wraps(original)
    def capture(*args: Any) -> Any:
        return None if patches.installed else original(*args)

    return capture
