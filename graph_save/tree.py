"""Files of `save` and `save_grad`: `{save_dir}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`, and their index.

Format: `reference/format.md`, page 8. All saves of a process share one counter, which defines their order.
"""

import errno
import json
import os
import threading
from pathlib import Path

from msprobe.base.checks import quoted
from msprobe.base.digest import KINDS, digest
from msprobe.base.errors import SettingsError, reason
from msprobe.base.files import NO_FOLLOW, make_folder, safe_name, user_path
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.statistic import Array
from msprobe.store import layout
from msprobe.store.async_writer import AsyncWriter
from msprobe.store.describe import ArrayDescriber, beginning, statistics
from msprobe.store.lock import HeldFile, claim
from msprobe.store.run_folder import run_folder

TENSOR_TYPE = ArrayDescriber.kind
"""The type of most saved values; other types are saved by framework-independent code."""

TASK_VARIABLE = "MSPROBE_SAVE"
"""The environment variable that selects what is saved, read at the first save."""
TASKS = ("tensor", "statistics", *KINDS)


def save_task() -> str:
    """Return what is saved: "tensor", "statistics" (only in the index), or a kind of digest (with the statistics).

    SettingsError if the environment variable is invalid.
    """
    chosen = os.environ.get(TASK_VARIABLE, TASKS[0])
    if chosen not in TASKS:
        raise SettingsError(
            f"environment variable {TASK_VARIABLE}: {quoted(chosen)} is invalid; choose from {', '.join(TASKS)}"
        )
    return chosen


class SaveTree:
    """Writer of saved arrays, which counts the calls of each name within a step.

    A failure is logged once and never reaches the training. `complete` waits for pending writes. A forked child process
    does not write.
    """

    def __init__(self, separates_runs: bool = False) -> None:
        """`separates_runs`: a second run that uses the same save_dir gets a separate folder in it.

        If False, the caller separates runs.
        """
        self._separates_runs = separates_runs
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._may_have_pending = False
        self._task = ""
        self._id = self._step = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._folders: dict[tuple[str, int], tuple[str, HeldFile]] = {}
        self._async_writer = AsyncWriter()

    def mark_pending(self) -> None:
        """Note that arrays may be saved from now on, also by graphs that are still running."""
        self._may_have_pending = True

    def may_have_pending(self) -> bool:
        """Return whether this process (not its parent) may have pending saves."""
        return self._may_have_pending and os.getpid() == self._pid

    def next_count(self, save_dir: str, name: str) -> int:
        """Return the number of this call of `name`, from 0 in each step."""
        with self._lock:
            call = (save_dir.rstrip("/"), name)
            count = self._counts.get(call, 0)
            self._counts[call] = count + 1
            return count

    def save(
        self, save_dir: str, name: str, array: Array, dtype: str, count: int, rank: int, kind: str = TENSOR_TYPE
    ) -> None:
        """Save an array, which is read before this returns.

        `kind` and `dtype` are those of the original tensor, spelled as in a dump (`BFloat16`); the array may be wider.
        """
        if os.getpid() != self._pid:
            return
        try:
            with self._lock:
                self._save(save_dir, name, array, dtype, count, rank, kind)
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            log_once(
                f"save: {type(cause)}", f"save: {name} could not be saved: {reason(cause)}; the training continues"
            )

    def _save(self, save_dir: str, name: str, array: Array, dtype: str, count: int, rank: int, kind: str) -> None:
        self._task = self._task or save_task()
        number, self._id = self._id, self._id + 1
        folder, index = self._folders.get((save_dir, rank)) or self._folder(save_dir, rank)
        short = array.dtype.name if kind != TENSOR_TYPE else "float32" if dtype == "BFloat16" else dtype.lower()
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
        """Return the folder of this step and its open index, the same for all spellings of a path."""
        root = run_folder(user_path(save_dir), rank).folder if self._separates_runs else user_path(save_dir)
        folder = layout.rank_folder(root, self._step, rank).absolute()
        found = [known for known in self._folders.values() if known[0] == str(folder)]
        if not found:
            make_folder(folder)
            found = [(str(folder), HeldFile(_open(folder), lambda: _open(folder)))]
        self._folders[save_dir, rank] = found[0]
        return found[0]

    def complete(self) -> None:
        """Wait until all saved arrays are written."""
        if os.getpid() == self._pid:
            self._async_writer.drain()

    def step(self) -> None:
        """Begin the next step."""
        self.complete()
        with self._lock:
            self._step += 1
            self._counts.clear()
            for _, index in self._folders.values():
                index.release()
            self._folders.clear()


def _open(folder: Path) -> int:
    """Open the index of a folder, and return its file descriptor."""
    index = folder / layout.SAVES
    number = claim(index, create=True)
    if number is None:
        log_once(
            "save: another process",
            f"save: {folder}: another process also saves here, and files with the same name overwrite each other; "
            "give each process a separate folder, or save after communication is initialized, which gives each "
            "process a rank",
        )
        return os.open(index, os.O_WRONLY | os.O_APPEND | NO_FOLLOW)
    return number


tree = SaveTree(separates_runs=True)
"""The tree of the process: ids in file names are unique in the process."""
