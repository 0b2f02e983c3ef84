"""The function names of an older dump, so that a new one numbers and names its outermost calls as that one did.

Tools differ in which functions they know. Where this one knows an outer function that the other did not, it records
that one and nothing inside; with the names of the golden dump it sees what the other saw.
"""

from collections.abc import Iterable
from pathlib import Path

from msprobe.base.errors import DumpError, SettingsError
from msprobe.base.names import parse
from msprobe.store import layout
from msprobe.store.read import read


def stems_of(path: "str | Path", rank: str = "") -> frozenset[str]:
    """The stems of all functions, primitives and `@jit` calls in a dump.

    `path` is a dump.json, the folder of a rank, of a step, or a whole dump, of which the first step is taken; among
    several ranks the one whose folder is called `rank`, else the first. SettingsError where nothing can be read, or
    the dump names no function.
    """
    try:
        dump = read(_folder(Path(path), rank), structure=True)
    except (DumpError, OSError) as cause:
        raise SettingsError(f"names_from: {cause}") from cause
    names = map(parse, (*(call.name for call in dump.calls), *dump.construct))
    stems = frozenset(name.stem for name in names if name.kind == "api")
    if not stems:
        raise SettingsError(
            f"names_from: {dump.where} (level {dump.level or 'unknown'}) names no functions; "
            "give a dump of level L1 or mix, or leave names_from out"
        )
    return stems


def _folder(path: Path, rank: str) -> Path:
    """The folder of one rank, where `path` holds several steps or ranks; otherwise `path` itself."""
    path = _first((f for f in _inner(path) if layout.step_number(f.name) is not None), layout.step_number) or path
    ranks = [folder for folder in _inner(path) if layout.rank_number(folder.name) is not None]
    same = [folder for folder in ranks if folder.name == rank]
    return _first(same or ranks, layout.rank_number) or path


def _inner(path: Path) -> list[Path]:
    return [entry for entry in path.iterdir() if entry.is_dir()] if path.is_dir() else []


def _first(folders: Iterable[Path], number: "object") -> Path | None:
    return min(folders, key=lambda folder: (number(folder.name), folder.name), default=None)  # type: ignore[operator]
