"""Which functions are collected: the framework's, those that the user registers, or those that an older dump names.

Tools differ in which functions they know. Where this one knows an outer function that the other did not, it records
that one and nothing inside; with the names of the golden dump it sees what the other saw, and numbers it alike.

The registry of the user's functions is of the whole process; what it holds at a `start` is collected from there on.
"""

from collections.abc import Callable, Iterator
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

from .alias_patching import Current, References, Stems, Users, recorded, standing_at
from .collective import Collectives


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
    path = next(iter(_numbered(path, layout.step_number)), path)
    ranks = _numbered(path, layout.rank_number)
    return next((folder for folder in ranks if folder.name == rank), ranks[0] if ranks else path)


def _numbered(path: Path, number: Callable[[str], int | None]) -> list[Path]:
    """The folders in `path` whose names have a number, by that number."""
    inner = [entry for entry in path.iterdir() if entry.is_dir()] if path.is_dir() else []
    found = [((n, entry.name), entry) for entry in inner if (n := number(entry.name)) is not None]
    return [entry for _, entry in sorted(found)]


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
    label = "register_custom_api()"
    if not isinstance(api, str):
        raise UsageError(f"{label}: api must be the name of a function, not {api!r}; write its name as text")
    if api_prefix is not None and (not isinstance(api_prefix, str) or not api_prefix):
        raise UsageError(
            f"{label}: api_prefix of {api!r} must be a text, not {api_prefix!r}; write one, or leave it out"
        )
    if not isinstance(module, (ModuleType, type)):
        raise UsageError(
            f"{label}: {api!r} must belong to a module or a class, not to {type(module).__name__}; pass its module"
        )
    function = getattr_static(module, api, None)
    if function is None or not callable(getattr(module, api)) or isinstance(function, type):
        what = "has no function" if function is None else "has something else than a function as"
        raise UsageError(f"{label}: {module.__name__} {what} {api!r}; check the name")
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


COLLECTIVE = ("Distributed", "MintDistributed")
"""Prefixes of functions that exchange tensors between ranks; their calls are recorded in a way of their own."""


class FunctionCalls:
    """The functions of one collector. They are replaced and restored with its patches.

    A framework's subclass knows which functions there are, and what else is collected with them.
    """

    users: ClassVar[Users]
    """Whose modules refer to the framework's functions."""
    tensor: ClassVar[type]
    """The class of tensors; references to its methods are not followed."""
    collectives: ClassVar[Collectives]
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
            self.collectives.plan(self._current, self._patches)
            self._plan_functions()
            self._patches.join(self._references)
        if roots:
            self._take_in(roots)
        self._customs.update(self._wanted)

    @staticmethod
    def functions() -> Iterator[tuple[Any, str, str]]:
        """What is collected: (owner of the attribute, its name, stem of the calls' names)."""
        raise NotImplementedError

    def _plan_functions(self) -> None:
        """Plan a patch for every function whose stem is wanted."""
        for owner, name, stem in self.functions():
            if self._wanted is None or stem in self._wanted:
                self._plan_function(owner, name, stem)

    def _plan_function(self, owner: Any, name: str, stem: str) -> None:
        patch = self._replace(owner, name, stem)
        if owner is not self.tensor:
            self._references.follow(patch)

    def _replace(self, owner: Any, name: str, stem: str) -> Patch:
        method = "call_collective" if stem.partition(".")[0] in COLLECTIVE else "call_api"
        make = partial(recorded, stem, self._current, method=method)
        return self._patches.add(owner, name, partial(standing_at, owner, name, make))

    def _take_in(self, roots: list[Any]) -> None:
        """Follow what these cells or modules hold."""
        self._references.add(roots)

    def _named(self, path: str, rank: str) -> frozenset[str]:
        stems = stems_of(path, rank)
        known = (stem for *_, stem in self.functions())
        if stems.isdisjoint(known) and not any(stem.startswith(self.other_stems) for stem in stems):
            raise SettingsError(
                f"names_from: {path}: none of its {len(stems)} functions is known here; give a dump of {self.golden}"
            )
        return stems


_NEVER = object()


class Dispatch:
    """A mode of the framework that sees each operation, entered while a collection is open; to be joined to patches.

    `innermost` returns the mode that was entered last.
    """

    def __init__(self, mode: Any, innermost: Callable[[], Any]) -> None:
        self._mode, self._innermost = mode, innermost
        self._entered: Any = None
        self._before: Any = _NEVER
        """The innermost mode when ours was about to be entered."""

    def install(self) -> None:
        """Enter the mode, unless it could not be left last time."""
        if self._entered is None:
            self._before = self._innermost()
            self._mode.__enter__()
            self._entered = self._innermost()

    def remove(self) -> None:
        """Leave the mode; where the user is inside a mode of his own, ours stays below it and does nothing."""
        if self._entered is None and self._before is not _NEVER and self._innermost() != self._before:
            self._entered = self._innermost()  # an interrupt came when the mode was entered and before that was noted
        self._before = _NEVER
        if self._entered is not None and self._innermost() == self._entered:
            self._mode.__exit__(None, None, None)
            self._entered = None
