"""Files and folders as a dump needs them: read without waiting for ever, written whole or not at all, named as a file
system accepts."""

import errno
import fcntl
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, TextIO

from .errors import UsageError

FOLDER_MODE = 0o750
FILE_MODE = 0o640

# Bytes of one name that every common file system takes.
NAME_LIMIT = 255

# A link that someone laid in the way of a file of ours is refused, not followed.
NO_LINK = getattr(os, "O_NOFOLLOW", 0)

_PART = re.compile(r"\.[0-9a-f]{8}-[0-9a-f]{8}\.part$")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)


CONFIGURATION = 64 << 20
"""Bytes of the largest file of settings, names or rules that is read."""

TABLE = 2 << 30
"""Bytes of the largest table or text that is read line by line: a line may be all of it."""

_KINDS = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def user_path(path: str | os.PathLike[str]) -> Path:
    """The path that a user wrote, with `~` expanded: no shell does that in a file, behind `--option=` or in a call."""
    return Path(os.path.expanduser(os.fspath(path)))


def open_input(path: str | os.PathLike[str], limit: int | None = None) -> BinaryIO:
    """Open a file for reading that a user or a dump names.

    OSError, whose `strerror` says why, for anything that is no plain file (a pipe waits for ever, a device has no end)
    and for a file of more than `limit` bytes. The opened file is checked, so that it cannot be exchanged in between.
    """
    try:
        # Before opening as well: to open a device may already do something.
        _refuse_odd(os.stat(path).st_mode, path)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        number = os.open(path, flags)
    except ValueError as err:  # NUL, or characters that no file system name has
        raise OSError(errno.EINVAL, f"the file name is invalid: {err}", path) from err
    try:
        state = os.fstat(number)
        _refuse_odd(state.st_mode, path)
        if limit is not None and state.st_size > limit:
            raise _too_large(path, limit)
        return open(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_input(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """All bytes of a file that a user or a dump names; OSError as of `open_input`."""
    with open_input(path, limit) as file:
        if limit is None:
            return file.read()
        found = file.read(limit + 1)  # a file may grow, and some of /proc have no size
        if len(found) > limit:
            raise _too_large(path, limit)
        return found


def open_text(path: str | os.PathLike[str], *, errors: str = "replace", newline: str | None = None) -> TextIO:
    """A text in UTF-8 that a user or a dump names, with or without a byte order mark; OSError as of `open_input`, also
    for more than `TABLE` bytes."""
    return io.TextIOWrapper(open_input(path, TABLE), encoding="utf-8-sig", errors=errors, newline=newline)


def _refuse_odd(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "something else")
    raise OSError(errno.EISDIR if kind == "folder" else errno.EINVAL, f"it is not a regular file but a {kind}", path)


def _too_large(path: str | os.PathLike[str], limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB, the limit for such files", path)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, each with mode 0750; what is there already stays as it is.

    FileExistsError where there is a file of that name. Several processes may do this at once.
    """
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileNotFoundError:
        if folder.parent == folder or str(folder) == os.curdir:  # the working directory was deleted
            raise
        make_folder(folder.parent)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except FileExistsError:
        if not folder.is_dir():
            raise


def make_root(root: Path, caller: str) -> None:
    """Create the folder that a user named. UsageError, with who asked for it, where that cannot be."""
    try:
        make_folder(root)
    except OSError as cause:
        why = cause.strerror or cause
        raise UsageError(
            f"{caller}: {root} cannot be written: {why}; free some space, or choose another dump_path"
        ) from cause


@contextmanager
def writing(path: Path, remedy: str = "give another folder with -o", *, is_new: bool = False) -> Iterator[None]:
    """UsageError, with what to do instead, in the place of an OSError while a file or folder of the user is written.

    `is_new`: of a file that must not exist yet the error says that it does.
    """
    try:
        yield
    except OSError as err:
        if is_new and isinstance(err, FileExistsError):
            raise _taken(path, remedy) from err
        raise UsageError(f"{path}: cannot be written ({err.strerror or err}); {remedy}") from err


def refuse_existing(path: Path, remedy: str) -> None:
    """UsageError where there is anything at a path."""
    if os.path.lexists(path):
        raise _taken(path, remedy)


def _taken(path: Path, remedy: str) -> UsageError:
    return UsageError(f"{path}: already exists; {remedy}, or remove it")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `path` when the block ends well, and is removed when it raises.

    Until then it is a file beside `path` with a unique name: readers of `path` see the old file or the new one, and of
    several processes that write the same path at once the last one wins.
    """
    with part_of(path) as part:
        with open(part.number, "wb", closefd=False) as file:
            yield file
        try:
            os.replace(part.path, path)
        except OSError as err:  # without the temporary name, for messages are logged once
            raise OSError(err.errno, err.strerror, os.fspath(path)) from err


@contextmanager
def creating(path: Path) -> Iterator[BinaryIO]:
    """The same, for a `path` that must not exist yet: FileExistsError where it does, also if it was made meanwhile.

    Temporary files that dead processes left in this folder are removed.
    """
    sweep(path.parent)
    with part_of(path) as part:
        with open(part.number, "wb", closefd=False) as file:
            yield file
        try:
            os.link(part.path, path)
        except OSError as err:
            if err.errno not in _NO_LINKS:
                raise
            # A file system without links: the name is taken by an empty file, and then by ours.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, FILE_MODE))
            os.replace(part.path, path)


@dataclass(frozen=True, slots=True)
class Part:
    """A temporary file: its path, and the number under which it is open for writing."""

    path: Path
    number: int


@contextmanager
def part_of(path: Path) -> Iterator[Part]:
    """A temporary file beside `path`, which is removed after the block unless it was renamed.

    Its name is unique, and it is locked while the block runs: so `sweep` recognises those that were left.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | NO_LINK
    while True:
        end = f".{_host()}-{os.urandom(4).hex()}.part"
        name = os.fsencode(path.name)[: NAME_LIMIT - len(end)].decode("utf-8", "ignore")
        made = path.with_name(name + end)
        number = os.open(made, flags, FILE_MODE)
        with suppress(OSError):  # no locks on this file system: then nothing is swept there either
            fcntl.flock(number, fcntl.LOCK_EX)
        if os.fstat(number).st_nlink:
            break
        os.close(number)  # swept between its creation and our locking
    try:
        yield Part(made, number)
    finally:
        with suppress(OSError):
            os.unlink(made)
        os.close(number)


def sweep(folder: Path) -> None:
    """Remove the temporary files that processes of this machine left in a folder when they were killed."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if not _PART.search(name) or f".{_host()}-" not in name:
            continue
        path = folder / name
        with suppress(OSError):  # it was just removed; or another process holds the lock, or there are no locks
            number = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | NO_LINK)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(number)


@lru_cache(1)
def _host() -> str:
    """Marks the temporary files of this machine: locks of other machines are not seen on every file system."""
    import platform  # here, as `hashlib`: the help of a command needs neither
    from hashlib import blake2b

    return blake2b(platform.node().encode("utf-8", "replace"), digest_size=4).hexdigest()


def safe_name(name: str) -> str:
    """`name` as one component of a path: without `/`, NUL and text that UTF-8 cannot hold, of at most 255 bytes.

    A name that had to be changed ends in a digest of the whole (before its suffix), so that two names never share one
    file and the same name has the same file in every run.
    """
    if len(name) <= NAME_LIMIT and name.isascii() and "/" not in name and "\0" not in name:
        return name
    safe = name.replace("/", "_").replace("\0", "_").encode("utf-8", "replace")
    whole = name.encode("utf-8", "surrogatepass")
    if safe == whole and len(safe) <= NAME_LIMIT:
        return name
    from hashlib import blake2b  # here: few names are so long

    digest = "." + blake2b(whole, digest_size=8).hexdigest()
    suffix = next((each for each in (".npy", ".pt") if name.endswith(each)), "")
    longest = NAME_LIMIT - len(digest) - len(suffix)
    return safe[: len(safe) - len(suffix)][:longest].decode("utf-8", "ignore") + digest + suffix
