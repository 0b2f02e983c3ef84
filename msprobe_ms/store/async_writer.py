"""Tensors are written by a thread, while the training goes on; those that wait are in a ring buffer of bounded size.

Tensors of every size go this way, because creating a file costs the training more than copying the tensor. Processor
time of the calling thread in microseconds per tensor, two cores of an AMD EPYC, the best of five rounds
(`benchmarks/tensor_task.py` has the wall times too):

| tensor | tmpfs: `numpy.save` | written at once | by thread | ext4: `numpy.save` | written at once | by thread |
|---|---|---|---|---|---|---|
| 64 B | 33 | 13 | 2.5 | 126 | 126 | 3 |
| 16 KiB | 42 | 20 | 5 | 476 | 438 | 5.5 |
| 1 MiB | 420 | 385 | 100 | 370 | 310 | 100 |
| 32 MiB | 13,800 | 12,400 | 2,600 | 4,900 | 7,100 | 2,750 |

Both threads together spend up to a third more than one that writes at once: where no core is free, that much is lost.
A ring, because memory that is new for each copy costs more than the copy: 2 GB/s instead of 12 from 64 KiB to 1 MiB.
"""

import atexit
import ctypes
import json
import os
import re
import signal
import sys
import threading
import weakref
from _thread import LockType
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from msprobe.base.interrupts import uninterrupted
from msprobe.base.log import log_once
from msprobe.base.memory import available_memory

from .journal import Journal, encode
from .layout import NPY, PT
from .npy import write_npy
from .tensor_file import is_storable, note_failure

# In the text of an entry. A text value that looks like this has backslashes before its quotes.
_FILE = re.compile(r'"data_name"\s*:\s*("(?:[^"\\]|\\.)*")')


def leave_out(journal: Journal, why: Callable[[str], str]) -> None:
    """Remove every file for which `why` returns a cause from the entries, and note it under `missing`.

    Entries without such a file stay as text, unparsed.
    """
    causes: dict[str, str] = {}
    for call, texts in journal.entries.items():
        lost: dict[str, None] = {}
        for place, text in enumerate(texts):
            named = [json.loads(quoted) for quoted in _FILE.findall(text)]
            causes.update((file, why(file)) for file in named if file not in causes)
            if left_out := [file for file in named if causes[file]]:
                texts[place] = _without(text, left_out)
                lost.update(dict.fromkeys(left_out))
        for file in lost:
            # `output.0` of `{call}.output.0.npy`; the whole name where it was cut to fit.
            name = file.removesuffix(NPY).removesuffix(PT)
            part = "" if name == call else name.removeprefix(f"{call}.")
            journal.missing.append(encode({"name": call, "part": part, "cause": causes[file]}))


def _without(text: str, files: list[str]) -> str:
    entry = json.loads(text)
    # Not by recursion: a damaged journal may nest deeper than Python calls.
    nodes: list[Any] = [entry]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if isinstance(name := node.get("data_name"), str) and name in files:
                del node["data_name"]
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    return encode(entry)


Array = np.ndarray[Any, Any]

LIMIT = 128 << 20
"""Bytes of tensors that may wait to be written, by default."""

_ALIGNED = 64  # bytes: where a copy begins in the ring
_OVERHEAD = 512  # bytes of a waiting tensor in addition to its elements, so that empty tensors are bounded too


class AsyncWriter:
    """Writes npy files by a thread, in order, or has `store` keep what belongs to a path. `limit` is in bytes;
    None: half of the free memory.

    `failed` has for each file that could not be written the reason; a later success under the same path removes it.
    Any thread may call `write`, also a signal handler that interrupts another call. A forked child must not.
    """

    def __init__(
        self,
        limit: int | None = LIMIT,
        store: Callable[[str, Array], None] | None = None,
        failed: dict[str, str] | None = None,
    ) -> None:
        self.failed: dict[str, str] = {} if failed is None else failed
        self._store = store
        self._limit = available_memory() // 2 if limit is None else limit
        self._pid = os.getpid()
        # For `write` only. The thread takes no lock: it could wait for one that a signal handler interrupted.
        self._lock = threading.RLock()
        self._tasks: SimpleQueue[tuple[str, Array, int] | LockType | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_ended = False
        self._is_over = False  # the thread has nothing more to do; it is seldom asked itself, which takes a lock
        self._ring: Array | None = None
        # Positions in an endless sequence of rings: up to where it was filled (by `write`) and written (by the thread).
        self._allocated = self._done = 0

    def write(self, path: str, array: Array) -> None:
        """Copy an array and have it written; its memory may be used again immediately.

        What the ring can never hold is written before this returns: OSError if writing fails. DumpError for arrays that
        hold no numbers.
        """
        size = -(-(array.nbytes + _OVERHEAD) // _ALIGNED) * _ALIGNED
        with self._lock:
            if size > self._limit or not is_storable(array) or not self._runs():
                self.drain()  # one of the same name may be on its way, and the later one counts
                (self._store or write_npy)(path, array)
                self.failed.pop(path, None)
                return
            at = self._allocate(size)
            copy: Array = np.ndarray(array.shape, array.dtype, self._ring, at)
            copy[...] = array
            self._tasks.put((path, copy, self._allocated))

    def drain(self) -> None:
        """Wait until every tensor is written or failed."""
        if self._thread is None or self._is_over or os.getpid() != self._pid or sys.is_finalizing():
            return
        # A bare lock, which the thread releases without waiting. Setting an event takes the event's own lock, which a
        # waiting thread may hold: interrupted there by a signal handler that drains too, both would wait for ever.
        written = threading.Lock()
        written.acquire()
        self._tasks.put(written)
        while not (written.acquire(timeout=1) or self._is_over) and self._thread.is_alive():
            pass

    def end(self) -> None:
        """Let the thread end when it has written what waits."""
        self._tasks.put(None)
        self._has_ended = True
        if all(writer._has_ended for writer in list(_all)):
            _termination.forget()

    def _runs(self) -> bool:
        """Return whether there is a thread; it starts with the first tensor."""
        if sys.is_finalizing():
            return False
        if self._thread is None:
            try:
                uninterrupted(self._begin)
            except (RuntimeError, MemoryError) as cause:
                log_once("no thread", f"tensors are written by the training thread, which takes longer ({cause})")
                self._limit = -1
                return False
            _all.add(self)
            _termination.install()
        return True

    def _begin(self) -> None:
        self._ring = np.empty(self._limit, np.uint8)
        thread = threading.Thread(target=self._work, name="msprobe tensors", daemon=True)
        thread.start()
        self._thread = thread

    def _allocate(self, size: int) -> int:
        """Return where in the ring the next `size` bytes go, as soon as they are free."""
        whole = self._limit
        if self._allocated == self._done:
            self._allocated = self._done = 0  # what was used last is still in the cache
        start = self._allocated
        if start % whole + size > whole:  # no tensor is cut in two
            start += whole - start % whole
        if start + size - self._done > whole:
            # Waiting for all tensors costs no more than for some: the thread is the bottleneck.
            self.drain()
            self._done = start = 0
        self._allocated = start + size
        return start % whole

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if isinstance(task, LockType):
                task.release()
                continue
            path, copy, end = task
            try:
                (self._store or write_npy)(path, copy)
                if self.failed:
                    self.failed.pop(path, None)
            except Exception as cause:  # a debugger never stops the training because of itself
                note_failure(self.failed, path, cause)
            self._done = end
        self._ring = None
        self._is_over = True
        with suppress(Empty):
            while True:  # who began to wait after the end was ordered
                if isinstance(task := self._tasks.get_nowait(), LockType):
                    task.release()


_all: "weakref.WeakSet[AsyncWriter]" = weakref.WeakSet()


def _drain_all() -> None:
    for writer in list(_all):
        writer.drain()


class _Termination:
    """Handles SIGTERM if nobody else does: the tensors that wait are written, and then the process dies of the signal.

    A handler of Python runs when the main thread returns to Python, and a rank that waits for others in a collective
    never does; so a thread of ours is woken too, by the interpreter's own handler. A handler that somebody else sets,
    before or after, is left alone and is the only one.
    """

    def __init__(self) -> None:
        self._pipe: tuple[int, int] | None = None
        self._is_set = self._wakes = False

    def install(self) -> None:
        """Install the handler, if the default action would be taken, and only in the main thread."""
        if self._is_set or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            threading.Thread(target=self._wait, name="msprobe SIGTERM", daemon=True, args=self._pipe[:1]).start()
        signal.signal(signal.SIGTERM, self._on_signal)
        self._is_set = True
        before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._wakes = before == -1
        if not self._wakes:  # an event loop's
            signal.set_wakeup_fd(before)

    def forget(self) -> None:
        """Restore the default action: nothing waits any more."""
        if not self._is_set or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._wakes and self._pipe is not None:
            now = signal.set_wakeup_fd(-1)
            if now not in (-1, self._pipe[1]):
                signal.set_wakeup_fd(now)
        self._is_set = self._wakes = False

    def _on_signal(self, number: int, frame: object) -> None:
        _drain_all()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _wait(self, end: int) -> None:
        while signals := os.read(end, 64):
            # Any thread may look up the handler, but only the main one may set it; so the C library sets it.
            if signal.SIGTERM in signals and signal.getsignal(signal.SIGTERM) == self._on_signal:
                _drain_all()
                ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
                os.kill(os.getpid(), signal.SIGTERM)

    def after_fork(self) -> None:
        """Restore the default action in a child: a signal that ends it, as it ends workers, must not wake the parent's
        thread."""
        self.forget()
        if self._pipe is not None:
            for end in self._pipe:
                with suppress(OSError):
                    os.close(end)
        self._pipe = None


_termination = _Termination()
os.register_at_fork(after_in_child=_termination.after_fork)


# Daemon threads end in the middle of their work when the interpreter does; until then they can finish it.
atexit.register(_drain_all)
