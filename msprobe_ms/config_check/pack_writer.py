"""Write a pack while a training runs: every entry is first a file next to the zip, and the zip is created from them.

All ranks of a run write into one folder of entries, `PACK.zip.parts`, which `store.run_folder` tells from those of
other runs. The process that has written an entry creates the zip again, one rank at a time, under a temporary name that
then replaces it: whenever a process is killed there is a whole zip. In a long training it is made when it grew by an
eighth, so that its cost stays in proportion; every rank makes it once more at its end, and the last one removes the
folder.
"""

import atexit
import os
import shutil
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msprobe.base.files import make_folder, read_input, replace_atomically
from msprobe.base.log import logger
from msprobe.store import config_pack
from msprobe.store.layout import RUN
from msprobe.store.lock import claim
from msprobe.store.run_folder import leave, run_folder

_LOCK = "pack.lock"
_ENDED = "ended"  # a folder with an empty file for each rank that has ended
_ENTRIES = (config_pack.ABOUT, config_pack.ENV, config_pack.PIP, config_pack.CONTEXT)
_FOLDERS = (config_pack.HYPERPARAMETERS, "dataset", "weights", "random")

_EVERY = 16  # writes after which each of them creates the zip
_GROWTH = 8  # afterwards an eighth more
_SECONDS = 30.0  # or so much time
_PATIENCE = 20.0  # seconds to wait for another rank, which may be dead on another machine


def write_zip(path: Path, entries: Mapping[str, bytes]) -> None:
    """Write a pack immediately; an existing one is replaced."""
    with replace_atomically(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(_info(name), content)


def _info(name: str) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)  # with a fixed date, so that equal configurations are equal files
    made.external_attr, made.compress_type = 0o640 << 16, zipfile.ZIP_DEFLATED
    return made


class PackWriter:
    """One rank's share of a pack. OSError wherever something cannot be written."""

    def __init__(self, path: Path, rank: int, ranks: int) -> None:
        self.path, self._rank, self._ranks = path.absolute(), rank, ranks
        self._root = self.path.with_name(f"{self.path.name}.parts")
        leave(self._root, self._root)  # a second checker of this process is another run
        began = time.time()
        self._folder = run_folder(self._root, rank).folder
        self._writes = self._unpacked = 0
        self._packed_at = 0.0
        self._pid = os.getpid()
        if rank == 0:
            with suppress(OSError):
                if os.stat(self.path).st_mtime < began - 60:
                    logger.warning("%s already exists; it is overwritten with the configuration of this run", self.path)
        self._at_exit = self.close
        atexit.register(self._at_exit)

    def write(self, entries: Mapping[str, bytes]) -> None:
        """Write entries, and the zip where it is time."""
        for name, content in entries.items():
            path = self._folder / name
            make_folder(path.parent)
            with replace_atomically(path) as file:
                file.write(content)
            self._writes += 1
            self._unpacked += 1
        is_early = self._writes <= _EVERY * 4
        has_grown = self._unpacked * _GROWTH >= self._writes
        if is_early or has_grown or time.monotonic() - self._packed_at > _SECONDS:
            self.pack()

    def pack(self) -> None:
        """Write the zip with the entries that all ranks have written so far."""
        with self._alone():
            self._pack()

    def _pack(self) -> None:
        with (
            replace_atomically(self.path) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            for name in self._names():
                archive.writestr(_info(name), read_input(self._folder / name))
        self._unpacked, self._packed_at = 0, time.monotonic()

    def close(self) -> None:
        """Write the zip a last time; the last rank that ends removes the folder of entries. Never raises."""
        atexit.unregister(self._at_exit)
        if self._pid != os.getpid() or not self._writes:  # a forked child process does not write
            return
        try:
            with self._alone():
                self._pack()
                make_folder(self._folder / _ENDED)
                (self._folder / _ENDED / str(self._rank)).touch()
                if len(os.listdir(self._folder / _ENDED)) >= self._ranks:
                    self._remove()
        except OSError as err:  # a failure of this tool does not stop the training
            logger.warning("%s: may lack the end of the run (%s)", self.path, err.strerror or err)

    def _names(self) -> Iterator[str]:
        yield from (name for name in _ENTRIES if (self._folder / name).is_file())
        for folder in _FOLDERS:
            found = (path for path in (self._folder / folder).rglob("*.json") if path.is_file())
            yield from sorted(path.relative_to(self._folder).as_posix() for path in found)

    def _remove(self) -> None:
        for name in (*_FOLDERS, _ENDED):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for name in (*_ENTRIES, RUN):
            with suppress(OSError):
                (self._folder / name).unlink()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other ranks from packing in a block, if the file system supports locks."""
        path = self._folder / _LOCK
        until = time.monotonic() + _PATIENCE
        while (number := claim(path, create=True)) is None and time.monotonic() < until:
            time.sleep(0.005)
        try:
            yield
        finally:
            if number is not None:
                if not (self._folder / RUN).exists():
                    with suppress(OSError):  # everything is removed
                        path.unlink()
                os.close(number)
                for folder in (self._folder, self._root):
                    with suppress(OSError):  # it is not empty
                        folder.rmdir()
