"""Where a call was made: the frames of the user's code and the framework's, innermost first."""

import linecache
import sys
from types import CodeType, FrameType

from msprobe.store.writer import Writer

_OURS = 3
"""At least so many frames of msprobe are between the training and `Stacks.here`."""

UNAVAILABLE = ("The call stack retrieval failed.",)


class Stacks:
    """The call stacks of one writer, each described once.

    A stack is known by the identity of its code objects and the instruction in each; line numbers and source texts are
    looked up at the first sight only. The code objects are kept, so that an identity is never given to another one.
    Above the function `enclosing`, which runs a cell whose own stack is known, nothing is looked at again.
    """

    def __init__(self, writer: Writer, enclosing: CodeType) -> None:
        self._writer = writer
        self._enclosing = enclosing
        self._known: dict[tuple[int, ...], int] = {}
        self._kept: list[CodeType] = []

    def here(self, above: int | None = None) -> int:
        """The id of the caller's stack, without the frames of msprobe; `above` is the id of the enclosing cell's."""
        key: list[int] = []
        frame: FrameType | None = sys._getframe(_OURS)
        top = None
        while frame is not None:
            code = frame.f_code
            if top is None:
                if _is_ours(frame):
                    frame = frame.f_back
                    continue
                top = frame
            elif above is not None and code is self._enclosing:
                key.append(above)
                break
            key.append(id(code))
            key.append(frame.f_lasti)
            frame = frame.f_back
        known = self._known.get(tuple(key))
        if known is None:
            known = self._known[tuple(key)] = self._writer.stack(self._describe(top))
        return known

    def _describe(self, frame: FrameType | None) -> tuple[str, ...]:
        lines = []
        while frame is not None:
            code = frame.f_code
            self._kept.append(code)
            try:
                source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
            except Exception:  # a loader of the user's own, which may raise anything
                source = ""
            if source and not _is_ours(frame):
                lines.append(f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {source}")
            frame = frame.f_back
        return tuple(lines) or UNAVAILABLE


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is of msprobe; code that is run by `exec` may have globals without a name."""
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.startswith("msprobe.")
