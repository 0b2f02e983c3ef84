"""One process at a time writes a dump: who holds the journal's lock is at work on it.

The lock goes with the process, however it ends, so a journal that nobody holds was left behind.
"""

import errno
import fcntl
import os
import stat
from pathlib import Path

from msprobe.base.files import FILE_MODE, NO_LINK

# File systems without locks (some mounts of Lustre, NFS without its lock service): we work unguarded there.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def claim(journal: Path, create: bool) -> int | None:
    """Open a journal for reading and appending and hold it; None where another process holds it.

    FileNotFoundError without `create`. Closing the descriptor lets go.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | NO_LINK | (os.O_CREAT if create else 0)
    while True:
        number = os.open(journal, flags, FILE_MODE)
        if not stat.S_ISREG(os.fstat(number).st_mode):  # reading a pipe would wait for ever
            os.close(number)
            raise OSError(errno.EINVAL, "it is no plain file", journal)
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
            return number
        # Its last holder finished and removed it between our opening and our locking.
        os.close(number)
