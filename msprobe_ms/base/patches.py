"""Temporary replacement of framework attributes.

After `remove` the framework has its original objects: it restores the objects that `install` found, and deletes
attributes that a class had only inherited. Attributes that other libraries replace between two collections are looked
up again each time.
"""

from collections.abc import Callable, Iterator
from itertools import repeat
from operator import is_
from types import ModuleType
from typing import Any, Protocol
from weakref import ref

Make = Callable[[Any], Any]
"""Function from an original to its replacement."""

INHERITED = object()
"""Marks an attribute that the owner inherits."""


class Installable(Protocol):
    """An object that can be installed and removed; both are idempotent."""

    def install(self) -> None: ...
    def remove(self) -> None: ...


class Removable(Installable, Protocol):
    """An `Installable` with its state."""

    @property
    def installed(self) -> bool: ...


class Handle(Protocol):
    """A handle of a framework's hook."""

    def remove(self) -> Any: ...


class Patches:
    """Attributes that are replaced together and restored together; both are idempotent."""

    def __init__(self) -> None:
        self._planned: dict[int, PatchGroup] = {}
        self._joined: list[Installable] = []
        self.installed = False

    def add(self, owner: Any, name: str, make: Make) -> "Patch":
        """Add a patch that replaces `owner.name` by `make(original)`."""
        patch = Patch(owner, name, make)
        self._planned.setdefault(id(owner), PatchGroup(owner)).add(patch)
        return patch

    def join(self, other: Installable) -> None:
        """Add another object, which is installed after the attributes and removed before them."""
        self._joined.append(other)

    def discard(self, patch: "Patch") -> None:
        """Restore the original of a patch, and remove the patch from the group."""
        patch.remove()
        self._planned[id(patch.owner)].discard(patch)

    def install(self) -> None:
        if not self.installed:
            self.installed = True
            for each in (*self._planned.values(), *self._joined):
                each.install()

    def remove(self) -> None:
        if self.installed:
            for each in reversed((*self._planned.values(), *self._joined)):
                each.remove()
            self.installed = False  # last: after an interrupt the next call removes the rest

    def __iter__(self) -> Iterator["Patch"]:
        return (patch for group in self._planned.values() for patch in group)


class Place(Installable, Protocol):
    """A named attribute with its original and its replacement."""

    name: str

    @property
    def original(self) -> Any: ...
    @property
    def replacement(self) -> Any: ...


def matches(owner: Any, found: dict[str, Any], inherited: Any) -> bool:
    """Return whether each attribute of a module or class has its value in `found`, where `inherited` means that it is
    not in the namespace of the owner."""
    return all(map(is_, map(vars(owner).get, found, repeat(inherited)), found.values()))


def swap(owner: Any, found: dict[str, Any], wanted: dict[str, Any], inherited: Any) -> bool:
    """Set the attributes of a module or class to `wanted` if all of them have their value in `found`; return whether
    they were set. `inherited` means that an attribute is not in the namespace of the owner."""
    namespace = vars(owner)
    if not matches(owner, found, inherited):
        return False
    if isinstance(namespace, dict):
        namespace.update(wanted)
        return True
    for name, value in wanted.items():
        if value is inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    return True


class PatchGroup:
    """Patches of one owner, which are swapped together if the attributes have not changed since the last time.

    Checking them individually would take milliseconds at every step.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = ref(owner) if isinstance(owner, (ModuleType, type)) else None
        self._places: list[Any] = []
        self._originals: dict[str, Any] = {}
        self._replacements: dict[str, Any] = {}

    def add(self, place: Place) -> None:
        self._places.append(place)
        self._replacements = {}

    def discard(self, place: Place) -> None:
        self._places.remove(place)
        self._replacements = {}

    def install(self) -> None:
        if self._swap(self._originals, self._replacements):
            return
        for place in self._places:
            place.install()
        if self._owner is not None:
            originals = {place.name: place.original for place in self._places}
            replacements = {place.name: place.replacement for place in self._places}
            is_module = isinstance(self._owner(), ModuleType)
            if len(replacements) < len(self._places) or (is_module and INHERITED in originals.values()):
                replacements = {}
            self._originals, self._replacements = originals, replacements  # together, as in `Patch.install`

    def remove(self) -> None:
        if not self._swap(self._replacements, self._originals):
            for place in reversed(self._places):
                place.remove()

    def _swap(self, found: dict[str, Any], wanted: dict[str, Any]) -> bool:
        owner = self._owner() if self._owner is not None and self._replacements else None
        return owner is not None and swap(owner, found, wanted, INHERITED)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._places)


class Patch:
    """A patch of one attribute, with the original and replacement of the last `install`."""

    __slots__ = ("_make", "name", "original", "owner", "replacement")

    def __init__(self, owner: Any, name: str, make: Make) -> None:
        self.owner, self.name, self._make = owner, name, make
        self.original: Any = None
        self.replacement: Any = None

    def install(self) -> None:
        """Set the replacement, which is created again only if the original has changed."""
        found = vars(self.owner).get(self.name, INHERITED)
        if found is self.replacement is not None:
            return
        if found is not self.original:
            made = self._make(inherited(self.owner, self.name) if found is INHERITED else found)
            self.replacement, self.original = made, found  # together: an interrupt may come while it is made
        setattr(self.owner, self.name, self.replacement)

    def remove(self) -> None:
        """Restore the original, unless another library has replaced the attribute in the meantime, for example by a
        wrapper of the replacement, which has no effect outside of a collection."""
        if self.replacement is None or vars(self.owner).get(self.name) is not self.replacement:
            return
        if self.original is INHERITED:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


def inherited(owner: Any, name: str) -> Any:
    """Return the attribute that a class inherits, or that a module creates in `__getattr__`."""
    if isinstance(owner, ModuleType):  # the module has a `__getattr__`
        return getattr(owner, name)
    return next(vars(base)[name] for base in owner.__mro__[1:] if name in vars(base))
