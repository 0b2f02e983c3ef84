"""Bundles: two dumps, the options and the answer of a comparison in one zip file (format.md, page 14).

`msprobe bundle` writes them, `msprobe compare`, `report` and `diagnose` read them. The file is not trusted: what is odd
is refused, entries are unpacked piece by piece into a temporary folder, each by its checked name, and nothing is
unpickled. From there the sides are read as any dump.
"""

import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from msprobe.base.errors import DumpError, SettingsError, UsageError
from msprobe.base.files import open_input
from msprobe.base.log import logger, terminal_line
from msprobe.options.declaration import OptionGroup, declared

from .zip_check import ZipLimits, suspicious

FORMAT = "msprobe bundle"
FORMAT_VERSION = 1
SUFFIX = ".zip"
MANIFEST = "bundle.json"
SIDES = ("target", "golden")
OPTIONS = "options"
ANSWER = "answer"

FLAGS = ("fuzzy_match",)
TEXTS = ("rank", "step", "noise")
LISTS = ("ignore", "atol", "rtol", "rank_size", "tp", "pp", "vpp", "order")
MAPPINGS = ("api_mapping", "cell_mapping", "layer_mapping", "data_mapping")
STORED = (*FLAGS, *TEXTS, *LISTS, *MAPPINGS)
"""The options of `msprobe compare` that change a verdict, by their names in a bundle."""

FIELDS = {"fuzzy_match": "fuzzy", "rank": "ranks", "step": "steps"}
"""The names of options, where those in a bundle are older ones."""

_Options = TypeVar("_Options", bound=OptionGroup)

LIMITS = ZipLimits(entry=16 << 30, total=64 << 30, entries=1_000_000, ratio=400)
"""What is read, and therefore written: an entry that shrinks further is stored as it is."""

_LARGEST_FILE = 64 << 30
_LARGEST_MANIFEST = 16 << 20
_RESERVE = 64 << 20  # bytes of a disk that are left free
_PIECE = 1 << 20
_MAX_DEPTH = 16
_SUFFIXES = (".json", ".jsonl", ".npy", ".csv", ".yaml", ".journal", ".txt")
_COMPONENT = re.compile(r"[^/\\\0]{1,255}")
_REMEDY = "obtain the file again, or pack it again with `msprobe bundle`"


def has_manifest(path: Path) -> bool:
    """Return whether a file is a zip with a `bundle.json`; False for anything that cannot be read."""
    try:
        with open_input(path) as file, zipfile.ZipFile(file) as archive:
            return MANIFEST in archive.namelist()
    except Exception:  # zipfile meets foreign bytes with whatever error they happen to lead to
        return False


@dataclass(frozen=True)
class Bundle:
    """An unpacked bundle: the file, both sides in the temporary folder, the options, and its `bundle.json`."""

    file: Path
    target: Path
    golden: Path
    options: dict[str, Any]
    about: dict[str, Any]

    def filled(self, options: _Options) -> _Options:
        """Return the options of a command with those that are stored, except for what the command line gives itself.

        Options that the command does not have are logged: its answer may differ.
        """
        known = declared(type(options))
        stored = {}
        for name, words in self.options.items():
            each = known.get(field := FIELDS.get(name, name))
            if each is None:
                logger.warning("%s: was packed with --%s, which this command does not have; ignored", self.file, name)
            elif getattr(options, field) == each.default:
                stored[name] = words
        return with_stored(options, stored)


def with_stored(options: _Options, stored: Mapping[str, Any]) -> _Options:
    """Return the options with values as `stored_of` gives them; UsageError for an invalid one."""
    known = declared(type(options))
    values = {}
    for name, words in stored.items():
        field = FIELDS.get(name, name)
        try:
            values[field] = known[field].kind.read(words)
        except SettingsError as err:
            raise UsageError(f"{known[field].label}: {err}") from err
    return replace(options, **values)


def stored_of(options: OptionGroup) -> dict[str, Any]:
    """Return the options that change a verdict and are not at their default, as the words of a command line."""
    known = declared(type(options))
    found = {}
    for name in STORED:
        each, value = known[FIELDS.get(name, name)], getattr(options, FIELDS.get(name, name))
        if value != each.default:
            found[name] = each.given(value)
    return found


@contextmanager
def unpacked(path: Path) -> Iterator[Bundle]:
    """Unpack a bundle into a temporary folder, which is removed after the block.

    DumpError if it is damaged, of a later version, or malicious; UsageError if the disk is full.
    """
    with TemporaryDirectory(prefix="msprobe-bundle-") as temporary:
        folder = Path(temporary)
        with _opened(path) as archive:
            about = _manifest(path, archive)
            _unpack(path, archive, folder)
        target, golden = (_side(path, folder, about, side) for side in SIDES)
        options = _options(path, folder, about.get("options"))
        logger.info("%s: %s", terminal_line(str(path)), terminal_line(_said_of(about)))
        yield Bundle(path, target, golden, options, about)


def _said_of(about: dict[str, Any]) -> str:
    """Return who made a bundle, and the last line of the answer that was given there."""
    answer = about.get("answer")
    lines = answer.get("lines") if isinstance(answer, dict) else None
    last = lines[-1] if isinstance(lines, list) and lines else "none"
    return f"packed by {about.get('tool') or 'an unknown version'}, with the result: {last}"


def _side(path: Path, folder: Path, about: dict[str, Any], side: str) -> Path:
    """Return where a side is, which `bundle.json` tells as a path below the folder of the side."""
    sides = about.get("sides")
    entry = sides.get(side) if isinstance(sides, dict) else None
    within = entry.get("path") if isinstance(entry, dict) else None
    if not isinstance(within, str) or within.startswith("/") or ".." in within.split("/"):
        raise DumpError(f"{path}: {MANIFEST} does not have the path of the {side}; {_REMEDY}")
    found = folder / side / within
    if not found.exists():
        raise DumpError(f"{path}: has no entry {side}/{within}; {_REMEDY}")
    return found


def _options(path: Path, folder: Path, held: object) -> dict[str, Any]:
    """Return the options as argparse gives them; DumpError for anything that `msprobe bundle` does not write."""
    found: dict[str, Any] = {}
    for name, value in held.items() if isinstance(held, dict) else ():
        if name in (*MAPPINGS, "noise") and isinstance(value, dict):
            file = value.get("file")
            if (
                isinstance(file, str)
                and re.fullmatch(rf"{OPTIONS}/\w+\.(yaml|json)", file)
                and (folder / file).is_file()
            ):
                found[name] = str(folder / file)
                continue
        is_valid = (
            (name in (*FLAGS, *MAPPINGS) and value is True)
            # `noise` is a path otherwise, and a stranger's file does not choose what is read here.
            or (name in TEXTS and isinstance(value, str) and (name != "noise" or value in ("auto", "exact")))
            or (name in LISTS and isinstance(value, list) and all(isinstance(each, str) for each in value))
        )
        if not is_valid:
            raise DumpError(f"{path}: {MANIFEST}: option {str(name)[:40]!r} has an invalid value; {_REMEDY}")
        found[name] = value
    return found


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        file = open_input(path, _LARGEST_FILE)
    except OSError as err:
        raise DumpError(f"{path}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    with file:
        try:
            archive = zipfile.ZipFile(file)
        except Exception as err:  # as in `has_manifest`
            text = " ".join(f"{err or type(err).__name__}".split())
            raise DumpError(f"{path}: is not a readable zip file ({text}); {_REMEDY}") from err
        with archive:
            packed = sum(entry.compress_size for entry in archive.infolist())
            problem = suspicious(archive, LIMITS) or next(
                (f"entry {e.filename!r} {odd}" for e in archive.infolist() if (odd := _odd(e.filename))), ""
            )
            if not problem and packed > os.fstat(file.fileno()).st_size:
                problem = "has entries that overlap"
            if problem:
                raise DumpError(f"{path}: {problem}; the file is not read, obtain it again")
            yield archive


def _odd(name: str) -> str:
    """Return what is wrong with the name of an entry of a bundle; empty for nothing."""
    parts = name.removesuffix("/").split("/")
    if len(parts) > _MAX_DEPTH or not all(_COMPONENT.fullmatch(part) and part != "." for part in parts):
        return "has a name that is not a valid path of a bundle"
    if name == MANIFEST:
        return ""
    if len(parts) < 2 or parts[0] not in (*SIDES, OPTIONS, ANSWER):
        return f"is not part of a bundle, which has {MANIFEST}, {', '.join((*SIDES, OPTIONS, ANSWER))}"
    is_folder = name.endswith("/")
    return "" if is_folder or name.endswith(_SUFFIXES) else "has a file type that bundles do not contain"


def _unpack(path: Path, archive: zipfile.ZipFile, folder: Path) -> None:
    """Unpack the dumps and the options; the answer is not needed."""
    wanted = [e for e in archive.infolist() if e.filename.split("/")[0] in (*SIDES, OPTIONS)]
    needed, free = sum(entry.file_size for entry in wanted), shutil.disk_usage(folder).free
    if needed > free - _RESERVE:
        raise UsageError(
            f"{path}: unpacks to {needed >> 20} MiB, and {folder.parent} has {free >> 20} MiB free; set TMPDIR to a "
            "folder on a larger disk"
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
                f"{path}: {entry.filename} cannot be unpacked into {folder.parent} ({err.strerror or err}); set TMPDIR "
                "to another folder"
            ) from err
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as err:
            raise DumpError(f"{path}: {entry.filename} is damaged ({err or type(err).__name__}); {_REMEDY}") from err


def _manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise DumpError(f"{path}: has no {MANIFEST}, so it is not a bundle; {_REMEDY}")
    try:
        with archive.open(MANIFEST) as entry:
            content = entry.read(_LARGEST_MANIFEST + 1)
        if len(content) > _LARGEST_MANIFEST:
            raise ValueError(f"it is larger than {_LARGEST_MANIFEST >> 20} MiB")
        about: Any = json.loads(content.decode("utf-8"))
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError("it is not an object of this format")
    except (
        *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError),
        *(MemoryError, RecursionError),
    ) as err:
        raise DumpError(f"{path}: {MANIFEST} cannot be read ({err or type(err).__name__}); {_REMEDY}") from err
    version = about.get("format_version")
    if type(version) is not int or version < 1:
        raise DumpError(f"{path}: {MANIFEST} has no format_version; {_REMEDY}")
    if version > FORMAT_VERSION:
        raise DumpError(
            f"{path}: has format {version}, but this version of msprobe reads up to {FORMAT_VERSION}; install a "
            "newer version"
        )
    return about
