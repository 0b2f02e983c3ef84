"""Which functions are collected: the framework's, those that the user registers, or those that an older dump names.

Tools differ in which functions they know. Where this one knows an outer function that the other did not, it records
that one and nothing inside; with the names of the golden dump it sees what the other saw, and numbers it alike.

The registry of the user's functions is of the whole process; what it holds at a `start` is collected from there on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from inspect import getattr_static
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from msprobe.base.errors import DumpError, SettingsError, UsageError
from msprobe.base.framework import AnyModule
from msprobe.base.in_place import InPlace, Place
from msprobe.base.names import parse
from msprobe.base.patches import Patches
from msprobe.store import layout
from msprobe.store.reader import read

from .call_sites import CallSites, Name, Users
from .collective import Collectives
from .wrappers import Current, Stems, recorded


def stems_of(path: "str | Path", rank: str = "") -> frozenset[str]:
    """Return the stems of all functions, primitives and `@jit` calls in a dump.

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
            f"names_from: {dump.where} (level {dump.level or 'unknown'}) contains no functions; give a dump of "
            "level L1 or mix, or omit names_from"
        )
    return stems


def _folder(path: Path, rank: str) -> Path:
    """Return the folder of one rank, where `path` holds several steps or ranks; otherwise `path` itself."""
    path = next(iter(_numbered(path, layout.step_number)), path)
    ranks = _numbered(path, layout.rank_number)
    return next((folder for folder in ranks if folder.name == rank), ranks[0] if ranks else path)


def _numbered(path: Path, number: Callable[[str], int | None]) -> list[Path]:
    """Return the folders in `path` whose names have a number, by that number."""
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
    for the same function only changes the prefix. Raises UsageError if this cannot be meant.
    """
    label = "register_custom_api()"
    if not isinstance(api, str):
        raise UsageError(f"{label}: api must be the name of a function, not {api!r}; pass its name as a string")
    if api_prefix is not None and (not isinstance(api_prefix, str) or not api_prefix):
        raise UsageError(
            f"{label}: api_prefix of {api!r} must be a string, not {api_prefix!r}; pass a string, or omit it"
        )
    if not isinstance(module, (ModuleType, type)):
        raise UsageError(
            f"{label}: {api!r} must belong to a module or a class, not to {type(module).__name__}; pass its module"
        )
    function = getattr_static(module, api, None)
    if function is None or not callable(getattr(module, api)) or isinstance(function, type):
        what = "has no function" if function is None else "has an attribute that is not a function:"
        raise UsageError(f"{label}: {module.__name__} {what} {api!r}; check the name")
    _registered[id(module), api] = Custom(module, api, f"{api_prefix or module.__name__ or 'Custom'}.{api}")


def restore_custom_api(module: Any, api: str) -> None:
    """Collect `module.api` no longer, from the next `start` on. UsageError if it was not registered."""
    if _registered.pop((id(module), api), None) is None:
        where = getattr(module, "__name__", type(module).__name__)
        known = ", ".join(f"{c.owner.__name__}.{c.name}" for c in _registered.values()) or "nothing"
        raise UsageError(f"restore_custom_api(): {where}.{api} is not registered; registered: {known}")


COLLECTIVE = ("Distributed", "MintDistributed")
"""Prefixes of functions that exchange tensors between ranks; their calls are recorded in a way of their own."""


def _method_for(stem: str) -> str:
    """Return the method of a session that records calls of this stem."""
    return "call_collective" if stem.partition(".")[0] in COLLECTIVE else "call_api"


def recorded_by_name(
    names: tuple[Name, ...], sites: CallSites, frames: int, current: Current, original: Callable[..., Any]
) -> Callable[..., Any]:
    """Return `original`, whose outermost calls a session records under the name by which it is called."""
    stem_of = sites.stem_of
    methods = {each.stem: _method_for(each.stem) for each in names if each.stem is not None}

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        session = current()
        # what a recorded function calls comes here most often
        if session is None or session.busy or not session.listens():
            return original(*args, **kwargs)
        stem = stem_of(names, frames)
        if stem is None:
            return original(*args, **kwargs)
        return getattr(session, methods[stem])(stem, original, args, kwargs)

    return call


class FunctionCalls:
    """The functions of one collector. They are changed in place and restored with its patches.

    A framework's subclass knows which functions there are, and what else is collected with them.
    """

    users: ClassVar[Users]
    """Which modules of the framework call its functions as users do."""
    tensor: ClassVar[type]
    """The class of tensors; its methods are seen whoever calls them."""
    collectives: ClassVar[Collectives]
    other_stems: ClassVar[tuple[str, ...]] = ()
    """How stems begin that stand in no list of functions, and are collected all the same."""
    golden: ClassVar[str]
    """Whose dumps name functions of this framework, for the user."""

    def __init__(self, current: Current, patches: Patches) -> None:
        self._current, self._patches = current, patches
        self._in_place = InPlace(self._recorded)
        self._sites = CallSites(self.users)
        self._customs: dict[Custom, Place] = {}
        self._wanted: Stems = None
        self._planned = False

    def plan(self, roots: list[AnyModule], names_from: str = "", rank: str = "") -> None:
        """Plan patches for the current functions, before each `start`, while nothing is installed.

        `roots` are the models. With `names_from`, the path of a golden dump, only what that one names is collected, its
        rank `rank` if it has several.
        """
        if not self._planned:
            self._wanted = self._named(names_from, rank) if names_from else None
            self._planned = True
            self.collectives.plan(self._current, self._patches)
            self._plan_functions()
            self._plan_memory()
            self._patches.join(self._in_place)
        if roots:
            self._take_in(roots)
        self._follow_registry()

    @staticmethod
    def functions() -> Iterator[tuple[Any, str, str]]:
        """Return the collected functions: (owner of the attribute, its name, stem of the calls' names)."""
        raise NotImplementedError

    @property
    def replaced(self) -> list[tuple[Any, str]]:
        """Return owner and name of each function that is another object while it is collected, as of the last time."""
        return [(place.owner, place.name) for place in self._in_place.replaced]

    def _plan_functions(self) -> None:
        """Plan to record every function whose stem is wanted; of one with several names the others are known, too."""
        every = list(self.functions())
        wanted = [self._wants(*each) for each in every]
        others = [(owner, name) for (owner, name, _), is_wanted in zip(every, wanted, strict=True) if is_wanted]
        known = {id(_shown(owner, name)) for owner, name in others}
        for (owner, name, stem), is_wanted in zip(every, wanted, strict=True):
            if is_wanted or (owner is not self.tensor and id(_shown(owner, name)) in known):
                self._in_place.add(owner, name, stem if is_wanted else None, inherits=owner is self.tensor)

    def _plan_memory(self) -> None:
        """Plan to track uninitialized memory that is returned by functions that are not recorded."""

    def _wants(self, owner: Any, name: str, stem: str) -> bool:
        """Return whether the calls of a function by this name are recorded."""
        return self._wanted is None or stem in self._wanted

    def _follow_registry(self) -> None:
        """Plan the functions that the user has registered, as far as they are to be collected, and no other functions
        of the user."""
        now = {custom for custom in _registered.values() if self._wanted is None or custom.stem in self._wanted}
        for custom in [each for each in self._customs if each not in now]:
            self._in_place.discard(self._customs.pop(custom))
        for custom in sorted(now.difference(self._customs), key=lambda each: each.stem):
            self._customs[custom] = self._in_place.add(custom.owner, custom.name, custom.stem)

    def _recorded(self, original: Callable[..., Any], places: list[Place], frames: int | None) -> Callable[..., Any]:
        """Return what is called instead of a function that has these public names."""
        # functions that the user registered come last, and override the framework's list for the same name
        by_name = {(id(each.owner), each.name): Name(each.owner, each.name, each.data) for each in places}
        names = tuple(by_name.values())
        if frames is None or any(each.owner is self.tensor for each in names):
            stem = names[-1].stem
            assert stem is not None
            return recorded(stem, self._current, original, method=_method_for(stem))
        return recorded_by_name(names, self._sites, frames, self._current, original)

    def _take_in(self, roots: list[AnyModule]) -> None:
        """Take in what these cells or modules hold."""

    def _named(self, path: str, rank: str) -> frozenset[str]:
        stems = stems_of(path, rank)
        known = (stem for *_, stem in self.functions())
        if stems.isdisjoint(known) and not any(stem.startswith(self.other_stems) for stem in stems):
            raise SettingsError(
                f"names_from: {path}: none of its {len(stems)} functions exists here; give a dump of {self.golden}"
            )
        return stems


def _shown(owner: Any, name: str) -> Any:
    return getattr_static(owner, name, None) if isinstance(owner, type) else getattr(owner, name, None)


_NEVER = object()


class Dispatch:
    """A mode of the framework that sees each operation, entered while calls are recorded, by the thread that computes.

    `innermost` returns the mode that was entered last. The mode's `is_active` says whether it is in place.
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
        self._mode.is_active = True

    def remove(self) -> None:
        """Leave the mode; inside a mode of the user it stays below that one, and only passes operations on."""
        self._mode.is_active = False
        if self._entered is None and self._before is not _NEVER and self._innermost() != self._before:
            self._entered = self._innermost()  # an interrupt came when the mode was entered and before that was noted
        self._before = _NEVER
        if self._entered is not None and self._innermost() == self._entered:
            self._mode.__exit__(None, None, None)
            self._entered = None
