"""The functions that are collected: the framework's, and those that the user registers.

The function names of an older dump, so that a new one numbers and names its outermost calls as that one did.

Tools differ in which functions they know. Where this one knows an outer function that the other did not, it records
that one and nothing inside; with the names of the golden dump it sees what the other saw.

Functions that the user registers, to be collected like those of the framework.

The registry is of the whole process; what it holds at a `start` is collected from there on. References to a registered
function that were made before are reached by `references.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import getattr_static
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from msprobe.base.errors import DumpError, SettingsError, UsageError
from msprobe.base.names import parse
from msprobe.base.patches import Patch, Patches
from msprobe.store import layout
from msprobe.store.reader import read

from .alias_patching import Current, References, Stems, Users, recorded


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


@dataclass(frozen=True)
class Custom:
    """A registered function: the module or class that has it, its name there, and the stem of its calls' names."""

    owner: Any
    name: str
    stem: str


_registered: dict[tuple[int, str], Custom] = {}


def register_custom_api(module: Any, api: str, api_prefix: str | None = None) -> None:
    """Collect the calls of `module.api` as `{api_prefix}.{api}.{n}.forward`, from the next `start` on.

    `module` is a module or a class. Without a prefix it is the module's name, or `Custom` for what has none. Once more
    for the same function only changes the prefix. Raises UsageError where this cannot be meant.
    """
    here = "register_custom_api()"
    if not isinstance(api, str):
        raise UsageError(f"{here}: api must be the name of a function, not {api!r}; write its name as text")
    if api_prefix is not None and (not isinstance(api_prefix, str) or not api_prefix):
        raise UsageError(
            f"{here}: api_prefix of {api!r} must be a text, not {api_prefix!r}; write one, or leave it out"
        )
    if not isinstance(module, (ModuleType, type)):
        raise UsageError(
            f"{here}: {api!r} must belong to a module or a class, not to {type(module).__name__}; pass its module"
        )
    function = getattr_static(module, api, None)
    if function is None or not callable(getattr(module, api)) or isinstance(function, type):
        what = "has no function" if function is None else "has something else than a function as"
        raise UsageError(f"{here}: {module.__name__} {what} {api!r}; check the name")
    _registered[id(module), api] = Custom(module, api, f"{api_prefix or module.__name__ or 'Custom'}.{api}")


def restore_custom_api(module: Any, api: str) -> None:
    """Collect `module.api` no longer, from the next `start` on. UsageError where it was not registered."""
    if _registered.pop((id(module), api), None) is None:
        where = getattr(module, "__name__", type(module).__name__)
        known = ", ".join(f"{c.owner.__name__}.{c.name}" for c in _registered.values()) or "nothing"
        raise UsageError(f"restore_custom_api(): {where}.{api} was not registered; registered is {known}")


class CustomCalls:
    """The registered functions as one collector has them patched."""

    def __init__(self, current: Current, patches: Patches, references: References) -> None:
        self._current, self._patches, self._references = current, patches, references
        self._planned: dict[Custom, Patch] = {}

    def update(self, wanted: Stems = None) -> None:
        """Follow the registry, as far as stems are `wanted`; while nothing is installed."""
        now = {custom for custom in _registered.values() if wanted is None or custom.stem in wanted}
        for custom in [c for c in self._planned if c not in now]:
            patch = self._planned.pop(custom)
            self._references.forget(patch)
            self._patches.discard(patch)
        for custom in now.difference(self._planned):
            patch = self._patches.add(custom.owner, custom.name, partial(_recorded, custom.stem, self._current))
            self._planned[custom] = patch
            self._references.follow(patch)


def _recorded(stem: str, current: Current, original: Any) -> Any:
    """As for any function; what a class holds stays the kind of method that it was."""
    if isinstance(original, (staticmethod, classmethod)):
        return type(original)(recorded(stem, current, original.__func__))
    return recorded(stem, current, original)


class FunctionCalls(ABC):
    """The functions of one collector. Their places are taken and given back with its patches."""

    users: ClassVar[Users]
    """Whose modules refer to the framework's functions."""
    other_stems: ClassVar[tuple[str, ...]] = ()
    """How stems begin that stand in no list of functions, and are collected all the same."""
    golden: ClassVar[str]
    """Whose dumps name functions of this framework, for the user."""

    def __init__(self, current: Current, patches: Patches) -> None:
        self._current, self._patches = current, patches
        self._references = References(self.users)
        self._customs = CustomCalls(current, patches, self._references)
        self._wanted: Stems = None
        self._planned = False

    def plan(self, roots: list[Any], names_from: str = "", rank: str = "") -> None:
        """Plan patches for what is there now, before each `start`, while nothing is installed.

        `roots` are cells or modules whose references are taken in, besides those known already. With `names_from`, the
        path of a golden dump, only what that one names is collected, its rank `rank` if it has several.
        """
        if not self._planned:
            self._wanted = self._named(names_from, rank) if names_from else None
            self._planned = True
            for patch in self._functions():
                self._references.follow(patch)
            self._patches.join(self._references)
        if roots:
            self._take_in(roots)
        self._customs.update(self._wanted)

    @abstractmethod
    def _functions(self) -> Iterator[Patch]:
        """Plan the patches of the framework's functions; those that others may refer to are given."""

    @abstractmethod
    def _stems(self) -> Iterable[str]:
        """The stems of all functions that are known."""

    def _take_in(self, roots: list[Any]) -> None:
        """Follow what these cells or modules hold."""
        self._references.add(roots)

    def _named(self, path: str, rank: str) -> frozenset[str]:
        stems = stems_of(path, rank)
        if stems.isdisjoint(self._stems()) and not any(stem.startswith(self.other_stems) for stem in stems):
            raise SettingsError(
                f"names_from: {path}: none of its {len(stems)} functions is known here; give a dump of {self.golden}"
            )
        return stems
