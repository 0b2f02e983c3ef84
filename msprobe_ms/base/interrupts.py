"""Interrupts: exceptions that a signal handler raises in the main thread.

Python runs signal handlers between bytecodes, at the begin of a function, after a call, and at the end of a loop: in
this package as well as in the training. An interrupt is meant for the training, so code that catches other exceptions
passes it on (`must_propagate`). Work that must not be left incomplete runs in a separate thread (`uninterrupted`),
where no signal handler runs.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

_VARARGS = 0x04
"""`inspect.CO_VARARGS`, without the slow import of `inspect`."""


def must_propagate(cause: BaseException) -> bool:
    """Return whether an exception must be passed on to the training: KeyboardInterrupt, SystemExit, and exceptions
    raised in a signal handler."""
    if isinstance(cause, (KeyboardInterrupt, SystemExit)):
        return True
    trace = cause.__traceback__
    while trace is not None:
        if _is_handler_frame(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_handler_frame(frame: FrameType) -> bool:
    """Return whether a frame is a call of a signal handler: its arguments are a signal and the interrupted frame."""
    above = frame.f_back
    if above is None:
        return False
    arguments = list(_positional_arguments(frame))
    return any(
        type(number) is int and other is above and number in signal.valid_signals()  # runs no code of other objects
        for number, other in pairwise(arguments)
    )


def _positional_arguments(frame: FrameType) -> Iterator[Any]:
    """Yield the positional arguments of a call, including `*args`."""
    code, variables = frame.f_code, frame.f_locals
    for name in code.co_varnames[: code.co_argcount]:
        yield variables.get(name)
    if code.co_flags & _VARARGS:
        rest = variables.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        yield from rest if type(rest) is tuple else ()


def uninterrupted(work: Callable[[], None]) -> None:
    """Run `work` without interrupts: an interrupt in the meantime is raised after it has ended.

    The work must not wait for locks of the calling thread, or depend on the current thread.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers run only in the main thread
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
            # Start a thread again after an interrupt, which may have come before the start; only the first one runs
            # `work`.
            _thread.start_new_thread(run, ())
            while not ended:
                done.acquire(timeout=1)
        except RuntimeError as cause:  # no thread can be started at the end of the process
            if must_propagate(cause):
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
        interrupt = None  # its traceback references this frame
        failed.clear()
