"""Moments at which a training is interrupted: a number of places in its code, or a time.

Python runs the handler of a signal where a function begins, after a call, and where a loop goes back. `AtPlace` counts
these places, in all code or in msprobe's alone, and sends the signal at one of them, so that a seed gives the same
moment again. `AfterTime` has the clock send it.
"""

import dis
import os
import signal
import sys
from functools import cache
from threading import Timer
from types import CodeType

import msprobe

OURS = os.path.dirname(os.path.abspath(msprobe.__file__)) + os.sep


class Alarm(Exception):
    """Raised by a handler of the user's, as a limit of time does."""


class Moment:
    """Sends a signal, whose handler raises `error`, at most once while entered; `where` says what it interrupted.

    A KeyboardInterrupt is sent as the terminal does, unless the process leaves SIGINT to the framework: MindSpore has a
    handler for it that ends the process.
    """

    def __init__(self, error: type[BaseException], leaves_sigint: bool) -> None:
        self._error = error
        self._signal = signal.SIGALRM if error is Alarm else signal.SIGUSR1 if leaves_sigint else signal.SIGINT
        self.fired, self.where = False, ""

    def __enter__(self) -> "Moment":
        def handler(number, frame):
            self.fired = True
            self.where = self.where or _place(frame)
            raise self._error

        self._before = signal.signal(self._signal, handler)
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        signal.signal(self._signal, self._before)


def _place(frame):
    if frame is None:
        return ""
    code = frame.f_code
    return f"{code.co_filename.removeprefix(OURS)}:{frame.f_lineno} {code.co_qualname}"


@cache
def _places(code: CodeType) -> frozenset[int]:
    places, before = set(), None
    for instruction in dis.get_instructions(code):
        if before is not None and before.startswith(("CALL", "RESUME")):
            places.add(instruction.offset)
        if instruction.opname.startswith("JUMP_BACKWARD"):
            places.add(instruction.argval)
        before = instruction.opname
    return frozenset(places)


class AtPlace(Moment):
    """Send the signal at place `number`, counted from 1; 0 counts only."""

    def __init__(self, number: int, ours: bool, *of: object) -> None:
        super().__init__(*of)
        self._number, self._ours = number, ours
        self.count = 0

    def begin(self) -> None:
        sys.settrace(self._enter)

    def end(self) -> None:
        sys.settrace(None)

    def _enter(self, frame, event, arg):
        if frame.f_code.co_filename == __file__ or (self._ours and not frame.f_code.co_filename.startswith(OURS)):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._at

    def _at(self, frame, event, arg):
        if event == "opcode" and frame.f_lasti in _places(frame.f_code):
            self.count += 1
            if self.count == self._number:
                self.where = _place(frame)
                sys.settrace(None)
                signal.raise_signal(self._signal)
        return self._at


class AfterTime(Moment):
    """Send the signal after so many seconds, wherever the program is then."""

    def __init__(self, seconds: float, *of: object) -> None:
        super().__init__(*of)
        # By another thread, as a signal from outside; Python runs its handler in the main thread.
        self._timer = Timer(seconds, os.kill, (os.getpid(), self._signal))
        self._timer.daemon = True

    def begin(self) -> None:
        self._timer.start()

    def end(self) -> None:
        self._timer.cancel()
        self._timer.join()
