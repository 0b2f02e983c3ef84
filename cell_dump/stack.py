"""Where a call was made: the frames of the user's code and the framework's, innermost first."""

import linecache
import sys
from types import CodeType, FrameType

from msprobe.store.write import Writer

UNAVAILABLE = ("The call stack retrieval failed.",)


class Stacks:
    """The call stacks of one writer, each described once.

    A stack is known by the identity of its code objects and the instruction in each; line numbers and source texts are
    looked up at the first sight only. The code objects are kept, so that an identity is never given to another one.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._known: dict[tuple[int, ...], int] = {}
        self._kept: list[CodeType] = []

    def here(self) -> int:
        """The id of the caller's stack, without the frames of msprobe."""
        key: list[int] = []
        frame: FrameType | None = sys._getframe(1)
        top = None
        while frame is not None:
            if top is None and frame.f_globals.get("__name__", "").startswith("msprobe."):
                frame = frame.f_back
                continue
            top = top or frame
            key.append(id(frame.f_code))
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
            source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
            if source and not frame.f_globals.get("__name__", "").startswith("msprobe."):
                lines.append(f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {source}")
            frame = frame.f_back
        return tuple(lines) or UNAVAILABLE
