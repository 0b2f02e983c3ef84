"""Compiled code (`torch.compile`, `torch.jit`, `torch.export`, `make_fx`) is not touched: whatever collects is taken
away while code is compiled, traced, or runs compiled.

`torch.compile` reads the code that it is about to run, and would compile a recording function in the place of
`torch.relu`, or compile again what it has compiled without one. It traces hooks of modules, and breaks its graph at
them; inside a dispatch mode it does not compile at all. In each of these cases another artifact would run than without
the debugger, and compute other bits. So patches, dispatch modes and hooks of all open collections of the process are
taken away together: a compiled module is recorded as one call, with nothing inside it.

The framework switches its compiler on and off by one function, `set_eval_frame`, very often while it compiles. The call
of compiled code that comes first, and the end of that call, are what counts; both are recognized by the frame that
switches. The call must be noticed before the compiler is switched on: the framework notes the dispatcher's state just
before that, and restores it around the code, and a dispatch mode is part of it.

The backward of compiled code is compiled too, often when it first runs.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from threading import get_ident
from types import FrameType, SimpleNamespace
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.utils import hooks
from torch.utils.hooks import BackwardHook

from msprobe.base.patches import Patches, Removable
from msprobe.cell_dump.gradient import Node
from msprobe.cell_dump.session import Session
from msprobe.cell_dump.wrappers import Current, quietly

from .autograd import RUN_BACKWARD

_SWITCH = "torch._dynamo.eval_frame"
_OTHER_NAME = "_maybe_set_eval_frame"
"""Another name of `set_eval_frame`, or a function that may call it: what a call of compiled code ends with."""

_MODULES = (
    *("autograd", "collecting", "compiled", "debugger", "execution", "functions", "gradients", "hooks", "modes"),
    *("optimizers", "records", "shards", "statistics", "tensors"),
)
"""The modules of this package, except `modules`, whose hook config_check installs on a model."""

_COLLECTING = (
    *("msprobe.base", "msprobe.cell_dump", "msprobe.debugger", "msprobe.grad_probe"),
    *(f"msprobe.frameworks.pytorch.{name}" for name in _MODULES),
    *("msprobe.monitor", "msprobe.perturb", "msprobe.precheck"),
    *("msprobe.stage_control", "msprobe.store"),
)
"""Packages and modules that collect; the compiler may read through those of config_check."""

_SKIPPED = "torch._dynamo.trace_rules"
"""Has a function `add`, by which the compiler learns of a package whose code it leaves to Python."""

_TRACERS: tuple[tuple[str, str, str], ...] = (
    ("torch.jit", "", "script"),
    ("torch.jit", "", "trace"),
    ("torch.jit", "", "trace_module"),
    ("torch.export", "", "export"),
    ("torch.export", "", "export_for_training"),
    ("torch.export._trace", "", "_export"),  # what export calls, also where a user imported it before
    ("torch.export._trace", "", "_export_for_training"),
    # What make_fx and cond trace with; it notes every operation, also the views by which we look at leaves.
    ("torch.fx.experimental.proxy_tensor", "_MakefxTracer", "_trace_inner"),
)
"""Module, class ("" where there is none) and name of functions that trace or compile what they are given."""


class CompiledCode:
    """Takes away what collects, for all collections of the process, while compiled code runs or code is traced.

    The framework's switches are followed as long as a collection is open.
    """

    def __init__(self) -> None:
        self._open: list[Removable] = []
        self._removed: list[Removable] | None = None  # None while no compiled code runs
        self._frame: FrameType | None = None  # the call of compiled code that they were taken away for
        self._thread = 0  # the thread of that call
        self._followed: set[tuple[int, str]] = set()
        self._patches = Patches()
        self._is_skipped = False  # whether the compiler was told to skip the code that collects

    def open(self, collecting: Removable) -> None:
        """Remove `collecting` around compiled code until `close`; immediately if such code runs now."""
        if not any(each is collecting for each in self._open):
            self._open.append(collecting)
        self.follow()
        self._forget_interrupted()
        if self._removed is not None and collecting.installed:
            self._removed.append(collecting)
            collecting.remove()

    def close(self, collecting: Removable) -> None:
        """`collecting` is over: it is not put back, also not where compiled code runs now."""
        self._open = [each for each in self._open if each is not collecting]
        if not self._open:
            self._patches.remove()
            self._removed = self._frame = None

    def follow(self) -> None:
        """Replace the functions by which the framework compiles and traces, those of modules that are loaded by now."""
        self.skip_ours()
        places = [(torch, "compile", _loading), *((BackwardCFunction, name, _of_node) for name in RUN_BACKWARD)]
        for module_name, owner_name, name in _TRACERS:
            module = sys.modules.get(module_name)
            owner = getattr(module, owner_name, None) if owner_name else module
            if owner is not None and name in vars(owner):
                places.append((owner, name, _traced))
        if (switch := sys.modules.get(_SWITCH)) is not None:
            places.append((switch, "set_eval_frame", partial(_followed, "set_eval_frame")))
            if vars(switch).get(_OTHER_NAME) is switch.set_eval_frame:
                places.append((switch, _OTHER_NAME, partial(_followed, _OTHER_NAME)))
        for owner, name, make in places:
            if (id(owner), name) not in self._followed:
                self._followed.add((id(owner), name))
                patch = self._patches.add(owner, name, make)
                if self._patches.installed:
                    patch.install()
        self._patches.install()

    def skip_ours(self) -> None:
        """Have the compiler leave the code that collects to Python: gradient hooks run inside a training step that is
        compiled with its backward, and a user may call `start` there.
        """
        if not self._is_skipped and (skip := getattr(sys.modules.get(_SKIPPED), "add", None)) is not None:
            self._is_skipped = True
            for name in _COLLECTING:
                skip(name)

    def enter(self) -> bool:
        """Take everything away; returns False where that was done before."""
        self._forget_interrupted()
        if self._removed is not None:
            return False
        self._removed = []
        for each in reversed(self._open):
            if each.installed:
                self._removed.append(each)
                each.remove()
        return True

    def leave(self) -> None:
        """Put back what `enter` took away and is still open."""
        removed, self._removed, self._frame = self._removed or [], None, None
        for each in reversed(removed):
            if any(each is still for still in self._open):
                each.install()

    def _forget_interrupted(self) -> None:
        """Put back what a call of compiled code left away that was ended by an interrupt before it had begun."""
        if self._frame is not None and not _runs(self._frame, self._thread):
            self.leave()

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Nothing collects inside."""
        is_outermost = self._removed is None
        try:
            self.enter()
            yield
        finally:
            if is_outermost:
                self.leave()

    def switched(self, name: str, switch: Callable[[Any], Any], callback: Any, frame: FrameType) -> Any:
        """`frame` calls `switch(callback)`, by its name `name`: a call of compiled code may begin or end with it."""
        if frame.f_code.co_name == _OTHER_NAME and frame.f_back is not None:
            name, frame = _OTHER_NAME, frame.f_back
        if frame is not self._frame and (callable(callback) or callable(frame.f_locals.get("callback"))):
            if self.enter():
                self._frame, self._thread = frame, get_ident()
            return switch(callback)
        result = switch(callback)
        is_last = name == _OTHER_NAME or _OTHER_NAME not in vars(sys.modules[_SWITCH])
        if frame is self._frame and is_last and not callable(callback):
            self.leave()
        return result


def _runs(frame: FrameType, thread: int) -> bool:
    """Return whether a call of a thread has not ended."""
    each: FrameType | None = sys._current_frames().get(thread)
    while each is not None and each is not frame:
        each = each.f_back
    return each is not None


COMPILED_CODE = CompiledCode()


def compiled_class(module: torch.nn.Module) -> str:
    """Return the class of a module that is compiled as a whole; empty for other modules."""
    if type(module).__name__ == "OptimizedModule":  # of `torch.compile(module)`
        return type(module._orig_mod).__name__
    return "" if runs_hooks(module) else type(module).__name__


def runs_hooks(module: torch.nn.Module) -> bool:
    """Return whether hooks on a module run outside of compiled code."""
    return getattr(module, "_compiled_call_impl", None) is None  # set by `module.compile()`


def is_running() -> bool:
    """Return whether the caller runs inside of a call of compiled code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == _SWITCH and callable(frame.f_locals.get("callback")):
            return True
        frame = frame.f_back
    return False


def uncompiled(method: Callable[..., Any]) -> Callable[..., Any]:
    """`method`, which the compiler neither traces nor compiles with what calls it."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        COMPILED_CODE.skip_ours()
        return method(*args, **kwargs)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # as `torch.compiler.disable` marks a function
    skip_code = getattr(getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None), "skip_code", None)
    if skip_code is not None:
        skip_code(call.__code__)  # type: ignore[attr-defined]  # `wraps` returns the function that it is given
        skip_code(CompiledCode.skip_ours.__code__)
    return call


def _followed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def set_eval_frame(callback: Any) -> Any:
        return COMPILED_CODE.switched(name, original, callback, sys._getframe(1))

    return set_eval_frame


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the first use of it loads the compiler."""

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        COMPILED_CODE.follow()
        return made

    return compile


def _traced(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def untouched(*args: Any, **kwargs: Any) -> Any:
        with COMPILED_CODE.untouched():
            return original(*args, **kwargs)

    return untouched


def _of_node(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the backward of a node: of one that compiled code made it is compiled code."""

    @wraps(original)
    def apply(node: object, *args: Any) -> Any:
        if not hasattr(getattr(node, "_forward_cls", None), "_aot_id"):
            return original(node, *args)
        with COMPILED_CODE.untouched():
            return original(node, *args)

    return apply


class UpdateHooks:
    """Hooks of an optimizer's steps, taken off around compiled code, which may hold a whole step.

    `register` puts the hooks in place and returns their handles. After compiled code that changed one of `parameters`,
    the hooks have missed an update: `missed` is called.
    """

    def __init__(
        self, register: Callable[[], list[Any]], parameters: Callable[[], list[Any]], missed: Callable[[], None]
    ) -> None:
        self._register, self._parameters, self._missed = register, parameters, missed
        self._handles = register()
        self._versions: list[int] | None = None
        COMPILED_CODE.open(self)

    @property
    def installed(self) -> bool:
        return bool(self._handles)

    def install(self) -> None:
        if self._handles:
            return
        self._handles = self._register()
        before, self._versions = self._versions, None
        if before is not None and before != self._now():
            self._missed()

    def remove(self) -> None:
        self._versions = self._now()
        self._take_off()

    def end(self) -> None:
        """Take the hooks off for good."""
        COMPILED_CODE.close(self)
        self._take_off()

    def _take_off(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _now(self) -> list[int]:
        return [parameter._version for parameter in self._parameters()]


class Around:
    """To be joined to guards: while they are in place, `collecting` is taken away around compiled code."""

    def __init__(self, collecting: Removable) -> None:
        self._collecting = collecting

    def install(self) -> None:
        COMPILED_CODE.open(self._collecting)

    def remove(self) -> None:
        COMPILED_CODE.close(self._collecting)


def plan(current: Current, guards: Patches, patches: Removable) -> None:
    """Plan to keep our patches out of compiled code, and not to record what the framework does around a backward."""
    guards.join(Around(patches))
    guards.add(torch.autograd, "_make_grads", partial(quietly, current))
    if hasattr(BackwardHook, "_apply_on_tensors"):  # the nodes of a module's own backward hooks
        guards.add(BackwardHook, "_apply_on_tensors", lambda original: quietly(current, _unwarned(original)))


def _unwarned(original: Callable[..., Any]) -> Callable[..., Any]:
    """Suppress the warning that inputs need no gradient for modules without hooks of the user, who could not act on it;
    as an error it would end the training.
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
    """A node whose hooks run without warnings of the file of BackwardHook."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Hook the node; the filters of `warnings` stay as they are, for they are the user's."""

        def unwarned(*gradients: Any) -> Any:
            before, hooks.warnings = hooks.warnings, _SILENT  # type: ignore[attr-defined,assignment]  # its import
            try:
                return hook(*gradients)
            finally:
                hooks.warnings = before  # type: ignore[attr-defined]  # as above

        return self._node.register_hook(unwarned)


_SILENT = SimpleNamespace(warn=lambda *_, **__: None)
