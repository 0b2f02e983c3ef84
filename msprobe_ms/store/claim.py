"""One process at a time writes a dump: who holds the journal's lock is at work on it.

The lock goes with the process, however it ends, so a journal that nobody holds was left behind.
"""

import errno
import fcntl
import os
import resource
from contextlib import suppress
from pathlib import Path

from msprobe.base.files import FILE_MODE, NO_LINK

# Where our descriptors stand, if so many may be open: code that closes all descriptors and opens files of its own is
# given the lowest numbers that are free, and would else find its file written to, and closed, under a number of ours.
_HIGH = 4000

# File systems without locks (some mounts of Lustre, NFS without its lock service): we work unguarded there.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def claim(journal: Path, create: bool) -> int | None:
    """Open a journal for reading and appending and hold it; None where another process holds it.

    FileNotFoundError without `create`. Closing the descriptor lets go.
    """
    flags = os.O_RDWR | os.O_APPEND | NO_LINK | (os.O_CREAT if create else 0)
    while True:
        number = os.open(journal, flags, FILE_MODE)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            return None
        except OSError as err:
            if err.errno not in _NO_LOCKS:
                os.close(number)
                raise
        if os.fstat(number).st_nlink:
            return _aside(number)
        # Its last holder finished and removed it between our opening and our locking.
        os.close(number)


def identity(number: int) -> tuple[int, int]:
    """Which file a descriptor stands for; OSError where it is closed."""
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def let_go(number: int, known: tuple[int, int]) -> None:
    """Close a descriptor, unless it was closed by somebody else and may be theirs by now."""
    with suppress(OSError):
        if identity(number) == known:
            os.close(number)


def _aside(number: int) -> int:
    """The same open file under a high number; where there is none, the number stays."""
    try:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH if most > 2 * _HIGH or most < 0 else most // 2)
    except OSError:
        return number
    os.close(number)
    return high
