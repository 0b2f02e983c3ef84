"""Files and folders as a dump needs them: read without waiting for ever, written whole or not at all, named as a file
system accepts."""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, TextIO

from .errors import UsageError

FOLDER_MODE = 0o750
FILE_MODE = 0o640

# Bytes of one name that every common file system takes.
NAME_LIMIT = 255

# A link that someone laid in the way of a file of ours is refused, not followed.
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


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


def open_input(path: str | os.PathLike[str], limit: int | None = None) -> BinaryIO:
    """Open a file for reading that a user or a dump names.

    OSError, whose `strerror` says why, for anything that is no plain file (a pipe waits for ever, a device has no end)
    and for a file of more than `limit` bytes. What was opened is looked at, so nothing can be put in its place between.
    """
    try:
        # Before opening as well: to open a device may already do something.
        _refuse_odd(os.stat(path).st_mode, path)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        number = os.open(path, flags)
    except ValueError as err:  # NUL, or characters that no file system name has
        raise OSError(errno.EINVAL, f"no file can have this name: {err}", path) from err
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
    raise OSError(errno.EISDIR if kind == "folder" else errno.EINVAL, f"it is no plain file but a {kind}", path)


def _too_large(path: str | os.PathLike[str], limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than the {limit >> 20} MiB that such a file may have", path)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, each with mode 0750; what is there already stays as it is.

    FileExistsError where a file stands in the place. Several processes may do this at once.
    """
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except FileExistsError:
        if not folder.is_dir():
            raise


def make_root(root: Path, asked_by: str) -> None:
    """Create the folder that a user named. UsageError, with who asked for it, where that cannot be."""
    try:
        make_folder(root)
    except OSError as cause:
        why = cause.strerror or cause
        raise UsageError(
            f"{asked_by}: {root} cannot be written: {why}; free some space, or choose another dump_path"
        ) from cause


@contextmanager
def replacing(path: Path, writer: str = "") -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends well, and vanishes when it does not.

    Its neighbour `path.part` holds the text until then: whoever reads `path` sees the old file or the new one. Where
    several processes write the same path at once, each names itself by `writer`, and the last one that ends stays.
    """
    part = path.with_name(f"{path.name}{writer}.part")
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINK, FILE_MODE)
    try:
        with open(number, "wb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def safe_name(name: str) -> str:
    """`name` as one component of a path: without `/`, NUL and text that UTF-8 cannot hold, of at most 255 bytes.

    A name that had to be changed ends in a digest of the whole (before its suffix), so that two names never meet in one
    file and the same name gives the same file in every run.
    """
    if len(name) <= NAME_LIMIT and name.isascii() and "/" not in name and "\0" not in name:
        return name
    safe = name.replace("/", "_").replace("\0", "_").encode("utf-8", "replace")
    whole = name.encode("utf-8", "surrogatepass")
    if safe == whole and len(safe) <= NAME_LIMIT:
        return name
    digest = "." + blake2b(whole, digest_size=8).hexdigest()
    suffix = ".npy" if name.endswith(".npy") else ""
    room = NAME_LIMIT - len(digest) - len(suffix)
    return safe[: len(safe) - len(suffix)][:room].decode("utf-8", "ignore") + digest + suffix
