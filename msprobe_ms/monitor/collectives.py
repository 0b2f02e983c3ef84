"""Collectives: the tensors that functions exchange between ranks, before (`input`) and after (`output`) they run.

All calls of one function in a step are one row: the least of the minima, the greatest of the maxima, the sums of
norms and of NaN, the means of the others. An asynchronous call's output is measured after its handle was waited for.
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType, ModuleType
from typing import Any

from msprobe.base.in_place import InPlace, Place, is_trampoline
from msprobe.base.log import logger
from msprobe.base.nested import tree_of
from msprobe.base.patches import Handle, Patches
from msprobe.cell_dump.collective import Collectives as Functions
from msprobe.frameworks.libraries import LIBRARIES

from .backend import Backend
from .guard import Guard
from .readings import Key, Readings
from .settings import Collectives as Wanted

OTHER = "other"

_NOT_USERS = LIBRARIES | {"msprobe"}


class CollectiveCalls:
    """Observes the calls of functions while installed, through any reference to them."""

    def __init__(self, backend: Backend, readings: Readings, guard: Guard, wanted: Wanted) -> None:
        self._backend, self._readings, self._guard, self._wanted = backend, readings, guard, wanted
        self._lines = tuple(map(re.compile, wanted.codeline))
        self._functions: Functions = backend.collecting.collectives
        self._patches, self._in_place = Patches(), InPlace(self._wrap)
        self._out_of_compiled: Handle | None = None
        self._waiting: dict[int, tuple[Any, str, Any]] = {}
        self._logged: set[str] = set()
        self._depth = 0
        self.active = False

    def install(self, modules: tuple[ModuleType, ...], names: frozenset[str]) -> None:
        """Replace the code of the functions `names` of the modules, in place."""
        for module in modules:
            for name in sorted(names):
                if callable(vars(module).get(name)):
                    self._in_place.add(module, name, name)
        self._patches.join(self._in_place)
        for handle in self._functions.handles:
            self._patches.add(handle, "wait", self._notified)
        self._patches.install()
        self._out_of_compiled = self._backend.modules.without_compiled(self._patches)

    def _wrap(self, original: Callable[..., Any], places: list[Place], _: int | None) -> Callable[..., Any]:
        name = places[-1].data

        @wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            if not self.active or self._depth or self._guard.is_busy or not self._is_wanted(name):
                return original(*args, **kwargs)
            self._depth += 1  # one of these functions may call another
            try:
                self._backend.settle()
                if self._wanted.pre_hook:
                    self._guard.run(name, self._measure, f"{name}.input", (args, kwargs))
                result = original(*args, **kwargs)
                self._backend.settle()
                self._guard.run(name, self._after, name, args, kwargs, result)
                return result
            finally:
                self._depth -= 1

        return collective

    def _is_wanted(self, name: str) -> bool:
        if not self._lines and not self._wanted.log_only:
            return True
        lines = [f"{frame.f_code.co_filename}[{frame.f_lineno}]" for frame in _frames()]
        if self._wanted.log_only:
            where = next((line for line in lines if not _is_of_framework(line)), lines[-1] if lines else "?")
            if (text := f"monitor: {name} is called at {where}") not in self._logged:
                self._logged.add(text)
                logger.info("%s", text)
            return False
        return any(each.search(line) for each in self._lines for line in lines)

    def _after(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        tensors = result if tree_of([result]).tensors else (args, kwargs)
        handles = self._functions.handles_in(result)
        if handles:
            self._waiting[id(handles[-1])] = (handles[-1], name, tensors)
        else:
            self._measure(f"{name}.output", tensors)

    def _notified(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def wait(handle: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(handle, *args, **kwargs)
            waited = self._waiting.pop(id(handle), None)
            if waited is not None and self.active:
                self._backend.settle()
                self._guard.run(waited[1], self._measure, f"{waited[1]}.output", waited[2])
            return result

        return wait

    def _measure(self, name: str, values: Any) -> None:
        shown = self._functions.with_messages(list(values) if isinstance(values, tuple) else values)
        for _, tensor in tree_of([shown]).tensors:
            self._readings.join(OTHER, Key(0, name), tensor)

    def end_step(self) -> None:
        """Discard calls whose handle was not waited for in the same step."""
        self._waiting.clear()

    def remove(self) -> None:
        """Restore the functions."""
        self.end_step()
        if self._out_of_compiled is not None:
            self._out_of_compiled.remove()
        self._patches.remove()


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        if not is_trampoline(frame.f_code):
            yield frame
        frame = frame.f_back


def _is_of_framework(line: str) -> bool:
    return any(f"/{name}/" in line for name in _NOT_USERS)
