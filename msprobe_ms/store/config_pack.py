"""The configuration of a run as one zip file: its entries, and a reader that does not trust it.

| entry | content |
|---|---|
| `env` | JSON object: variables of the environment |
| `pip` | lines `name=version` |
| `hyperparameters/hyperparameters_static.json`, `..._dynamic.json` | JSON object: settings |
| `dataset/step<N>/rank<R>/dataset.json` | `{"args": {...}, "kwargs": {...}}`, the model's inputs |
| `weights/step<N>/rank<R>/weight.json` | statistics of parameters by name |
| `random/rank<R>.json` | `{op: [{"count": n, "stack": [lines]}]}` |
| `context` | ours: JSON object, what the framework was set to |
| `pack.json` | ours: what wrote the pack, which random functions it counts, and in which places secrets were redacted |

Nothing is ever unpacked to the disk, and no name of an entry becomes a path.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input

from .zip_check import ZipLimits, suspicious

ENV = "env"
PIP = "pip"
CONTEXT = "context"
ABOUT = "pack.json"
HYPERPARAMETERS = "hyperparameters"
STATIC = f"{HYPERPARAMETERS}/hyperparameters_static.json"
DYNAMIC = f"{HYPERPARAMETERS}/hyperparameters_dynamic.json"
REDACTED = "redacted"
"""The member of `pack.json` with the places, by entry, in which something was redacted."""
FORMAT_VERSION = 1

_TENSORS = re.compile(r"(dataset|weights)/step(\d{1,12})/rank(\d{1,9})/(dataset|weight)\.json")
_RANDOM = re.compile(r"random/rank(\d{1,9})\.json")
_SETTINGS = re.compile(rf"{HYPERPARAMETERS}/([^/\\]{{1,200}}\.json)")

_LARGEST_FILE = 10 << 30
_LARGEST_ENTRY = 256 << 20  # of statistics: a line of 200 bytes for each of a million parameters
# JSON of statistics shrinks to a tenth, a file of one repeated byte to a thousandth.
_LIMITS = ZipLimits(entry=_LARGEST_ENTRY, total=16 << 30, entries=1_000_000, ratio=400)
_REMEDY = "pack the configuration again, or copy it again"


def dataset(step: int, rank: int) -> str:
    """Return the entry of what the model was called with."""
    return f"dataset/step{step}/rank{rank}/dataset.json"


def weights(step: int, rank: int) -> str:
    """Return the entry of the parameters before a call."""
    return f"weights/step{step}/rank{rank}/weight.json"


def random(rank: int) -> str:
    """Return the entry of the calls of random functions."""
    return f"random/rank{rank}.json"


def is_random(entry: str) -> bool:
    """Return whether an entry holds the calls of random functions."""
    return _RANDOM.fullmatch(entry) is not None


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where in a run: the number of the model's forward, and the rank."""

    step: int
    rank: int


@dataclass(frozen=True)
class ConfigPack:
    """An open pack. Entries are read when they are asked for; DumpError for what is damaged or of another shape."""

    where: str
    archive: zipfile.ZipFile

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the entries."""
        return frozenset(self.archive.namelist())

    def places(self, kind: str) -> list[Place]:
        """Return where statistics of a kind, `dataset` or `weights`, were taken."""
        found = (_TENSORS.fullmatch(name) for name in self.names)
        return sorted(Place(int(each[2]), int(each[3])) for each in found if each and each[1] == kind)

    @cached_property
    def random_ranks(self) -> list[int]:
        """Return the ranks whose random calls were counted."""
        return sorted(int(found[1]) for name in self.names if (found := _RANDOM.fullmatch(name)))

    @cached_property
    def settings_files(self) -> list[str]:
        """Return the names of the files of settings."""
        return sorted(found[1] for name in self.names if (found := _SETTINGS.fullmatch(name)))

    def text(self, name: str) -> str:
        """Return an entry as text."""
        try:
            with self.archive.open(name) as entry:
                held = entry.read(_LARGEST_ENTRY + 1)
            if len(held) > _LARGEST_ENTRY:
                raise DumpError(f"{self.where}: {name} is larger than {_LARGEST_ENTRY >> 20} MiB; {_REMEDY}")
            return held.decode("utf-8-sig")
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            ValueError,
            NotImplementedError,
            RuntimeError,
        ) as err:
            raise DumpError(f"{self.where}: {name} cannot be read ({err or type(err).__name__}); {_REMEDY}") from err

    def object(self, name: str) -> dict[str, Any]:
        """Return an entry that is a JSON object."""
        try:
            held = json.loads(self.text(name), parse_int=_whole)
        except (ValueError, RecursionError, MemoryError) as err:
            raise DumpError(f"{self.where}: {name} is not valid JSON ({err or type(err).__name__}); {_REMEDY}") from err
        if not isinstance(held, dict):
            raise DumpError(f"{self.where}: {name} is not a JSON object; {_REMEDY}")
        return held

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return the pack's description of itself; empty for a pack of another tool."""
        return self.object(ABOUT) if ABOUT in self.names else {}


def _whole(text: str) -> int | float:
    return int(text) if len(text) < 400 else float(text[:400])


@contextmanager
def opened(path: Path) -> Iterator[ConfigPack]:
    """Open a pack. DumpError if it is missing, is no archive, or is one that no other code who packs makes."""
    try:
        file = open_input(path, _LARGEST_FILE)
    except OSError as err:
        raise DumpError(
            f"{path}: cannot be read ({err.strerror or err}); give a zip of `-d` or of ConfigChecker"
        ) from err
    with file:
        try:
            archive = zipfile.ZipFile(file)
        # zipfile meets foreign bytes with whatever error they happen to lead to.
        except Exception as err:
            text = " ".join(f"{err or type(err).__name__}".split())
            raise DumpError(f"{path}: is not a readable zip file ({text}); {_REMEDY}") from err
        with archive:
            if problem := suspicious(archive, _LIMITS):
                raise DumpError(f"{path}: {problem}; the file is not read")
            pack = ConfigPack(str(path), archive)
            if not any(_is_known(name) for name in pack.names):
                raise DumpError(f"{path}: does not contain a configuration; give a zip of `-d` or of ConfigChecker")
            yield pack


def _is_known(name: str) -> bool:
    patterns = (_TENSORS, _RANDOM, _SETTINGS)
    return name in (ENV, PIP, CONTEXT) or any(pattern.fullmatch(name) for pattern in patterns)
