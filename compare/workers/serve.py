"""A worker process: takes a task from its pipe, puts the result in, until the pipe or the parent is gone.

It is started as `python -c` with the command that `command` makes, and knows nothing of its parent's `__main__`.
"""

import contextlib
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

LOOK = 0.5
"""Seconds between two looks whether the parent still lives."""


@dataclass(frozen=True, slots=True)
class Done:
    """What the function gave. The first answer of a worker has None: the function is imported."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """What the function raised, with the text of its traceback, which an exception does not take along."""

    error: BaseException
    text: str


def command(number: int) -> str:
    """The Python that a worker begins with; `number` is its end of the pipe, which it inherits.

    The path is set before anything is imported: what the parent finds, the worker finds, and nothing of the current
    folder that the parent would not.
    """
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return (
        f"import sys; sys.path[:] = {path!r}; "
        f"from msprobe.compare.workers.serve import serve; serve({number}, {os.getpid()})"
    )


def serve(number: int, parent: int) -> None:
    """Work until there is nothing more to do."""
    os.set_inheritable(number, False)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(OSError):  # without standard error, what is printed goes nowhere
        os.dup2(2, 1)  # standard output is the parent's answer; what a function prints is talk
    pipe: Connection[Any, Any] = Connection(number)
    with contextlib.suppress(EOFError, ConnectionError):
        function = _import(pipe)
        while True:
            pipe.send_bytes(_answer(function, pipe.recv_bytes()))
    # Nothing to tidy up, and a function's threads shall not keep the process.
    os._exit(0)


def _import(pipe: "Connection[Any, Any]") -> Callable[[Any], Any]:
    """The function that the parent names; an error while importing it goes to the parent like any other."""
    named = pipe.recv_bytes()
    pipe.send_bytes(_answer(lambda _: pickle.loads(named) and None, pickle.dumps(None)))
    function: Callable[[Any], Any] = pickle.loads(named)
    return function


def _answer(function: Callable[[Any], Any], task: bytes) -> bytes:
    try:
        return pickle.dumps(Done(function(pickle.loads(task))), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # all of it is the parent's: in one process it would pass through there too
        return _raised(error)


def _raised(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        packed = pickle.dumps(Raised(error, text))
        pickle.loads(packed)
    except Exception:  # whatever a foreign class does when it is pickled; its words still arrive
        packed = pickle.dumps(Raised(RuntimeError(f"{type(error).__name__}: {error}"), text))
    return packed


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, even in the middle of a task.

    The pipe alone does not tell: it is not read during a task, and another child of the parent may hold its other end.
    The kernel's own signal for this comes already when the parent's *thread* ends.
    """
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)
