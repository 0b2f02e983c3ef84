"""The writer: one dump of one rank and step, while it is being collected.

It is in the hot path of a training. Every call is one line of the journal, passed to the operating system in one write,
so that a process may die at any moment and leave all that it had finished (`reference/format.md`, page 6).
"""

import errno
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder, safe_name
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once, logger
from msprobe.base.settings import Settings
from msprobe.base.statistic import Array
from msprobe.base.tally import Tally

from . import layout
from .assembly import write_files
from .async_writer import LIMIT, AsyncWriter, leave_out
from .journal import (
    TORN,
    Call,
    call_line,
    header_line,
    journal_of_lines,
    missing_line,
    order_line,
    read_journal,
    run_line,
    stack_line,
)
from .lock import HeldFile, claim
from .npy import stored_size
from .tensor_pack.index import LINE_BYTES
from .tensor_pack.pack import Pack
from .tensor_pack.plain import PlainPack
from .torch_files import stored_size as stored_size_of_pt
from .torch_files import write_pt


class Budget:
    """A number of bytes that all writers of a run share. Safe to use from several threads."""

    def __init__(self, total_bytes: int) -> None:
        self.total = total_bytes
        self._left = total_bytes
        self._lock = threading.RLock()  # a signal handler may come in between, and take too

    def take(self, size: int) -> bool:
        """Take `size` bytes if they are left; otherwise take nothing, and something smaller may still fit."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True


class Raised(NamedTuple):
    """A call that raised: name, the call around it, its stack, the exception, the calls that run, outermost first."""

    name: str
    parent: str | None
    stack: int | None
    cause: BaseException
    running: Sequence[str]


class Source(Protocol):
    """Reads tensors and arrays that are held: a describer."""

    kind: str

    def is_finite(self, tensor: Any) -> bool:
        """Return whether all elements are finite now; True if it has none."""

    def elements(self, tensor: Any) -> Array:
        """Return the elements, to be read immediately."""

    def described(self, tensor: Any, call: str, part: str) -> str:
        """Return the record of a tensor, read now."""

    def described_array(self, array: Array, call: str, part: str, kind: str, dtype: str) -> str:
        """Return the record of an array."""


class Holder(Protocol):
    """Holds the values of a call until it is known whether the call is written."""

    def hold(self, source: Source, tensor: Any, call: str, part: str) -> str:
        """Hold a tensor; return what represents its record."""

    def hold_array(self, source: Source, array: Array, call: str, part: str, kind: str, dtype: str) -> str:
        """Hold an array, which no other code changes; return what represents its record."""


class StepWriter(Protocol):
    """The methods by which a collection writes one step: of a `Writer`, or of an object in front of one."""

    suffix: str
    """The suffix of a tensor's file."""

    @property
    def holder(self) -> Holder | None:
        """Return the object that holds values instead of their records; None if values are described immediately."""

    @property
    def stack(self) -> Callable[[Sequence[str]], int]:
        """See `Writer.stack`."""

    @property
    def tensor(self) -> Callable[[str, Array], str]:
        """See `Writer.tensor`."""

    @property
    def missing(self) -> Callable[[str, str, str], None]:
        """See `Writer.missing`."""

    @property
    def abandon(self) -> Callable[[str], None]:
        """See `Writer.abandon`."""

    @property
    def raised(self) -> Callable[[Raised], None]:
        """See `Writer.raised`."""

    @property
    def order(self) -> Callable[[Sequence[str]], None]:
        """See `Writer.order`."""

    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        """See `Writer.call`, now or later, or not at all."""

    def assemble(self) -> None:
        """See `Writer.assemble`."""

    def close(self) -> None:
        """See `Writer.close`."""


class Watching(Protocol):
    """What decides, over all steps, which calls are written."""

    is_over: bool

    def front(self, step: "StepFolder") -> StepWriter:
        """Return the filter in front of the writer of a step. OSError and UsageError as of the writer."""


@dataclass(frozen=True, slots=True)
class StepFolder:
    """The folder and the header of one step's dump, and what all steps share: settings, disk budget, tally."""

    folder: Path
    header: dict[str, Any]
    settings: Settings
    budget: Budget | None = None
    tally: Tally | None = None
    watch: "Watching | None" = None

    def open(self) -> StepWriter:
        """Begin the dump: return its writer, or the filter in front of it that decides what is written.

        OSError and UsageError as of the writer.
        """
        return self.writer() if self.watch is None else self.watch.front(self)

    @property
    def suffix(self) -> str:
        """Return the suffix of the files of tensors."""
        return layout.PT if self.settings.saves_pt else layout.NPY

    def writer(self) -> "Writer":
        """Return the writer of the dump."""
        return Writer(
            self.folder,
            self.header,
            extra_info=self.settings.extra_info and self.settings.level != "debug",
            form=self.settings.format,
            suffix=self.suffix,
            limit=None if self.settings.async_dump else LIMIT,
            budget=self.budget,
            tally=self.tally,
        )


# Bytes of a whole path, without the NUL that ends it. Shorter ones need no look at their encoding.
_PATH_LIMIT = 4095
_PATH_SURE = 1000

MAX_HELD_BYTES = 64 << 20
"""Bytes of lines that a writer keeps to assemble the files from; of a larger journal it reads the file."""


class Writer:
    """Writes one dump. Whatever dump the folder held before is replaced.

    `header` has the members of dump.json above its data (`task`, `level`, `framework`, `run`...). Without `extra_info`
    there will be no stack.json and no construct.json. `form` is the setting `format`: "packed" puts the tensors into
    one file, "columnar" compresses them too and makes a table instead of JSON files; pyarrow is there. `suffix` is that
    of a tensor's file, ".npy", or ".pt" for PyTorch's, with the form "json" and torch installed. `limit` is the
    number of bytes of tensors that may wait to be written; None: half of the memory that is free now. `budget` is
    shared with the other dumps of the run; None: none. `tally` records whether anything was collected.

    Safe to use from several threads. A forked child writes nothing: its calls return at once. OSError where the folder
    or the journal cannot be made, UsageError where another process writes the same dump.
    """

    holder = None
    """Nothing holds values back: they are described at once."""

    def __init__(
        self,
        folder: Path,
        header: Mapping[str, Any],
        *,
        extra_info: bool = True,
        form: str = "json",
        suffix: str = layout.NPY,
        limit: int | None = LIMIT,
        budget: Budget | None = None,
        tally: Tally | None = None,
    ) -> None:
        # The training may change its working directory.
        self._folder = folder = folder.absolute()
        self.suffix = suffix
        make_folder(folder)
        # False in forked children. Asking for the process id each time would cost more than all the rest here.
        self._is_own_process = True
        # Re-entrant: a signal handler may assemble the files while a line is being written.
        self._lock = threading.RLock()
        self._stacks: dict[tuple[str, ...], int] = {}
        self._torn = False
        self._owed: list[bytes] = []
        self._dirty = True
        # A signal handler leaves the files to the assembly that it interrupts.
        self._assembles = False
        self._kept: list[bytes | Call] | None = None
        self._kept_size = 0
        self._failed: dict[str, str] = {}
        self._pack: Pack | PlainPack | None = None
        self._plain: PlainPack | None = None
        self._async_writer = self._open_tensors(folder / layout.TENSORS, form, limit)
        self._budget, self._tally = budget, tally
        self._tensors = f"{folder / layout.TENSORS}{os.sep}"
        self._has_tensors = False
        self._logged: set[str] = set()
        path = folder / layout.JOURNAL
        number = claim(path, create=True)
        if number is None:
            raise UsageError(
                f"{folder}: another process or debugger writes this dump. Start the debugger after communication "
                "is initialized, so that each rank has its own folder, or give each process its own dump_path"
            )
        self._journal = HeldFile(number, lambda: claim(path, create=False))
        # Also without close(): a writer that is forgotten must not keep others out.
        weakref.finalize(self, self._journal.release).atexit = False
        weakref.finalize(self, self._async_writer.end).atexit = False
        _writers.add(self)
        self._clear()
        self._head = ({**header, "format_version": layout.FORMAT_VERSION}, extra_info, form == "columnar")
        self._append(header_line(*self._head))
        self._kept = []

    def _open_tensors(self, folder: Path, form: str, limit: int | None) -> AsyncWriter:
        """Return the writer of tensors: the thread, or a pack that waits for the journal's lines."""
        if form == "columnar":
            self._pack = Pack(folder)
            return AsyncWriter(limit, self._pack.write, self._failed)
        if form == "packed":
            self._pack = plain = PlainPack(folder, self._failed)
            if limit is None:  # async_dump: the training does not wait for the disk
                return AsyncWriter(limit, plain.write_now, self._failed)
            self._plain = plain
        return AsyncWriter(limit, write_pt if self.suffix == layout.PT else None, self._failed)

    def _clear(self) -> None:
        """Remove the dump that an earlier run left here, also one that it could not finish."""
        if os.fstat(self._journal.number).st_size:
            logger.warning("%s: replacing the unfinished dump of a process that died", self._folder)
            os.ftruncate(self._journal.number, 0)
        if os.listdir(self._folder) == [layout.JOURNAL]:
            return
        for name in (*layout.DATA_FILES, layout.STACK, layout.CONSTRUCT, layout.DIGEST, layout.DAMAGED_JOURNAL):
            (self._folder / name).unlink(missing_ok=True)
        tensors = self._folder / layout.TENSORS
        files = (file for suffix in (layout.NPY, layout.PT) for file in tensors.glob(f"*{suffix}*"))
        for file in (*files, tensors / layout.PACK_INDEX, tensors / layout.PACK):
            file.unlink(missing_ok=True)

    def stack(self, frames: Sequence[str]) -> int:
        """Return the number of a call stack, innermost frame first; recorded at its first use."""
        frames = tuple(frames)
        known = self._stacks.get(frames)
        if known is not None:
            return known
        if not self._is_own_process:  # before the lock, which the fork may have left closed for ever
            return 0
        with self._lock:
            number = self._stacks.get(frames, len(self._stacks))
            if number == len(self._stacks):
                self._append(stack_line(number, frames))
                self._stacks[frames] = number
            return number

    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        """Record that a call ran, or a further part of its entry; without entry it ran and was not collected.

        `entry` is JSON in ASCII, on one line and without tabs: an object, or any value at level debug. `tensor` must
        have been called for the files that it names. OSError if writing fails.
        """
        if self._is_own_process:
            self._append(call_line(name, parent, stack, entry), (name, parent, stack, entry))

    def abandon(self, name: str) -> None:
        """Discard a call that began and is not recorded; nothing of it was written."""

    def raised(self, call: Raised) -> None:
        """Note that a call raised; its entry, which contains that, is written next."""

    def order(self, names: Sequence[str]) -> None:
        """Put calls in the order of `names`, whatever the order of their lines. OSError if writing fails."""
        if self._is_own_process:
            self._append(order_line(names))

    def describe_run(self, members: Mapping[str, Any]) -> None:
        """Add members to the description of the run in the header. Ignored after the end; OSError if writing fails."""
        if self._is_own_process and self._journal.number >= 0:
            self._append(run_line(members))

    def missing(self, name: str, part: str, cause: str) -> None:
        """Record what could not be collected; if the disk is full, keep it until there is space.

        Ignored after the end, when there is no dump any more to record it in.
        """
        if not self._is_own_process or self._journal.number < 0:
            return
        line = missing_line(name, part, cause)
        try:
            self._append(line)
        except OSError:
            self._owed.append(line)
            self._dirty = True

    def tensor(self, data_name: str, array: Array) -> str:
        """Have a copy of a tensor written; return the name of its file for the record, or "" if it is not saved.

        Any dtype of numbers; bfloat16 becomes float32, in a `.pt` only where the array is not marked
        (`torch_files.marked`). A tensor is not saved where the budget is used up or its path would be too long, and the
        dump says so. One that the disk refuses later is left out of the records and noted when the dump is assembled.
        OSError if it refuses immediately; DumpError for arrays that hold no numbers.
        """
        name = safe_name(data_name)
        if not self._is_own_process:
            return name
        if self._journal.number < 0:
            raise UsageError(self._closed())
        path = self._tensors + name
        if len(path) > _PATH_SURE and len(os.fsencode(path)) > _PATH_LIMIT:
            self._leave_out(
                "the path of a tensor exceeds the limit of the file system; choose a shorter dump_path", name
            )
            return ""
        if self._budget is not None and not self._pays(self._size(array), name):
            return ""
        self._prepare()
        if self._plain is None:
            self._async_writer.write(path, array)
        else:
            with self._lock:
                self._failed.pop(path, None)
                self._plain.write(name, array)
        return name

    @property
    def packs(self) -> bool:
        """Return whether `elements` takes tensors."""
        return self._plain is not None

    def elements(self, data_name: str, raw: memoryview, dtype: str, width: int, shape: tuple[int, ...]) -> str:
        """See `tensor`, where the writer packs, of elements that lie in C order in `raw`, each `width` bytes of numpy's
        `dtype` (`<f4`)."""
        name = safe_name(data_name)
        plain = self._plain
        if plain is None or not self._is_own_process:
            return name
        if self._journal.number < 0:
            raise UsageError(self._closed())
        if self._budget is not None and not self._pays(raw.nbytes + LINE_BYTES, name):
            return ""
        self._prepare()
        with self._lock:
            if self._failed:
                self._failed.pop(self._tensors + name, None)
            plain.add(name, dtype, raw, width, shape)
        return name

    def _prepare(self) -> None:
        if not self._has_tensors:
            make_folder(self._folder / layout.TENSORS)
            self._has_tensors = True
        self._dirty = True

    def _pays(self, size: int, name: str) -> bool:
        """Return whether the budget has `size` bytes left, which are then taken."""
        assert self._budget is not None
        if self._budget.take(size):
            return True
        used_up = f"the disk budget of {self._budget.total} bytes is used up"
        self._leave_out(f"{used_up}; increase disk_budget, or collect less with step, scope or list", name)
        return False

    def _size(self, array: Array) -> int:
        """Return the bytes that a tensor takes at most."""
        if self._pack is not None:
            return array.nbytes + LINE_BYTES
        return stored_size_of_pt(array) if self.suffix == layout.PT else stored_size(array)

    def _leave_out(self, cause: str, name: str) -> None:
        """Note that a tensor is not saved, once for each cause in the dump and in the log."""
        if cause not in self._logged:
            self._logged.add(cause)
            self.missing("step", "tensors", f"{cause} (the first tensor that is not saved: {name})")
            log_once(
                cause,
                f"{self._folder}: {cause}; {name} and later tensors are not saved, statistics are still collected",
            )

    def flush(self) -> None:
        """Wait until all tensors are written."""
        if self._is_own_process:
            self._drain()

    def _drain(self) -> None:
        if self._plain is None:
            self._async_writer.drain()
        else:
            with self._lock:
                self._plain.flush()

    def assemble(self) -> None:
        """Bring the JSON files up to date; the journal stays. OSError if writing fails, the old files stay."""
        if not self._is_own_process:
            return
        with self._lock:
            if not self._dirty or self._assembles:
                return
            self._assembles, self._dirty = True, False
            try:
                self._assemble()
            except BaseException:
                self._dirty = True
                raise
            finally:
                self._assembles = False

    def _assemble(self) -> None:
        path, kept = self._folder / layout.JOURNAL, self._kept
        if not path.exists():  # somebody removed the folder: what was in it is gone
            kept = None
        journal = read_journal(path) if kept is None else journal_of_lines(*self._head, kept)
        # Not before reading: the files that a line names were passed to the thread before the line was written.
        self._drain()
        failed = dict(self._failed)
        if failed:
            leave_out(journal, lambda file: failed.get(self._tensors + file, ""))
        if self._tally is not None:
            names_only = journal.header.get("task") == "structure"
            self._tally.any |= bool(journal.entries or journal.missing or (names_only and journal.parents))
        journal.missing.extend(line.decode("ascii").rstrip("\n").split("\t")[1] for line in self._owed)
        write_files(self._folder, journal)

    def close(self) -> None:
        """Bring the JSON files up to date and remove the journal; the dump is finished. A second close does nothing.

        OSError if writing fails: the journal then stays for `msprobe doctor`.
        """
        if not self._is_own_process:
            return
        with self._lock:
            if self._journal.number < 0 or self._assembles:
                return
            try:
                self.assemble()
                (self._folder / layout.JOURNAL).unlink(missing_ok=True)
            except BaseException as cause:
                if not must_propagate(cause):  # after an interrupt the next close finishes the dump
                    self._let_go()
                raise
            self._let_go()

    def _let_go(self) -> None:
        self._kept = None
        self._async_writer.end()
        if self._pack is not None:
            self._pack.close()
        self._journal.release()

    def _closed(self) -> str:
        return f"{self._folder}: the dump is closed; later calls belong to the next step"

    def _append(self, line: bytes, call: Call | None = None) -> None:
        """Write a line, of a call or another, in one write, after the lines that an earlier failure left unwritten."""
        with self._lock:  # between an `acquire` and its `try` an interrupt would leave it locked
            if self._journal.number < 0:
                raise UsageError(self._closed())
            if self._plain is not None:  # the tensors that the line names go first
                self._plain.flush()
            if (kept := self._kept) is not None:
                self._kept_size += len(line)
                kept.append(line if call is None else call)
                if self._kept_size > MAX_HELD_BYTES:
                    self._kept = None
            if self._torn or self._owed:
                self._kept = None
                line = b"".join((TORN if self._torn else b"", *self._owed, line))
            done = 0
            try:
                while done < len(line):
                    done += os.write(self._journal.number, line[done:] if done else line)
            except BaseException as cause:
                self._kept = None
                self._torn = self._torn or done > 0
                if not isinstance(cause, OSError) or cause.errno != errno.EBADF or done or not self._journal.reopen():
                    raise
                os.write(self._journal.number, line)
            self._torn = False
            self._owed.clear()
            self._dirty = True


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


def _close_journals_in_child() -> None:
    """Close all journals in a forked child; else it would hold their locks when its parent is dead."""
    for writer in list(_writers):
        writer._journal.release()
        writer._is_own_process = False


os.register_at_fork(after_in_child=_close_journals_in_child)
