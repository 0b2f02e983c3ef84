"""Zip files of unknown origin that contain dumps, with a manifest: what is odd is refused, and entries are unpacked
piece by piece, each by its checked name. Nothing is unpickled.

`bundle` and `golden` are such files.
"""

import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import open_input

from .zip_check import ZipLimits, suspicious

DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all entries: equal inputs give equal bytes."""

_LARGEST_MANIFEST = 16 << 20
_RESERVE = 64 << 20  # bytes of a disk that are left free
_PIECE = 1 << 20
_MAX_DEPTH = 16
_COMPONENT = re.compile(r"[^/\\\0]{1,255}")


@dataclass(frozen=True)
class Archive:
    """A kind of archive.

    noun : its name in messages.
    format, version : the members `format` and `format_version` of the manifest; later versions are refused.
    manifest : the entry that describes the others.
    folders : the folders at the top that it may have.
    suffixes : the types of files in them.
    limits, largest : how large the contents and the file may be.
    remedy : what to do about a damaged file.
    """

    noun: str
    format: str
    version: int
    manifest: str
    folders: Sequence[str]
    suffixes: tuple[str, ...]
    limits: ZipLimits
    largest: int
    remedy: str

    def is_in(self, path: Path) -> bool:
        """Return whether a file is a zip with the manifest; False for anything that cannot be read."""
        try:
            with open_input(path) as file, zipfile.ZipFile(file) as archive:
                return self.manifest in archive.namelist()
        except Exception:  # zipfile meets foreign bytes with whatever error they happen to lead to
            return False

    def read_manifest(self, path: Path) -> dict[str, Any]:
        """Return the manifest of a file; DumpError if it is damaged, of a later version, or malicious."""
        with self._opened(path) as archive:
            return self._manifest(path, archive)

    def unpack(self, path: Path, folder: Path, wanted: Sequence[str]) -> dict[str, Any]:
        """Unpack some of the folders of a file, and return its manifest.

        DumpError if it is damaged, of a later version, or malicious; UsageError if the disk is full.
        """
        with self._opened(path) as archive:
            about = self._manifest(path, archive)
            entries = [e for e in archive.infolist() if e.filename.split("/")[0] in wanted]
            self._unpack(path, archive, folder, entries)
        return about

    @contextmanager
    def _opened(self, path: Path) -> Iterator[zipfile.ZipFile]:
        try:
            file = open_input(path, self.largest)
        except OSError as err:
            raise DumpError(
                f"{path}: cannot be read ({err.strerror or err}); check the path and its permissions"
            ) from err
        with file:
            try:
                archive = zipfile.ZipFile(file)
            except Exception as err:  # as in `is_in`
                text = " ".join(f"{err or type(err).__name__}".split())
                raise DumpError(f"{path}: is not a readable zip file ({text}); {self.remedy}") from err
            with archive:
                packed = sum(entry.compress_size for entry in archive.infolist())
                problem = suspicious(archive, self.limits) or next(
                    (f"entry {e.filename!r} {odd}" for e in archive.infolist() if (odd := self._odd(e.filename))), ""
                )
                if not problem and packed > os.fstat(file.fileno()).st_size:
                    problem = "has entries that overlap"
                if problem:
                    raise DumpError(f"{path}: {problem}; the file is not read, obtain it again")
                yield archive

    def _odd(self, name: str) -> str:
        """Return what is wrong with the name of an entry; empty for nothing."""
        parts = name.removesuffix("/").split("/")
        if len(parts) > _MAX_DEPTH or not all(_COMPONENT.fullmatch(part) and part != "." for part in parts):
            return f"has a name that is not a valid path of a {self.noun}"
        if name == self.manifest:
            return ""
        if len(parts) < 2 or parts[0] not in self.folders:
            return f"is not part of a {self.noun}, which has {self.manifest}, {', '.join(self.folders)}"
        is_folder = name.endswith("/")
        has_type = is_folder or name.endswith(self.suffixes)
        return "" if has_type else f"has a file type that {self.noun}s do not contain"

    def _unpack(self, path: Path, archive: zipfile.ZipFile, folder: Path, wanted: Sequence[zipfile.ZipInfo]) -> None:
        needed, free = sum(entry.file_size for entry in wanted), shutil.disk_usage(folder).free
        if needed > free - _RESERVE:
            raise UsageError(
                f"{path}: unpacks to {needed >> 20} MiB, and {folder.parent} has {free >> 20} MiB free; set TMPDIR to "
                "a folder on a larger disk"
            )
        for entry in wanted:
            into = folder / entry.filename
            try:
                if entry.is_dir():
                    into.mkdir(parents=True, exist_ok=True)
                    continue
                into.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, open(into, "xb") as file:
                    left = entry.file_size
                    while piece := packed.read(_PIECE):
                        left -= len(piece)
                        if left < 0:
                            raise zipfile.BadZipFile("it is longer than its size in the archive")
                        file.write(piece)
            except OSError as err:
                raise UsageError(
                    f"{path}: {entry.filename} cannot be unpacked into {folder.parent} ({err.strerror or err}); set "
                    "TMPDIR to another folder"
                ) from err
            except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as err:
                raise DumpError(
                    f"{path}: {entry.filename} is damaged ({err or type(err).__name__}); {self.remedy}"
                ) from err

    def _manifest(self, path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
        name = self.manifest
        if name not in archive.namelist():
            raise DumpError(f"{path}: has no {name}, so it is not a {self.noun}; {self.remedy}")
        try:
            with archive.open(name) as entry:
                content = entry.read(_LARGEST_MANIFEST + 1)
            if len(content) > _LARGEST_MANIFEST:
                raise ValueError(f"it is larger than {_LARGEST_MANIFEST >> 20} MiB")
            about: Any = json.loads(content.decode("utf-8"))
            if not isinstance(about, dict) or about.get("format") != self.format:
                raise ValueError("it is not an object of this format")
        except (
            *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError),
            *(MemoryError, RecursionError),
        ) as err:
            raise DumpError(f"{path}: {name} cannot be read ({err or type(err).__name__}); {self.remedy}") from err
        version = about.get("format_version")
        if type(version) is not int or version < 1:
            raise DumpError(f"{path}: {name} has no format_version; {self.remedy}")
        if version > self.version:
            raise DumpError(
                f"{path}: has format {version}, but this version of msprobe reads up to {self.version}; install a "
                "newer version"
            )
        return about


def write_entries(file: BinaryIO, entries: Mapping[str, bytes]) -> None:
    """Write a zip with entries in the given order; tables of Parquet are compressed already, and stored as they are."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, DATE)
            info.create_system = 3  # Unix
            info.external_attr = 0o100640 << 16
            if name.endswith(".json"):
                info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
