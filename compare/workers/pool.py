"""A pool of worker processes that survives the death of any of them, and that any script may use.

Reasons for a separate implementation, although Python has two pools and joblib's loky is a third:
- `ProcessPoolExecutor` and loky break as a whole when one worker dies: all running tasks are lost with it, and which of
  them caused it is unknown, so no task can be abandoned after three deaths of *its* workers.
- Python's pools start workers in one of three ways, and none is safe here. `fork` copies a process that may be
  training, with MindSpore's threads and their locks held forever. `spawn` and `forkserver` run the caller's
  `__main__` again, which trains again if it has no `if __name__ == "__main__"`: users call `compare` from such
  scripts.

So a worker is a new `python -c` that imports the modules of the function and communicates through a pipe; `Popen`
starts it without running Python code between fork and exec, which is safe with threads. It does not import its parent's
`__main__`: it reads tasks from its pipe and writes results, until the pipe is closed or the parent has ended (`serve`).
That costs 0.15 to 0.2 s of one core for each worker, nearly all of it numpy's import, and all workers start
simultaneously.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeVar

from msprobe.base.log import log_once

from .lost import Lost


@dataclass(frozen=True, slots=True)
class Done:
    """The result of the function. The first answer of a worker has None: the function is imported."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception of the function, with the text of its traceback, which pickling an exception does not keep."""

    error: BaseException
    text: str


Task = TypeVar("Task")
Result = TypeVar("Result")

TRIES = 3
"""Number of times that a task is given to a worker, if each dies with it."""

STARTS = 3
"""Number of workers in a row that may die before their first task; then no more are started."""

LOOK = 1.0
"""Seconds between two checks whether a worker has ended whose pipe is still open."""

LOOK_FOR_PARENT = 0.5
"""Seconds between two checks of a worker whether its parent is still running."""

# N workers with N threads each would compete for cores.
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


class _InWorker(Exception):
    """The place of an error: the traceback inside the worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def in_pool(
    function: Callable[[Task], Result], tasks: Sequence[Task], order: Sequence[int], limit: int
) -> Generator[tuple[int, Result | Lost], None, None]:
    """Yield the results of `tasks` in the order of completion, started in `order` by at most `limit` processes."""
    pool = _Pool(function, tasks, order, limit)
    try:
        yield from pool.results()
    finally:
        for worker in pool.workers:
            worker.process.kill()
        for worker in pool.workers:
            worker.end()
    if pool.waiting:
        log_once("workers", "no worker process could be started; the work continues in this process")
    for at in pool.waiting:
        if pool.deaths[at]:  # a task that has killed workers is not executed in this process
            yield at, Lost("Its worker process died, and another could not be started.")
        else:
            yield at, function(tasks[at])


class _Worker:
    """One process, the pipe to it, and the index of its task (None: it starts, or is idle)."""

    def __init__(self, named: bytes) -> None:
        self.task: int | None = None
        self.is_ready = False
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = Pipe()
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", _command(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, **_ONE_THREAD},
                    start_new_session=True,  # Ctrl-C is handled by the parent, which ends its workers
                )
            except BaseException:
                self.pipe.close()
                raise
        self.send(named)

    def send(self, packed: bytes) -> None:
        """Write into the pipe. A dead worker is detected by its missing answer."""
        with contextlib.suppress(ConnectionError):
            self.pipe.send_bytes(packed)

    def reply(self) -> Done | Raised | None:
        """Return the answer of the worker; None if it died instead."""
        try:
            packed = self.pipe.recv_bytes() if self.pipe.poll() else None
        except (EOFError, OSError):
            packed = None
        if packed is None:
            return None
        self.is_ready, self.task = True, None
        reply: Done | Raised = pickle.loads(packed)
        return reply

    def end(self) -> int:
        """End the process if it is still running; return its return code."""
        self.pipe.close()
        try:
            return self.process.wait(LOOK)  # it is about to end: its own return code shows the cause
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class _Pool:
    """The workers, and the indices of the waiting tasks."""

    def __init__(self, function: Callable[[Any], Any], tasks: Sequence[Any], order: Sequence[int], limit: int) -> None:
        self.waiting = deque(order)
        self.workers: list[_Worker] = []
        self.deaths: Counter[int] = Counter()
        self._named, self._tasks, self._limit = pickle.dumps(function), tasks, limit
        self._failed_starts = 0

    def results(self) -> Generator[tuple[int, Any], None, None]:
        """Yield the results as they arrive, until all are there or no worker can be started any more."""
        while self.waiting or any(worker.task is not None for worker in self.workers):
            self._start_workers()
            if not self.workers:
                return
            last = wait([worker.pipe for worker in self.workers], LOOK)
            for worker in [
                worker for worker in self.workers if worker.pipe in last or worker.process.poll() is not None
            ]:
                at, reply = worker.task, worker.reply()
                if reply is None:
                    if (reason := self._remove_dead(worker)) and at is not None:
                        yield at, Lost(reason)
                    continue
                if isinstance(reply, Raised):
                    raise reply.error from _InWorker(reply.text)
                self._give(worker)
                if at is not None:
                    yield at, reply.value
            for worker in self.workers:  # the task of a dead worker may be waiting again while others are idle
                if worker.is_ready and worker.task is None:
                    self._give(worker)

    def _start_workers(self) -> None:
        """Start as many workers as there are tasks."""
        busy = sum(worker.task is not None for worker in self.workers)
        wanted = min(self._limit, len(self.waiting) + busy)
        while len(self.workers) < wanted and self._failed_starts < STARTS:
            try:
                self.workers.append(_Worker(self._named))
            except OSError:  # no memory or no process left: fewer workers are sufficient
                self._failed_starts = STARTS

    def _give(self, worker: _Worker) -> None:
        """Send the next waiting task, if there is one."""
        self._failed_starts = 0  # this worker is alive
        if self.waiting:
            worker.send(pickle.dumps(self._tasks[self.waiting[0]], pickle.HIGHEST_PROTOCOL))
            worker.task = self.waiting.popleft()

    def _remove_dead(self, worker: _Worker) -> str:
        """Remove a dead worker. Its task waits again, after all others; after `TRIES` deaths, return the reason for
        abandoning it."""
        self.workers.remove(worker)
        how = _how_ended(worker.end())
        if not worker.is_ready:
            self._failed_starts += 1
        if worker.task is None:
            return ""
        self.deaths[worker.task] += 1
        if self.deaths[worker.task] < TRIES:
            self.waiting.append(worker.task)
            return ""
        return f"Its worker process {how}, as in {TRIES - 1} earlier attempts."


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    short = " (possibly out of memory: use fewer workers)" if -code == signal.SIGKILL else ""
    return f"was ended by {name}{short}"


def _command(number: int) -> str:
    """Return the Python code that a worker begins with; `number` is its end of the pipe, which it inherits.

    The path is set before any import: the worker finds the same modules as the parent, and nothing else in the current
    folder.
    """
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return (
        f"import sys; sys.path[:] = {path!r}; "
        f"from msprobe.compare.workers.pool import serve; serve({number}, {os.getpid()})"
    )


def serve(number: int, parent: int) -> None:
    """Execute tasks until there are no more."""
    os.set_inheritable(number, False)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(OSError):  # without standard error, printed text is discarded
        os.dup2(2, 1)  # standard output is for answers; text that a function prints must not be written to it
    pipe: Connection[Any, Any] = Connection(number)
    with contextlib.suppress(EOFError, ConnectionError):
        named = pipe.recv_bytes()
        # An error while the function is imported is sent to the parent like any other.
        pipe.send_bytes(_reply(lambda: pickle.loads(named) and None))
        function: Callable[[Any], Any] = pickle.loads(named)
        while True:
            pipe.send_bytes(_reply(partial(_work, function, pipe.recv_bytes())))
    # There is nothing to clean up, and a function's threads must not keep the process running.
    os._exit(0)


def _work(function: Callable[[Any], Any], packed: bytes) -> object:
    return function(pickle.loads(packed))


def _reply(work: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps(Done(work()), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:  # handled by the parent: within one process it would propagate there too
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            packed = pickle.dumps(Raised(error, text))
            pickle.loads(packed)
        except Exception:  # for any behavior of a foreign class when it is pickled; its message still arrives
            packed = pickle.dumps(Raised(RuntimeError(f"{type(error).__name__}: {error}"), text))
        return packed


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, even in the middle of a task.

    The pipe is not sufficient: it is not read during a task, and another child of the parent may have its other end
    open. The kernel's own signal for this is sent already when the parent's *thread* ends.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_FOR_PARENT)
    os._exit(1)
