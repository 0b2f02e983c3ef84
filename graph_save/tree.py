"""The files of `save` and `save_grad`: `{save_dir}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`, and their index.

Format: `reference/format.md`, page 8. All saves of a process share one counter, which orders them.
"""

import errno
import json
import os
import threading
from pathlib import Path

from msprobe.base.checks import shown
from msprobe.base.digest import KINDS, digest
from msprobe.base.errors import SettingsError, reason
from msprobe.base.files import NO_LINK, make_folder, safe_name, user_path
from msprobe.base.interrupts import passes
from msprobe.base.log import once
from msprobe.base.statistic import Array
from msprobe.store import layout
from msprobe.store.async_writer import AsyncWriter
from msprobe.store.describe import beginning, statistics
from msprobe.store.lock import HeldFile, claim
from msprobe.store.run_folder import run_folder

MINDSPORE = "mindspore.Tensor"
"""What almost all is that is saved; other kinds come from code that knows no framework."""

TASK = "MSPROBE_SAVE"
"""The variable of the environment that says what a save leaves behind, read at the first save."""
TASKS = ("tensor", "statistics", *KINDS)


def task() -> str:
    """What a save leaves behind: the tensor, or in the index only its statistics, or its digest beside them."""
    chosen = os.environ.get(TASK, TASKS[0])
    if chosen not in TASKS:
        raise SettingsError(f"environment variable {TASK}: {shown(chosen)} is invalid; choose from {', '.join(TASKS)}")
    return chosen


class SaveTree:
    """Writes what is saved, and counts the calls of each name within a step.

    A failure is logged once and never reaches the training. `complete` waits for whatever the framework and
    the writing thread still have in hand. A forked child writes nothing.
    """

    def __init__(self, shares: bool = False) -> None:
        """`shares`: each save_dir is of one run, and another one gets a folder of its own in it; else who calls sees to
        that.
        """
        self._shares = shares
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._expects = False
        self._task = ""
        self._id = self._step = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._folders: dict[tuple[str, int], tuple[str, HeldFile]] = {}
        self._async_writer = AsyncWriter()

    def expect(self) -> None:
        """From here on something may be saved, also by a graph that the framework still has in hand."""
        self._expects = True

    def expects(self) -> bool:
        """Whether this process, not a parent of it, may have something in hand that is to be saved."""
        return self._expects and os.getpid() == self._pid

    def next_count(self, save_dir: str, name: str) -> int:
        """The number of this call of `name`, from 0 in each step."""
        with self._lock:
            call = (save_dir.rstrip("/"), name)
            count = self._counts.get(call, 0)
            self._counts[call] = count + 1
            return count

    def save(
        self, save_dir: str, name: str, array: Array, dtype: str, count: int, rank: int, kind: str = MINDSPORE
    ) -> None:
        """Save an array, which is read now. `kind` and `dtype` are of what it was, spelled as in a dump (`BFloat16`);
        the file may widen it.
        """
        if os.getpid() != self._pid:
            return
        try:
            with self._lock:
                self._save(save_dir, name, array, dtype, count, rank, kind)
        except Exception as cause:  # a debugger never stops the training because of itself
            if passes(cause):
                raise
            once(f"save: {type(cause)}", f"save: {name} could not be saved: {reason(cause)}; the training continues")

    def _save(self, save_dir: str, name: str, array: Array, dtype: str, count: int, rank: int, kind: str) -> None:
        self._task = self._task or task()
        number, self._id = self._id, self._id + 1
        folder, index = self._folders.get((save_dir, rank)) or self._folder(save_dir, rank)
        short = array.dtype.name if kind != MINDSPORE else "float32" if dtype == "BFloat16" else dtype.lower()
        file = safe_name(f"{name}_{short}_{number}.npy")
        line = beginning(kind, dtype, array.shape) + statistics(array)
        if self._task in KINDS:
            line += f',"md5":"{digest(array, self._task)}"'
        if self._task == "tensor":
            line += f',"data_name":{json.dumps(file)}'
            self._async_writer.write(f"{folder}/{file}", array)
        line = f'{{"name":{json.dumps(name)},"count":{count},"id":{number},{line[1:]}}}\n'
        try:
            os.write(index.number, line.encode())
        except OSError as cause:
            if cause.errno != errno.EBADF or not index.reopen():
                raise
            os.write(index.number, line.encode())

    def _folder(self, save_dir: str, rank: int) -> tuple[str, HeldFile]:
        """The folder of this step and its open index; one, however many spellings lead to it."""
        root = run_folder(user_path(save_dir), rank).folder if self._shares else user_path(save_dir)
        folder = layout.rank_folder(root, self._step, rank).absolute()
        found = [known for known in self._folders.values() if known[0] == str(folder)]
        if not found:
            make_folder(folder)
            found = [(str(folder), HeldFile(_open(folder), lambda: _open(folder)))]
        self._folders[save_dir, rank] = found[0]
        return found[0]

    def complete(self) -> None:
        """Wait until everything that was saved is in its file."""
        if os.getpid() == self._pid:
            self._async_writer.drain()

    def step(self) -> None:
        """What is saved from here on is of the next step."""
        self.complete()
        with self._lock:
            self._step += 1
            self._counts.clear()
            for _, index in self._folders.values():
                index.release()
            self._folders.clear()


def _open(folder: Path) -> int:
    """The descriptor of a folder's index."""
    index = folder / layout.SAVES
    number = claim(index, create=True)
    if number is None:
        once(
            "save: another process",
            f"save: {folder}: another process also saves here, and files with the same name overwrite each other; "
            "give each process a separate folder, or save after communication is initialized, which gives each "
            "process a rank",
        )
        return os.open(index, os.O_WRONLY | os.O_APPEND | NO_LINK)
    return number


tree = SaveTree(shares=True)
"""One for the process: the numbers in the names are the process's."""
