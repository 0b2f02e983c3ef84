"""Framework attributes replaced for a while, and the originals put back.

While a collection is closed nothing of ours is left in the framework: `remove` puts the very objects back that
`install` found, and deletes what a class had only inherited. What others replace between two collections is
found anew each time.
"""

from collections.abc import Callable, Iterator
from itertools import repeat
from operator import is_
from types import ModuleType
from typing import Any, Protocol
from weakref import ref

Make = Callable[[Any], Any]
"""Makes a replacement of an original."""

INHERITED = object()
"""Found where an owner inherits an attribute."""


class Installable(Protocol):
    """Something that is put in place and taken out again; both may be repeated safely."""

    def install(self) -> None: ...
    def remove(self) -> None: ...


class Removable(Installable, Protocol):
    """An `Installable` that tells whether it is in place."""

    @property
    def installed(self) -> bool: ...


class Handle(Protocol):
    """A hook of a framework that can be taken off again."""

    def remove(self) -> Any: ...


class Patches:
    """Attributes that are replaced together and restored together; both directions may be repeated safely."""

    def __init__(self) -> None:
        self._planned: dict[int, PatchGroup] = {}
        self._joined: list[Installable] = []
        self.installed = False

    def add(self, owner: Any, name: str, make: Make) -> "Patch":
        """Plan to replace `owner.name` by what `make` makes of it."""
        patch = Patch(owner, name, make)
        self._planned.setdefault(id(owner), PatchGroup(owner)).add(patch)
        return patch

    def join(self, other: Installable) -> None:
        """Have something else installed after every attribute was replaced, and removed before."""
        self._joined.append(other)

    def discard(self, patch: "Patch") -> None:
        """Restore the original of a patch, and forget the patch."""
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
            self.installed = False  # not before: what an interrupt leaves in place is taken out by the next call

    def __iter__(self) -> Iterator["Patch"]:
        return (patch for together in self._planned.values() for patch in together)


class Place(Installable, Protocol):
    """A variable by name, with its values outside (`original`) and inside (`replacement`) of a collection."""

    name: str

    @property
    def original(self) -> Any: ...
    @property
    def replacement(self) -> Any: ...


def matches(owner: Any, found: dict[str, Any], inherited: Any) -> bool:
    """Return whether each attribute of a module or class has the value that `found` says; what is `inherited` stands in
    none of its own."""
    return all(map(is_, map(vars(owner).get, found, repeat(inherited)), found.values()))


def swap(owner: Any, found: dict[str, Any], wanted: dict[str, Any], inherited: Any) -> bool:
    """Give the attributes of a module or class the values `wanted`, if each of them has the one that `found` says, and
    say whether; what is `inherited` stands in none of its own."""
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
    """Places of one owner. They are replaced together if they are as the last time left them: looked at one by one, at
    every step of a training, they would cost milliseconds.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = ref(owner) if isinstance(owner, (ModuleType, type)) else None
        self._places: list[Any] = []
        self._outside: dict[str, Any] = {}
        self._inside: dict[str, Any] = {}

    def add(self, place: Place) -> None:
        self._places.append(place)
        self._inside = {}

    def discard(self, place: Place) -> None:
        self._places.remove(place)
        self._inside = {}

    def install(self) -> None:
        if self._swap(self._outside, self._inside):
            return
        for place in self._places:
            place.install()
        if self._owner is not None:
            self._outside = {place.name: place.original for place in self._places}
            self._inside = {place.name: place.replacement for place in self._places}
            is_module = isinstance(self._owner(), ModuleType)
            if len(self._inside) < len(self._places) or (is_module and INHERITED in self._outside.values()):
                self._inside = {}

    def remove(self) -> None:
        if not self._swap(self._inside, self._outside):
            for place in reversed(self._places):
                place.remove()

    def _swap(self, found: dict[str, Any], wanted: dict[str, Any]) -> bool:
        owner = self._owner() if self._owner is not None and self._inside else None
        return owner is not None and swap(owner, found, wanted, INHERITED)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._places)


class Patch:
    """One attribute: `original` and `replacement` are what the last `install` found and put in its place."""

    __slots__ = ("_make", "name", "original", "owner", "replacement")

    def __init__(self, owner: Any, name: str, make: Make) -> None:
        self.owner, self.name, self._make = owner, name, make
        self.original: Any = None
        self.replacement: Any = None

    def install(self) -> None:
        """Put the replacement in place; it is made anew only of another original than last time."""
        found = vars(self.owner).get(self.name, INHERITED)
        if found is self.replacement is not None:
            return
        if found is not self.original:
            self.original = found
            self.replacement = self._make(inherited(self.owner, self.name) if found is INHERITED else found)
        setattr(self.owner, self.name, self.replacement)

    def remove(self) -> None:
        """Put the original back, unless somebody else replaced ours meanwhile, perhaps by a wrapper around it: ours
        passes through while nothing is collected."""
        if self.replacement is None or vars(self.owner).get(self.name) is not self.replacement:
            return
        if self.original is INHERITED:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


def inherited(owner: Any, name: str) -> Any:
    """Return the attribute that an owner inherits, or makes on request."""
    if isinstance(owner, ModuleType):  # it makes its variables when they are asked for
        return getattr(owner, name)
    return next(vars(base)[name] for base in owner.__mro__[1:] if name in vars(base))
