"""Hooks on the calls of modules, which `torch.compile` does not see."""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import torch

from msprobe.base.log import log_once
from msprobe.base.patches import Handle, Patches
from msprobe.frameworks.interface import After, Before, Removal, hook_module

from .compiled import COMPILED_CODE, compiled_class


class ModuleHooks:
    """Hooks on modules, removed around compiled code: `torch.compile` would compile them, and break its graph there."""

    def __init__(self) -> None:
        self.installed = False
        self._hooked: dict[int, _Hooked] = {}
        self._patches = Patches()
        self._patches.add(torch.nn.Module, "compile", self._compiling)

    def add(self, module: torch.nn.Module, before: Before, after: After) -> Handle:
        """Hook a module; return the handle."""
        if not self._hooked:
            self._patches.install()
            self.installed = True
            COMPILED_CODE.open(self)
        hooked = self._hooked.setdefault(id(module), _Hooked(module))
        hooked.calls.append((before, after))
        if self.installed:
            hooked.install()
        return Removal(partial(self._discard, hooked, (before, after)))

    def install(self) -> None:
        self.installed = True
        for hooked in self._hooked.values():
            hooked.install()

    def remove(self) -> None:
        self._log_modules_inside()
        self.installed = False
        for hooked in self._hooked.values():
            hooked.remove()

    def _log_modules_inside(self) -> None:
        """Log once, when compiled code first runs, the number of modules that only run inside of such code."""
        compiled = [each.module for each in self._hooked.values() if _is_compiled(each.module)]
        inside = {id(module) for each in compiled for module in each.modules() if module is not each}
        if count := len(inside & self._hooked.keys()):
            log_once(
                "monitor in compiled code",
                f"monitor: {count} of {len(self._hooked)} modules run inside code compiled by torch.compile, and "
                "their inputs and outputs are not measured; compile smaller modules, or monitor without "
                "torch.compile",
            )

    def _discard(self, hooked: "_Hooked", calls: tuple[Before, After]) -> None:
        hooked.calls.remove(calls)
        if not hooked.calls:
            hooked.remove()
            del self._hooked[id(hooked.module)]
        if not self._hooked:
            self.installed = False
            COMPILED_CODE.close(self)
            self._patches.remove()

    def _compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compile(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            hooked = self._hooked.get(id(module))
            if hooked is None or not self.installed:
                return original(module, *args, **kwargs)
            hooked.remove()
            try:
                return original(module, *args, **kwargs)
            finally:
                hooked.install()

        return compile


def _is_compiled(module: torch.nn.Module) -> bool:
    return bool(compiled_class(module))


class _Hooked:
    """One module with the functions that are called before and after its calls.

    A module that is compiled in place (`module.compile()`) calls its hooks inside of the compiled code. For such a
    module the functions are called around that code. This is determined each time the hooks are installed.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.calls: list[tuple[Before, After]] = []
        self._handles: Sequence[Handle] = ()
        self._compiled: Any = None
        self._around: Any = None

    def install(self) -> None:
        if self._handles or self._around is not None:
            return
        self._compiled = vars(self.module).get("_compiled_call_impl")
        if self._compiled is None:
            self._handles = hook_module(self.module, self._before, self._after)
        else:
            self._around = self.module._compiled_call_impl = self._measured(self._compiled)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        if self._around is not None and vars(self.module).get("_compiled_call_impl") is self._around:
            self.module._compiled_call_impl = self._compiled
        self._handles, self._compiled, self._around = (), None, None

    def _before(self, args: Any, kwargs: Any) -> None:
        for before, _ in tuple(self.calls):
            before(args, kwargs)

    def _after(self, args: Any, kwargs: Any, result: Any) -> None:
        for _, after in tuple(self.calls):
            after(args, kwargs, result)

    def _measured(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._before(args, kwargs)
            result = compiled(*args, **kwargs)
            self._after(args, kwargs, result)
            return result

        return call
