"""Compiled code (`torch.compile`, `torch.jit`, `torch.export`) is not touched: our functions are removed while it runs.

`torch.compile` reads the code that it is about to run, and would compile a recording function in the place of
`torch.relu`, or compile anew what it has compiled without one. So our patches are taken away while compiled code runs:
a compiled module is recorded as one call, and nothing inside it. The framework switches its compiler on and off by one
function, `set_eval_frame`, very often while it compiles; the compilation is over when the frame that switched it on
switches it off.
"""

import sys
from collections.abc import Callable
from functools import partial, wraps
from types import FrameType, SimpleNamespace
from typing import Any

import torch
from torch.utils import hooks
from torch.utils.hooks import BackwardHook

from msprobe.base.patches import Patches
from msprobe.cell_dump.session import Session
from msprobe.cell_dump.wrappers import Current, quietly

_SWITCH = "torch._dynamo.eval_frame"
_TRACERS = "torch.fx.experimental.proxy_tensor"
_OTHER_NAME = "_maybe_set_eval_frame"
"""Another name of `set_eval_frame`, or a function that may call it."""


class Compiler:
    """To be joined to guards: follows the compiler's switch while a collection is open."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._inner = Patches()
        self._planned = False
        self._compiled: FrameType | None = None  # the call of compiled code that our patches were taken away for

    def install(self) -> None:
        """Take the switch's place, where the compiler was loaded."""
        if not self._planned and _SWITCH in sys.modules:
            self._planned = True
            self._inner.add(sys.modules[_SWITCH], "set_eval_frame", self._following)
            if vars(sys.modules[_SWITCH]).get(_OTHER_NAME) is sys.modules[_SWITCH].set_eval_frame:
                self._inner.add(sys.modules[_SWITCH], _OTHER_NAME, self._following)
        self._inner.install()

    def remove(self) -> None:
        """Give it back."""
        self._inner.remove()
        self._compiled = None

    def _following(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def set_eval_frame(callback: Any) -> Any:
            if self._compiled is None and callable(callback) and self._patches.installed:
                self._compiled = _caller()
                self._patches.remove()
            result = original(callback)  # from here on, or until here, the compiler reads what runs
            if self._compiled is not None and callback is None and _caller() is self._compiled:
                self._compiled = None
                self._patches.install()
            return result

        return set_eval_frame


def _caller() -> FrameType | None:
    """Who calls the function that asks."""
    frame = sys._getframe(2)
    return frame.f_back if frame.f_code.co_name == _OTHER_NAME else frame


def plan(current: Current, guards: Patches, patches: Patches) -> None:
    """Plan to keep our patches out of compiled code, and not to record what the framework does around a backward."""
    compiler = Compiler(patches)
    guards.join(compiler)
    guards.add(torch, "compile", partial(_first, compiler))
    for name in ("script", "trace"):
        guards.add(torch.jit, name, partial(_leaving, patches))
    if hasattr(torch, "export") and hasattr(torch.export, "export"):
        guards.add(torch.export, "export", partial(_leaving, patches))
    if hasattr(tracer := getattr(sys.modules.get(_TRACERS), "_MakefxTracer", None), "_trace_inner"):
        # What export, make_fx, cond trace with; it notes every operation, the views that we look at leaves by as well.
        guards.add(tracer, "_trace_inner", partial(_leaving, patches))
    guards.add(torch.autograd, "_make_grads", partial(quietly, current))
    if hasattr(BackwardHook, "_apply_on_tensors"):  # the nodes of a module's own backward hooks
        guards.add(BackwardHook, "_apply_on_tensors", lambda original: quietly(current, _unwarned(original)))


def _unwarned(original: Callable[..., Any]) -> Callable[..., Any]:
    """Where a module has no hooks but ours, the framework does not warn that its inputs need no gradient: nobody could
    do anything about it, and as an error it would end the training.
    """

    @wraps(original)
    def _apply_on_tensors(owner: Any, place: Callable[[Any], None], args: Any) -> Any:
        if all(
            getattr(hook, "__module__", "") == Session.__module__ for hook in (*owner.user_hooks, *owner.user_pre_hooks)
        ):
            return original(owner, lambda node: place(_Quiet(node)), args)
        return original(owner, place, args)

    return _apply_on_tensors


class _Quiet:
    """A node whose hooks run without warnings of the file that BackwardHook stands in."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Hook the node; the filters of `warnings` stay as they are, for they are the user's."""

        def unwarned(*gradients: Any) -> Any:
            before, hooks.warnings = hooks.warnings, _SILENT  # type: ignore[attr-defined]  # a module that it imports
            try:
                return hook(*gradients)
            finally:
                hooks.warnings = before  # type: ignore[attr-defined]  # as above

        return self._node.register_hook(unwarned)


_SILENT = SimpleNamespace(warn=lambda *_, **__: None)


def _first(compiler: Compiler, original: Callable[..., Any]) -> Callable[..., Any]:
    """The first use of it loads the compiler."""

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        compiler.install()
        return made

    return compile


def _leaving(patches: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def leaving(*args: Any, **kwargs: Any) -> Any:
        installed = patches.installed
        patches.remove()
        try:
            return original(*args, **kwargs)
        finally:
            if installed:
                patches.install()

    return leaving
