"""Memory: how much may still be allocated, and Python's garbage collector paused."""

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the garbage collector: everything made in the block lives on, and walking it again takes half the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_UNKNOWN = 1 << 30
"""Where the available memory is unknown: less than every machine that trains has."""

_SMALL = 1 << 20
"""Bytes that fit always; to ask what is free costs as much as to read them."""

_MEMINFO = Path("/proc/meminfo")
_CONTROL = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes that can be allocated without swapping: of the machine, or what a container has left of its share."""
    kilobytes = _number(_MEMINFO, r"^MemAvailable:\s*(\d+)")
    machine = None if kilobytes is None else kilobytes * 1024
    found = [size for size in (machine, _of_container()) if size is not None]
    return max(min(found, default=_UNKNOWN), 0)


def must_fit(file: BinaryIO, path: object) -> None:
    """MemoryError for an open file that is larger than the available memory, before any of it is read.

    A file with holes may claim any size, and would be read piece by piece until the machine has no more.
    """
    size = os.fstat(file.fileno()).st_size
    if size > _SMALL and size > (free := available()):
        raise MemoryError(f"{path}: {size} bytes do not fit into the free memory of this machine ({free} bytes)")


def _of_container() -> int | None:
    """The limit of the control group, in its second or first version, less what is used and cannot be given back."""
    for folder, limit, used, cache in (
        (_CONTROL, "memory.max", "memory.current", "inactive_file"),
        (_CONTROL / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, now = _number(folder / limit, r"^(\d+)"), _number(folder / used, r"^(\d+)")
        if most is not None and now is not None:
            return most - now + (_number(folder / "memory.stat", rf"^{cache} (\d+)") or 0)
    return None


def _number(file: Path, pattern: str) -> int | None:
    try:
        found = re.search(pattern, file.read_text("ascii"), re.MULTILINE)
    except (OSError, ValueError):  # no such file on this kernel, or none for us
        return None
    return int(found[1]) if found else None
