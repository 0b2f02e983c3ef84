"""Task `exception_dump`: if a call raises an exception, writes the running calls, the last ones before, and the
traceback.

The exception itself is neither kept nor changed. Its call is written first; the exception then passes through the calls
around it, which are written as it leaves them, each with its inputs.
"""

import os
import sys
import traceback
from types import FrameType

from msprobe.base import redaction
from msprobe.base.errors import reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import logger
from msprobe.base.sections import ExceptionDumpSettings
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.store.writer import Raised, StepFolder

from .findings import Caught
from .front import Watch
from .last_calls import Kept, LastCalls
from .ring import Ring

_MAX_EXCEPTIONS = 16
"""Maximum number of written exceptions of one step; a training that catches them may raise any number."""


class Exceptions(Watch):
    """The memory for all steps."""

    def __init__(self, settings: ExceptionDumpSettings) -> None:
        self._settings = settings
        self._ring = Ring(settings.memory)

    def front(self, step: StepFolder) -> "ExceptionFront":
        return ExceptionFront(step, self._ring, self._settings.calls)


class ExceptionFront(LastCalls):
    """Writes the held calls when a call raises an exception."""

    def __init__(self, step: StepFolder, ring: Ring, calls: int) -> None:
        super().__init__(step, ring, calls)
        self._passing: tuple[int, str | None] | None = None
        """The exception that is propagating, by its id, and the next call that it reaches."""
        self._written = ""
        self._is_ignored = False

    @property
    def _is_over(self) -> bool:
        return False

    def raised(self, call: Raised) -> None:
        with self._lock:
            is_new = self._passing != (id(call.cause), call.name)
            self._passing = (id(call.cause), call.parent)
            if is_new:
                self._is_ignored = len(self._findings) >= _MAX_EXCEPTIONS
            if self._is_ignored:
                return
            self._written = call.name
            if call.stack is not None:
                self._stacks[call.name] = call.stack
            if is_new:
                self._begin(call)

    def _begin(self, call: Raised) -> None:
        last = tuple(self._last)
        self._last.clear()
        file, line = self._line(call.name)
        running = tuple(one for one in call.running if one != call.name)
        finding = Caught(
            kinds.EXCEPTION, call.name, written=tuple(one.name for one in last),
            exception=redaction.text(reason(call.cause)), file=file, line=line, running=running,
            traceback=_text(call.cause, sys._getframe(1)),
        )  # fmt: skip
        self._findings.append(finding)
        self._write(last)
        self._opened.writer.flush()
        self._note(self._findings, False)
        logger.warning("exception_dump: %s", finding.sentence(self._step.folder))

    def _consider(self, kept: Kept) -> None:
        if kept.name != self._written:
            self._last.append(kept)
            return
        self._written = ""
        self._write_one(kept)
        self._opened.writer.assemble()


_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return os.path.abspath(frame.filename).startswith(_OURS)


def _text(cause: BaseException, frame: FrameType | None) -> str:
    """Return the traceback from the outermost call of the program to the origin, without frames of this tool."""
    try:
        outer = traceback.extract_stack(frame)
        inner = traceback.TracebackException.from_exception(cause)
        # Where the pipeline is asynchronous, our waiting for a result is what the framework raises from.
        waits = next((at for at, one in enumerate(inner.stack) if one.name == "drain" and _is_ours(one)), None)
        frames = [one for one in (*outer, *inner.stack[:waits]) if not _is_ours(one)]
        inner.stack = traceback.StackSummary.from_list(frames)
        return redaction.traceback("".join(inner.format()))
    except Exception as err:  # of foreign code, in the exception's own class; the dump goes on
        if must_propagate(err):
            raise
        return f"the traceback could not be formatted: {reason(err)}"
