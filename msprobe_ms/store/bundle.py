"""Bundles: two dumps, the options and the answer of a comparison in one zip file (format.md, page 14).

`msprobe bundle` writes them, `msprobe compare`, `report` and `diagnose` read them. The file is not trusted: what is odd
is refused, entries are unpacked piece by piece into a temporary folder, each by its checked name, and nothing is
unpickled. From there the sides are read as any dump.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from msprobe.base.errors import DumpError, SettingsError, UsageError
from msprobe.base.log import logger, terminal_line
from msprobe.options.declaration import OptionGroup, declared

from .archive import Archive
from .zip_check import ZipLimits

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

_REMEDY = "obtain the file again, or pack it again with `msprobe bundle`"

ARCHIVE = Archive(
    noun="bundle",
    format=FORMAT,
    version=FORMAT_VERSION,
    manifest=MANIFEST,
    folders=(*SIDES, OPTIONS, ANSWER),
    suffixes=(".json", ".jsonl", ".npy", ".csv", ".yaml", ".journal", ".txt"),
    limits=LIMITS,
    largest=64 << 30,
    remedy=_REMEDY,
)


def has_manifest(path: Path) -> bool:
    """Return whether a file is a zip with a `bundle.json`; False for anything that cannot be read."""
    return ARCHIVE.is_in(path)


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
        about = ARCHIVE.unpack(path, folder, wanted=(*SIDES, OPTIONS))  # the answer is not needed
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
