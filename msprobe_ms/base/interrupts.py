"""Interrupts: exceptions that a signal's handler raises in the middle of whatever the main thread does.

Python runs such a handler where a function begins, after a call, and where a loop goes back: inside this package as
well as inside the training. An interrupt is the training's: it is passed on from every place that keeps other
exceptions from the training (`passes`). What must be done as a whole, so that nothing is left half done that no later
call could find, is done in a thread of its own (`uninterrupted`), where no handler runs.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

_VARARGS = 0x04
"""`inspect.CO_VARARGS`, without an import that takes longer than all of this package."""


def passes(cause: BaseException) -> bool:
    """Return whether an exception that ended a piece of collecting is passed on to the training: KeyboardInterrupt,
    SystemExit, and whatever the handler of a signal raised.
    """
    if isinstance(cause, (KeyboardInterrupt, SystemExit)):
        return True
    trace = cause.__traceback__
    while trace is not None:
        if _is_of_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_of_handler(frame: FrameType) -> bool:
    """Return whether a frame is the call of a handler: its arguments are a signal and the frame that it interrupted."""
    above = frame.f_back
    if above is None:
        return False
    arguments = list(_arguments(frame))
    return any(
        type(number) is int and other is above and number in signal.valid_signals()  # foreign objects are not asked
        for number, other in pairwise(arguments)
    )


def _arguments(frame: FrameType) -> Iterator[Any]:
    """The positional arguments of a call, those of `*args` one after the other."""
    code, variables = frame.f_code, frame.f_locals
    for name in code.co_varnames[: code.co_argcount]:
        yield variables.get(name)
    if code.co_flags & _VARARGS:
        rest = variables.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        yield from rest if type(rest) is tuple else ()


def uninterrupted(work: Callable[[], None]) -> None:
    """Do a piece of work as a whole: an interrupt that comes meanwhile is raised when it is done.

    The work must not wait for what the calling thread holds, or depend on the thread that does it.
    """
    if threading.current_thread() is not threading.main_thread():  # no handler runs there
        work()
        return
    failed: list[BaseException] = []
    ended: list[bool] = []
    turn, done = threading.Lock(), threading.Lock()
    done.acquire()

    def run() -> None:
        if not turn.acquire(blocking=False):
            return
        try:
            work()
        except BaseException as cause:
            failed.append(cause)
        finally:
            ended.append(True)
            done.release()

    interrupt: BaseException | None = None
    while not ended:
        try:
            # Again after an interrupt, for it may have come before the thread was started: only the first one works.
            _thread.start_new_thread(run, ())
            while not ended:
                done.acquire(timeout=1)
        except RuntimeError as cause:  # there is no thread any more at the end of the process
            if passes(cause):
                interrupt = cause
            else:
                run()
        except BaseException as cause:
            interrupt = cause
    try:
        if interrupt is not None:
            raise interrupt
        if failed:
            raise failed[0]
    finally:
        interrupt = None  # its traceback holds this frame
        failed.clear()
