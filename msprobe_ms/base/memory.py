"""Memory: available memory, and pausing the garbage collector."""

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def without_gc() -> Iterator[None]:
    """Pause the garbage collector in a block that creates many objects, where it takes half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_DEFAULT_AVAILABLE = 1 << 30
"""Available memory in bytes if it is unknown: less than on machines for training."""

_ALWAYS_FITS = 1 << 20
"""Size in bytes that is not checked: reading it is as fast as determining the available memory."""

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Return the bytes that can be allocated without swapping, on the machine or within the limit of the container."""
    kilobytes = _read_number(_MEMINFO, r"^MemAvailable:\s*(\d+)")
    machine = None if kilobytes is None else kilobytes * 1024
    found = [size for size in (machine, _container_available()) if size is not None]
    return max(min(found, default=_DEFAULT_AVAILABLE), 0)


def check_fits_in_memory(file: BinaryIO, path: object) -> None:
    """Raise MemoryError if an open file is larger than the available memory, before it is read.

    A sparse file may have any size, and reading it would exhaust the memory.
    """
    size = os.fstat(file.fileno()).st_size
    if size > _ALWAYS_FITS and size > (free := available_memory()):
        raise MemoryError(f"{path}: {size} bytes do not fit into the free memory of this machine ({free} bytes)")


def _container_available() -> int | None:
    """Return the limit of the control group (version 2 or 1) minus the used memory that cannot be reclaimed."""
    for folder, limit, used, cache in (
        (_CGROUP, "memory.max", "memory.current", "inactive_file"),
        (_CGROUP / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _read_number(folder / limit, r"^(\d+)"), _read_number(folder / used, r"^(\d+)")
        if most is not None and now is not None:
            return most - now + (_read_number(folder / "memory.stat", rf"^{cache} (\d+)") or 0)
    return None


def _read_number(file: Path, pattern: str) -> int | None:
    try:
        found = re.search(pattern, file.read_text("ascii"), re.MULTILINE)
    except (OSError, ValueError):  # the file does not exist or cannot be read
        return None
    return int(found[1]) if found else None
