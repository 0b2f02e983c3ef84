"""The writer: one dump of one rank and step, while it is being collected.

It stands in the hot path of a training. Every call is one line handed to the operating system in one write, so that
a process may die at any moment and leave all that it had finished (`docs/format.md`, page 6).
"""

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder, safe_name
from msprobe.base.log import logger
from msprobe.base.statistic import widen

from . import layout
from .assemble import assemble
from .claim import claim
from .journal import TORN, call_line, header_line, missing_line, read_journal, stack_line
from .npy import write_npy


class Writer:
    """Writes one dump. Whatever dump the folder held before is replaced.

    `header` is what dump.json says above its data (`task`, `level`, `framework`, `run`...). Without `extra_info` there
    will be no stack.json and no construct.json. Safe to use from several threads. A forked child writes nothing: its
    calls return at once. OSError where the folder or the journal cannot be made, UsageError where another process
    writes the same dump.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], *, extra_info: bool = True) -> None:
        # The training may change its working directory.
        self._folder = folder = folder.absolute()
        make_folder(folder)
        self._pid = os.getpid()
        # Re-entrant: a signal handler may ask for the assembly while a line is on its way.
        self._lock = threading.RLock()
        self._stacks: dict[tuple[str, ...], int] = {}
        self._torn = False
        self._owed: list[bytes] = []
        self._dirty = True
        self._tensors = ""
        journal = claim(folder / layout.JOURNAL, create=True)
        if journal is None:
            raise UsageError(
                f"{folder}: another process or debugger writes this dump. Start the debugger after the communication "
                "is initialised, so that each rank has a folder of its own, or give each process its own dump_path"
            )
        self._fd = journal
        # Also without close(): a writer that is forgotten must not keep others out.
        self._let_go = weakref.finalize(self, os.close, journal)
        self._let_go.atexit = False
        _watch_forks(self)
        self._clear()
        self._append(header_line({**header, "format_version": layout.FORMAT_VERSION}, extra_info))

    def _clear(self) -> None:
        """Remove the dump that an earlier run left here, also one that it could not finish."""
        if os.fstat(self._fd).st_size:
            logger.warning("%s: replaces the unfinished dump of a process that died", self._folder)
            os.ftruncate(self._fd, 0)
        for name in (layout.DUMP, layout.DEBUG, layout.STACK, layout.CONSTRUCT):
            (self._folder / name).unlink(missing_ok=True)
        for file in (self._folder / layout.TENSORS).glob("*.npy*"):
            file.unlink()

    def stack(self, frames: Sequence[str]) -> int:
        """The number of a call stack, innermost frame first; written down at its first use."""
        frames = tuple(frames)
        known = self._stacks.get(frames)
        if known is not None:
            return known
        if os.getpid() != self._pid:  # before the lock, which the fork may have left closed for ever
            return 0
        with self._lock:
            number = self._stacks.get(frames, len(self._stacks))
            if number == len(self._stacks):
                self._append(stack_line(number, frames))
                self._stacks[frames] = number
            return number

    def call(self, name: str, parent: str | None, stack: int | None, entry: Mapping[str, Any] | None) -> None:
        """Write down that a call ran, or a further part of its entry; without entry it ran and was not collected.

        The tensors that the entry names must have been written before. OSError when the disk refuses.
        """
        if os.getpid() == self._pid:
            self._append(call_line(name, parent, stack, entry))

    def missing(self, name: str, part: str, cause: str) -> None:
        """Write down what could not be collected; on a full disk it is kept until there is room."""
        if os.getpid() != self._pid:
            return
        line = missing_line(name, part, cause)
        try:
            self._append(line)
        except OSError:
            self._owed.append(line)
            self._dirty = True

    def tensor(self, data_name: str, array: np.ndarray[Any, Any]) -> str:
        """Write a tensor completely and return the name of its file, which the record shall carry.

        Any dtype of numbers; bfloat16 becomes float32. OSError when the disk refuses, and no part of the file stays;
        DumpError for arrays that hold no numbers.
        """
        name = safe_name(data_name)
        if os.getpid() != self._pid:
            return name
        if not self._tensors:
            make_folder(self._folder / layout.TENSORS)
            self._tensors = f"{self._folder / layout.TENSORS}{os.sep}"
        write_npy(self._tensors + name, widen(array))
        return name

    def assemble(self) -> None:
        """Bring the JSON files up to date; the journal stays. OSError when the disk refuses, the old files stay."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._dirty:
                return
            journal = read_journal(self._folder / layout.JOURNAL)
            journal.missing.extend(line.decode("ascii").rstrip("\n").split("\t")[1] for line in self._owed)
            assemble(self._folder, journal)
            self._dirty = False

    def close(self) -> None:
        """Bring the JSON files up to date and remove the journal; the dump is finished. A second close does nothing.

        OSError when the disk refuses: the journal then stays for `msprobe doctor`.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._fd < 0:
                return
            try:
                self.assemble()
                os.unlink(self._folder / layout.JOURNAL)
            finally:
                self._let_go()
                self._fd = -1

    def _append(self, line: bytes) -> None:
        """Hand a line over in one write, after what an earlier failure still owes."""
        with self._lock:
            if self._fd < 0:
                raise UsageError(f"{self._folder}: the dump is closed; what comes later belongs to the next step")
            if self._torn or self._owed:
                line = b"".join((TORN if self._torn else b"", *self._owed, line))
            done = 0
            try:
                while done < len(line):
                    done += os.write(self._fd, line[done:] if done else line)
            except OSError:
                self._torn = self._torn or done > 0
                raise
            self._torn = False
            self._owed.clear()
            self._dirty = True


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_watching = False


def _watch_forks(writer: Writer) -> None:
    """Have forked children close the journal; else they would hold its lock when their parent is dead."""
    global _watching
    _writers.add(writer)
    if not _watching:
        os.register_at_fork(after_in_child=_let_go_all)
        _watching = True


def _let_go_all() -> None:
    for writer in list(_writers):
        with suppress(OSError):
            writer._let_go()
        writer._fd = -1
