"""The files of `save` and `save_grad`: `{save_dir}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`, and their index.

Format: `docs/format.md`, page 7. All saves of a process share one counter, which orders them.
"""

import atexit
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.checks import shown
from msprobe.base.digest import digest
from msprobe.base.errors import SettingsError
from msprobe.base.files import make_folder, safe_name
from msprobe.base.log import once
from msprobe.store import layout
from msprobe.store.behind import Behind
from msprobe.store.describe import beginning, reason, statistics

Array = np.ndarray[Any, Any]

TASK = "MSPROBE_SAVE"
"""The variable of the environment that says what a save leaves behind, read at the first save."""
TASKS = ("tensor", "statistics", "md5")


def task() -> str:
    """What a save leaves behind: the tensor, or in the index only its statistics, or its digest beside them."""
    chosen = os.environ.get(TASK, TASKS[0])
    if chosen not in TASKS:
        raise SettingsError(f"environment variable {TASK}: {shown(chosen)} is none of {', '.join(TASKS)}")
    return chosen


class SaveTree:
    """Writes what is saved, and counts the calls of each name within a step.

    A failure is said once in the log and never reaches the training. `complete` waits for whatever the framework and
    the writing thread still have in hand. A forked child writes nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._task = ""
        self._id = self._step = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._indexes: dict[Path, int] = {}
        self._behind = Behind()

    def next_count(self, save_dir: str, name: str) -> int:
        """The number of this call of `name`, from 0 in each step."""
        with self._lock:
            count = self._counts.get((save_dir, name), 0)
            self._counts[save_dir, name] = count + 1
            return count

    def save(self, save_dir: str, name: str, array: Array, dtype: str, count: int, rank: int) -> None:
        """Save an array, which is read now. `dtype` is spelled as in a dump (`BFloat16`), which the file may widen."""
        if os.getpid() != self._pid:
            return
        try:
            with self._lock:
                self._save(Path(save_dir), name, array, dtype, count, rank)
        except Exception as cause:  # a debugger never stops the training because of itself
            once(f"save: {type(cause)}", f"save: {name} could not be saved: {reason(cause)}; the training goes on")

    def _save(self, save_dir: Path, name: str, array: Array, dtype: str, count: int, rank: int) -> None:
        self._task = self._task or task()
        number, self._id = self._id, self._id + 1
        folder = layout.rank_folder(save_dir, self._step, rank).absolute()
        index = self._indexes[folder] if folder in self._indexes else self._open(folder)
        short = "float32" if dtype == "BFloat16" else dtype.lower()
        file = safe_name(f"{name}_{short}_{number}.npy")
        line = beginning("mindspore.Tensor", dtype, array.shape) + statistics(array)
        if self._task == "md5":
            line += f',"md5":"{digest(array)}"'
        if self._task == "tensor":
            line += f',"data_name":{json.dumps(file)}'
            self._behind.write(str(folder / file), array)
        os.write(index, f'{{"name":{json.dumps(name)},"count":{count},"id":{number},{line[1:]}}}\n'.encode())

    def _open(self, folder: Path) -> int:
        """Begin the index of a folder, and remove what an earlier run left behind there."""
        make_folder(folder)
        index = folder / layout.SAVES
        with suppress(FileNotFoundError):
            for line in index.read_text("ascii", "replace").splitlines():
                with suppress(ValueError, KeyError, TypeError, OSError):
                    file = json.loads(line)["data_name"]
                    if file == os.path.basename(file) and file.endswith(".npy"):
                        (folder / file).unlink()
        opened = os.open(index, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._indexes[folder] = opened
        return opened

    def complete(self) -> None:
        """Wait until everything that was saved is in its file."""
        if os.getpid() == self._pid:
            self._behind.drain()
            for path, why in self._behind.failed.items():
                once(f"save: {why}", f"save: {path} could not be written: {why}; the training goes on")

    def step(self) -> None:
        """What is saved from here on is of the next step."""
        self.complete()
        with self._lock:
            self._step += 1
            self._counts.clear()
            for opened in self._indexes.values():
                os.close(opened)
            self._indexes.clear()


tree = SaveTree()
"""One for the process: the numbers in the names are the process's."""

atexit.register(tree.complete)
