"""The folder that a training will write to: is it writable, has it space, does its file system lock files?"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msprobe.findings.catalogue import readiness as kinds
from msprobe.store.lock import locks
from msprobe.store.run_folder import holds_dumps, register_of

from .finding import Obstacle

LEAST_SPACE = 2**30
"""Bytes: a step of a small network with tensors takes more, and a full disk ends a dump early."""

LEAST_FILES = 10_000
"""Inodes: task `tensor` writes one file per tensor."""


@dataclass(frozen=True)
class Place:
    """A folder that a dump goes to. `there` is the nearest folder on the way to it that exists; `free` bytes, `files`
    inodes (-1 where the file system does not count them).
    """

    path: Path
    there: Path
    free: int
    files: int


def place_of(path: Path) -> Place:
    """What is known of a folder that need not exist. OSError where nothing on the way to it can be asked."""
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    found = os.statvfs(there)
    return Place(path, there, found.f_bavail * found.f_frsize, found.f_favail if found.f_files else -1)


def examine(place: Place, budget: int = 0) -> Iterator[Obstacle]:
    """What is wrong with a place; a file is written there and removed. `budget`: bytes, 0 for none."""
    if not place.there.is_dir():
        yield Obstacle(kinds.NOT_A_FOLDER, str(place.there))
        return
    yield from _trial(place)
    if place.free < LEAST_SPACE:
        yield Obstacle(kinds.LITTLE_SPACE, str(place.there), str(place.free), str(LEAST_SPACE))
    if 0 <= place.files < LEAST_FILES:
        yield Obstacle(kinds.FEW_FILES, str(place.there), str(place.files), str(LEAST_FILES))
    if budget > place.free:
        yield Obstacle(kinds.BUDGET, str(place.there), str(place.free), str(budget))
    if register_of(place.path).exists() or holds_dumps(place.path):
        yield Obstacle(kinds.OTHER_RUN, str(place.path))


def _trial(place: Place) -> Iterator[Obstacle]:
    """Write, lock and rename a file, as a dump does."""
    try:
        with tempfile.TemporaryDirectory(prefix=".msprobe-doctor-", dir=place.there) as folder:
            file = Path(folder, "trial")
            file.write_bytes(b"msprobe")
            file.replace(renamed := file.with_name("renamed"))
            if not locks(renamed):
                yield Obstacle(kinds.NO_LOCKS, str(place.there))
    except OSError as err:
        yield Obstacle(kinds.NOT_WRITABLE, str(place.there), reason=err.strerror or str(err))
