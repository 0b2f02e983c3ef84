"""Count the calls of random functions by where they come from.

Each wrapper calls the very function that it replaces, with the same arguments, and draws nothing itself: the numbers
and the generators of a training are the same with it and without. What was counted is read once, at the first forward;
then the originals are put back.
"""

import linecache
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from importlib import import_module
from types import CodeType
from typing import Any

from msprobe.base.patches import Patches
from msprobe.frameworks.interface import RandomFunction, random_functions

Frame = tuple[CodeType, int]

MAX_FRAMES = 200  # frames of a stack, the innermost
MAX_STACKS = 10_000  # stacks of one function; further places are counted together
_OURS = os.path.dirname(__file__) + os.sep
_ELSEWHERE: tuple[Frame, ...] = ()


PYTHON = random_functions(
    "random", ("seed", "random", "randint", "uniform", "choice", "choices", "sample", "shuffle", "gauss")
)
NUMPY = random_functions(
    "numpy.random",
    (
        *("seed", "rand", "randn", "randint", "random", "uniform", "normal", "standard_normal", "choice", "shuffle"),
        *("permutation", "binomial", "exponential"),
    ),
    "np.random",
)

Passes = Callable[[], bool]
"""Returns whether a call is not counted, because a compiler traces it."""


class RandomCalls:
    """The counts of this process, and the wrappers that count."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._counts: dict[str, dict[tuple[Frame, ...], int]] = {}
        self._lock = threading.RLock()  # a signal handler may draw a number while a call is counted
        self._inside = threading.local()
        self._known: set[str] = set()
        self.is_counting = False

    @property
    def ops(self) -> list[str]:
        """Return the functions that are counted."""
        return sorted(self._known)

    def install(self, table: Sequence[RandomFunction], passes: Passes | None = None) -> None:
        """Count the functions of a table from here on; those that this version of a library lacks are left out."""
        for each in (*PYTHON, *NUMPY, *table):
            if each.op in self._known:
                continue
            module, _, inner = each.owner.partition(":")
            owner = getattr(import_module(module), inner, None) if inner else import_module(module)
            if callable(getattr(owner, each.name, None)):
                self._known.add(each.op)
                self._patches.add(owner, each.name, partial(self._wrap, each.op, passes))
        self._patches.installed = False  # there may be new ones
        self._patches.install()
        self.is_counting = True

    def remove(self) -> None:
        """Restore the originals. A wrapper that was imported by name calls the original."""
        self.is_counting = False
        self._patches.remove()

    def found(self, redact: Callable[[str], str]) -> dict[str, list[dict[str, Any]]]:
        """Return the counts by function and stack, as a pack has them; `redact` is applied to lines of source code."""
        line = lru_cache(None)(partial(_line, redact=redact))
        with self._lock:
            counts = {op: dict(stacks) for op, stacks in self._counts.items()}
        return {
            op: [
                {"count": count, "stack": [line(*frame) for frame in stack] or _IN_MANY_PLACES}
                for stack, count in stacks.items()
            ]
            for op, stacks in counts.items()
        }

    def _wrap(self, op: str, passes: Passes | None, original: Any) -> Any:
        inside = self._inside

        @wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if not self.is_counting or (passes is not None and passes()) or getattr(inside, "is_counted", False):
                return original(*args, **kwargs)
            self._count(op)
            inside.is_counted = True  # calls by libraries are not those of the training
            try:
                return original(*args, **kwargs)
            finally:
                inside.is_counted = False

        return counted

    def _count(self, op: str) -> None:
        stack = _stack()
        with self._lock:
            stacks = self._counts.setdefault(op, {})
            if stack not in stacks and len(stacks) >= MAX_STACKS:
                stack = _ELSEWHERE
            stacks[stack] = stacks.get(stack, 0) + 1


def _stack() -> tuple[Frame, ...]:
    """Return the call stack, the outermost frame first, without frames of this tool."""
    found: list[Frame] = []
    frame = sys._getframe(3)  # after `_count` and the wrapper
    while frame is not None and len(found) < MAX_FRAMES:
        if not frame.f_code.co_filename.startswith(_OURS):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]  # the outermost has none
    return tuple(reversed(found))


_IN_MANY_PLACES = ["File elsewhere, line 0, in many places, "]


def _line(code: CodeType, number: int, redact: Callable[[str], str]) -> str:
    text = redact(linecache.getline(code.co_filename, number).strip())[:500]
    name = code.co_filename
    path = name if name.startswith("<") else os.path.abspath(name)
    return f"File {path}, line {number}, in {code.co_name}, {text}"
