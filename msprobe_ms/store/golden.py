"""Golden files: a run of at most 1 MB that belongs into a repository, with which `msprobe gate check` compares runs
(format.md, page 15).

The file is a zip with a columnar dump for each step and rank, samples of its tensors, and a manifest. Wherever a dump
is read, it represents the folder of the run; it is then unpacked into a temporary folder for the rest of the process.
"""

import atexit
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.files import replace_atomically

from .archive import Archive, write_entries
from .zip_check import ZipLimits

MANIFEST = "golden.json"
DUMP = "dump"
FORMAT_VERSION = 1

MAX_BYTES = 1_000_000
"""Largest golden file that is written."""

ARCHIVE = Archive(
    noun="golden",
    format="msprobe golden",
    version=FORMAT_VERSION,
    manifest=MANIFEST,
    folders=(DUMP,),
    suffixes=(".parquet",),
    limits=ZipLimits(entry=256 << 20, total=1 << 30, entries=100_000, ratio=400),
    largest=64 << 20,
    remedy="obtain the file again, or record it again with `msprobe gate record`",
)

_unpacked: dict[tuple[str, int, int], "TemporaryDirectory[str]"] = {}
"""The temporary folders of this process, by path, time and size of the file; removed at exit."""


def dump_of(path: Path) -> Path:
    """Return the folder of the run in a golden file; DumpError if the file is damaged or malicious."""
    try:
        state = path.stat()
    except OSError as err:
        raise DumpError(f"{path}: cannot be read ({err.strerror or err}); check the path") from err
    key = str(path.absolute()), state.st_mtime_ns, state.st_size
    if key not in _unpacked:
        folder = TemporaryDirectory(prefix="msprobe-golden-")
        try:
            ARCHIVE.unpack(path, Path(folder.name), (DUMP,))
        except BaseException:
            folder.cleanup()
            raise
        _unpacked[key] = folder
        atexit.register(folder.cleanup)
    return Path(_unpacked[key].name) / DUMP


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of a golden file; DumpError if it cannot be read."""
    return ARCHIVE.read_manifest(path)


def write_golden(path: Path, entries: Mapping[str, bytes]) -> None:
    """Write a golden file, whole or not at all; equal entries give equal bytes. OSError if it cannot be written."""
    with replace_atomically(path) as file:
        write_entries(file, entries)
