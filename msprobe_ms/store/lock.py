"""File locks: one process at a time writes a dump, or the files of one command.

A lock ends with its process, even if that is killed, so a journal or a claim without a lock is left over.
"""

import errno
import fcntl
import os
import re
import resource
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import FILE_MODE, NO_FOLLOW, make_folder, remove_stale_files

# The number of our descriptors, if so many may be open: code that closes all descriptors and then opens files gets the
# lowest numbers that are free; with a low number of ours we would write to its file, and close it.
_HIGH = 4000
# Of files that are opened again while a journal is open: they must not get its number, which it does not check.
_HIGHER = 6000

# File systems without locks (some mounts of Lustre, NFS without its lock service): we work unguarded there.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def claim(journal: Path, create: bool) -> int | None:
    """Open a journal for reading and appending and lock it; None if another process holds the lock.

    FileNotFoundError without `create`. Closing the descriptor releases the lock.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | NO_FOLLOW | (os.O_CREAT if create else 0)
    while True:
        number = os.open(journal, flags, FILE_MODE)
        if not stat.S_ISREG(os.fstat(number).st_mode):  # reading a pipe would wait for ever
            os.close(number)
            raise OSError(errno.EINVAL, "it is not a regular file", journal)
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
            return with_high_number(number)
        # Its last holder finished and removed it between our opening and our locking.
        os.close(number)


def locks(file: Path) -> bool:
    """Return whether the file system of a file has locks. OSError if the file cannot be opened."""
    number = os.open(file, os.O_RDWR | os.O_CLOEXEC | NO_FOLLOW)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        if err.errno not in _NO_LOCKS:
            raise
        return False
    finally:
        os.close(number)
    return True


class HeldFile:
    """An open file whose descriptor others may close, as who closes all descriptors of the process does.

    `reopen` then opens it again by `opening`, and `release` closes no descriptor that is somebody else's by now.
    """

    def __init__(self, number: int, opening: Callable[[], int | None]) -> None:
        self.number = number
        """The descriptor; -1 when it was released."""
        self._file, self._opening = _identity(number), opening

    def reopen(self) -> bool:
        """Open the file again where its descriptor was closed. False if it is open, so that it is the disk that
        refused, or where the path leads to another file by now, or another tool holds it.
        """
        with suppress(OSError):
            if _identity(self.number) == self._file:
                return False
        found = self._opening()
        if found is None:
            return False
        if _identity(found) != self._file:
            os.close(found)
            return False
        self.number = found
        return True

    def check(self) -> None:
        """Make sure that the number is this file's; OSError if it is not, and the file cannot be opened again."""
        try:
            if _identity(self.number) == self._file:
                return
        except OSError:  # it was closed; not by `suppress`, which takes longer than the question
            pass
        if not self.reopen():
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def release(self) -> None:
        """Close the file; a second time does nothing."""
        number, self.number = self.number, -1
        with suppress(OSError):
            if _identity(number) == self._file:
                os.close(number)


def _identity(number: int) -> tuple[int, int]:
    """Return device and inode of an open file; OSError if the descriptor is closed."""
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def with_high_number(number: int, is_beside: bool = False) -> int:
    """Return the same open file under a high descriptor; if there is none, the descriptor itself. `is_beside`: it is
    none of a journal."""
    try:
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        least = (_HIGHER if is_beside else _HIGH) if most > 2 * _HIGH or most < 0 else most * (2 + is_beside) // 4
        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:
        return number
    os.close(number)
    return high


_CLAIM = re.compile(r"\.msprobe-(\d{14})\.claim")
_REMEDY = "give another folder with -o"


@contextmanager
def claimed(output: Path, task: str, named: Callable[[str], Iterable[Path]]) -> Iterator[str]:
    """Return the second (`20260131235959`) for the names of a command's files below `output`; no other process gets it.

    `task` is a text that identifies what these files are about, `named` returns the paths of a second. It is the first
    free second from now on; but where a process died at the same task, it is its second: its set of files is completed.
    Temporary files that dead processes left are removed. UsageError if `output` cannot be written.
    """
    digest = blake2b(task.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest().encode()
    is_new = not os.path.lexists(output)
    try:
        make_folder(output)
        second, number = _abandoned_claim(output, digest) or _new_claim(output, digest, named)
        for folder in {output, *(path.parent for path in named(second))}:
            remove_stale_files(folder)
    except OSError as err:
        raise UsageError(f"{output}: cannot be written ({err.strerror or err}); {_REMEDY}") from err
    is_done = False
    try:
        yield second
        is_done = True
    finally:
        # A command that was interrupted, or failed, may be repeated: it continues the set of files that it began.
        if is_done or not any(map(os.path.lexists, named(second))):
            with suppress(OSError):
                os.unlink(_claim_file(output, second))
        os.close(number)
        if is_new and not is_done:
            with suppress(OSError):  # there is something in it
                output.rmdir()


@contextmanager
def exclusive(output: Path, remedy: str = _REMEDY) -> Iterator[None]:
    """Lock a folder whose files have fixed names; UsageError if another process holds it or it cannot be written."""
    path = output / ".msprobe.claim"
    try:
        make_folder(output)
        number = claim(path, create=True)
    except OSError as err:
        raise UsageError(f"{output}: cannot be written ({err.strerror or err}); {remedy}") from err
    if number is None:
        raise UsageError(
            f"{output}: another process is writing its results there; wait until it has ended, or {remedy}"
        )
    try:
        remove_stale_files(output)
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(number)


def _claim_file(output: Path, second: str) -> Path:
    return output / f".msprobe-{second}.claim"


def _abandoned_claim(output: Path, digest: bytes) -> tuple[str, int] | None:
    """Return the second of a process that died at the same task, and its claim, now ours."""
    for name in sorted(os.listdir(output)):
        if not (found := _CLAIM.fullmatch(name)):
            continue
        try:
            number = os.open(output / name, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | NO_FOLLOW)
        except OSError:  # it has just ended, or is no file of ours
            continue
        with suppress(OSError):  # somebody holds the lock; or this file system has no locks
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(number).st_nlink and os.pread(number, len(digest) + 1, 0) == digest:
                return found[1], number
        os.close(number)
    return None


def _new_claim(output: Path, digest: bytes, named: Callable[[str], Iterable[Path]]) -> tuple[str, int]:
    """Return the first free second, and its claim."""
    now = time.time()
    for ahead in count():
        second = time.strftime("%Y%m%d%H%M%S", time.localtime(now + ahead))
        path = _claim_file(output, second)
        if any(map(os.path.lexists, (path, *named(second)))):
            continue
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | NO_FOLLOW, FILE_MODE)
        except FileExistsError:
            continue
        with suppress(OSError):  # a file system without locks: the name alone is the claim
            fcntl.flock(number, fcntl.LOCK_EX)
        # The process that had this second may have ended between our look and our claim.
        if not any(map(os.path.lexists, named(second))):
            os.write(number, digest)
            return second, number
        os.unlink(path)
        os.close(number)
    raise AssertionError("seconds do not end")
