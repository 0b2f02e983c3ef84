"""Files and folders: safe reading of regular files, atomic writing, and valid file names."""

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

# Maximum number of bytes of a file name in common file systems.
NAME_LIMIT = 255

# Flag for `os.open`: symbolic links are not followed when a file is written.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

_PART = re.compile(r"\.[0-9a-f]{8}-[0-9a-f]{8}\.part$")
_LINK_UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)


MAX_CONFIGURATION_BYTES = 64 << 20
"""Maximum size of files with settings, names or rules."""

MAX_TABLE_BYTES = 2 << 30
"""Maximum size of tables and texts that are read line by line: all of it may be one line."""

_KINDS = (
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def user_path(path: str | os.PathLike[str]) -> Path:
    """Return a path from the user with `~` expanded, which the shell does not do in files, `--option=` and calls."""
    return Path(os.path.expanduser(os.fspath(path)))


def open_input(path: str | os.PathLike[str], limit: int | None = None) -> BinaryIO:
    """Open a file that is named by a user or a dump for reading.

    OSError, with the reason in `strerror`, if it is not a regular file (reading a pipe or device may not end) or has
    more than `limit` bytes. The opened file is checked, so that it cannot be replaced in between.
    """
    try:
        # Also before opening, because opening a device may have side effects.
        _check_regular_file(os.stat(path).st_mode, path)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        number = os.open(path, flags)
    except ValueError as err:  # NUL, or characters that cannot be encoded
        raise OSError(errno.EINVAL, f"the file name is invalid: {err}", path) from err
    try:
        state = os.fstat(number)
        _check_regular_file(state.st_mode, path)
        if limit is not None and state.st_size > limit:
            raise _too_large(path, limit)
        return open(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_input(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """Read a file that is named by a user or a dump. OSError as in `open_input`."""
    with open_input(path, limit) as file:
        if limit is None:
            return file.read()
        content = file.read(limit + 1)  # a file may grow, and files in /proc have no size
        if len(content) > limit:
            raise _too_large(path, limit)
        return content


def open_text(path: str | os.PathLike[str], *, errors: str = "replace", newline: str | None = None) -> TextIO:
    """Open a UTF-8 text that is named by a user or a dump, with or without a byte order mark, of at most
    `MAX_TABLE_BYTES`. OSError as in `open_input`."""
    return io.TextIOWrapper(open_input(path, MAX_TABLE_BYTES), encoding="utf-8-sig", errors=errors, newline=newline)


def _check_regular_file(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "something else")
    raise OSError(errno.EISDIR if kind == "folder" else errno.EINVAL, f"it is not a regular file but a {kind}", path)


def _too_large(path: str | os.PathLike[str], limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB, the limit for such files", path)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0750; existing folders are not changed.

    FileExistsError if a file has this name. Several processes may do this at the same time.
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
    """Create the output folder `root`. UsageError, with the name of the caller, if it cannot be created."""
    try:
        make_folder(root)
    except OSError as cause:
        message = cause.strerror or cause
        raise UsageError(
            f"{caller}: {root} cannot be written: {message}; free some space, or choose another dump_path"
        ) from cause


@contextmanager
def writing(path: Path, remedy: str = "give another folder with -o", *, is_new: bool = False) -> Iterator[None]:
    """Raise UsageError with `remedy` if the block raises OSError while it writes the user's file or folder.

    `is_new`: the file must not exist yet, and the error states if it does.
    """
    try:
        yield
    except OSError as err:
        if is_new and isinstance(err, FileExistsError):
            raise _already_exists(path, remedy) from err
        raise UsageError(f"{path}: cannot be written ({err.strerror or err}); {remedy}") from err


def refuse_existing(path: Path, remedy: str) -> None:
    """Raise UsageError if a path exists."""
    if os.path.lexists(path):
        raise _already_exists(path, remedy)


def _already_exists(path: Path, remedy: str) -> UsageError:
    return UsageError(f"{path}: already exists; {remedy}, or remove it")


@contextmanager
def replace_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` atomically when the block ends, and is removed if the block raises.

    Until then it is a file with a unique name in the same folder: readers of `path` see the old or the new file. If
    several processes write the same path, the last one wins.
    """
    with temporary_file(path) as part:
        with open(part.number, "wb", closefd=False) as file:
            yield file
        try:
            os.replace(part.path, path)
        except OSError as err:  # without the temporary name, because equal messages are logged once
            raise OSError(err.errno, err.strerror, os.fspath(path)) from err


@contextmanager
def creating(path: Path) -> Iterator[BinaryIO]:
    """Open a new file as in `replace_atomically`. FileExistsError if `path` exists, even if created during the block.

    Removes temporary files of ended processes from the folder.
    """
    remove_stale_files(path.parent)
    with temporary_file(path) as part:
        with open(part.number, "wb", closefd=False) as file:
            yield file
        try:
            os.link(part.path, path)
        except OSError as err:
            if err.errno not in _LINK_UNSUPPORTED:
                raise
            # A file system without links: create an empty file exclusively, then replace it.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, FILE_MODE))
            os.replace(part.path, path)


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    """A temporary file: its path, and its file descriptor, open for writing."""

    path: Path
    number: int


@contextmanager
def temporary_file(path: Path) -> Iterator[TemporaryFile]:
    """Create a temporary file in the folder of `path`, which is removed after the block unless it was renamed.

    Its name is unique, and it is locked during the block, so that `remove_stale_files` can detect files of ended
    processes.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | NO_FOLLOW
    while True:
        end = f".{_host()}-{os.urandom(4).hex()}.part"
        name = os.fsencode(path.name)[: NAME_LIMIT - len(end)].decode("utf-8", "ignore")
        made = path.with_name(name + end)
        number = os.open(made, flags, FILE_MODE)
        with suppress(OSError):  # no locks on this file system: then stale files are not removed either
            fcntl.flock(number, fcntl.LOCK_EX)
        if os.fstat(number).st_nlink:
            break
        os.close(number)  # removed by another process before it was locked
    try:
        yield TemporaryFile(made, number)
    finally:
        with suppress(OSError):
            os.unlink(made)
        os.close(number)


def remove_stale_files(folder: Path) -> None:
    """Remove the temporary files of killed processes of this machine from a folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if not _PART.search(name) or f".{_host()}-" not in name:
            continue
        path = folder / name
        with suppress(OSError):  # already removed, locked by another process, or no locks on this file system
            number = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | NO_FOLLOW)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(number)


@lru_cache(1)
def _host() -> str:
    """Return an id of this machine for temporary files: locks of other machines may not be visible."""
    import platform  # lazy, as hashlib: not needed for --help
    from hashlib import blake2b

    return blake2b(platform.node().encode("utf-8", "replace"), digest_size=4).hexdigest()


def safe_name(name: str) -> str:
    """Return `name` as a valid file name: without `/`, NUL and lone surrogates, of at most 255 bytes.

    A changed name ends in a digest of the original (before its suffix), so that different names have different files,
    and the same name has the same file in every run.
    """
    if len(name) <= NAME_LIMIT and name.isascii() and "/" not in name and "\0" not in name:
        return name
    safe = name.replace("/", "_").replace("\0", "_").encode("utf-8", "replace")
    whole = name.encode("utf-8", "surrogatepass")
    if safe == whole and len(safe) <= NAME_LIMIT:
        return name
    from hashlib import blake2b  # lazy: rarely needed

    digest = "." + blake2b(whole, digest_size=8).hexdigest()
    suffix = next((each for each in (".npy", ".pt") if name.endswith(each)), "")
    longest = NAME_LIMIT - len(digest) - len(suffix)
    return safe[: len(safe) - len(suffix)][:longest].decode("utf-8", "ignore") + digest + suffix
