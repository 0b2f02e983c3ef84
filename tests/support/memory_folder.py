"""Print a folder in memory for the temporary files of the tests, or nothing if there is none that is large enough.

Where their many small files are on a disk, the tests wait for it.
"""

import os
import shutil
from pathlib import Path

FOLDER = Path("/dev/shm")

NEEDED = 8 << 30
"""Bytes that the folder and the memory must have left. Measured: the files of `make test` take 3 GB."""


def available():
    """Bytes of memory that new processes can have; 0 if that is not known."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def folder():
    """The folder, or an empty text."""
    try:
        left = min(shutil.disk_usage(FOLDER).free, available())
        is_executable = not os.statvfs(FOLDER).f_flag & os.ST_NOEXEC  # extensions are built and loaded there
    except (OSError, AttributeError):
        return ""
    return str(FOLDER) if left >= NEEDED and is_executable and os.access(FOLDER, os.W_OK | os.X_OK) else ""


if __name__ == "__main__":
    print(folder())
