"""The line of the user's that calls an API."""

import linecache
import sys
from types import CodeType, FrameType

from msprobe.base import redaction
from msprobe.base.in_place import is_trampoline
from msprobe.base.interrupts import must_propagate
from msprobe.frameworks.libraries import LIBRARIES

from .finding import Place

_NOT_USERS = LIBRARIES | {"msprobe"}


class Places:
    """Lines by the code and the instruction that called; a line is looked up at its first sight only."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Place] = {}
        self._kept: list[CodeType] = []  # so that an identity is never used again for another one

    def of_caller(self) -> Place:
        """Return the innermost line on the stack outside of this tool and the framework, or one of the framework."""
        frame: FrameType | None = sys._getframe(1)
        inner: FrameType | None = None
        while frame is not None:
            package = _package(frame)
            if package not in _NOT_USERS and not is_trampoline(frame.f_code):
                return self._place(frame)
            if inner is None and package != "msprobe" and not is_trampoline(frame.f_code):
                inner = frame
            frame = frame.f_back
        return Place() if inner is None else self._place(inner)

    def _place(self, frame: FrameType) -> Place:
        code = frame.f_code
        key = id(code), frame.f_lasti
        place = self._known.get(key)
        if place is None:
            self._kept.append(code)
            try:
                source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
            except Exception as cause:  # a loader of the user may raise any exception
                if must_propagate(cause):
                    raise
                source = ""
            place = self._known[key] = Place(code.co_filename, frame.f_lineno, code.co_name, redaction.source(source))
        return place


def _package(frame: FrameType) -> str:
    """Return the package that contains code; code that `exec` runs may have globals without a name."""
    name = frame.f_globals.get("__name__")
    return name.partition(".")[0] if type(name) is str else ""
