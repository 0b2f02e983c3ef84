"""Files and folders as a dump needs them: their modes, written whole or not at all, named as a file system accepts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from .errors import UsageError

FOLDER_MODE = 0o750
FILE_MODE = 0o640

# Bytes of one name that every common file system takes.
NAME_LIMIT = 255

# A link that someone laid in the way of a file of ours is refused, not followed.
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


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
