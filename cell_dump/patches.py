"""Framework attributes replaced for a while, and the originals put back.

While a collection is closed nothing of ours is left in the framework: `remove` puts the very objects back that
`install` found, and deletes what a class had only inherited. What others put in place between two collections is
found anew each time.
"""

from collections.abc import Callable
from typing import Any

Make = Callable[[Any], Any]
"""Makes a replacement of an original."""

_INHERITED = object()


class Patches:
    """Attributes that are replaced together and restored together; both directions may be repeated safely."""

    def __init__(self) -> None:
        self._planned: list[_Patch] = []
        self.installed = False

    def add(self, owner: Any, name: str, make: Make) -> None:
        """Plan to replace `owner.name` by what `make` makes of it."""
        self._planned.append(_Patch(owner, name, make))

    def install(self) -> None:
        """Put every replacement in place."""
        if not self.installed:
            self.installed = True
            for patch in self._planned:
                patch.install()

    def remove(self) -> None:
        """Put every original back."""
        if self.installed:
            self.installed = False
            for patch in reversed(self._planned):
                patch.remove()


class _Patch:
    __slots__ = ("make", "name", "original", "owner", "replacement")

    def __init__(self, owner: Any, name: str, make: Make) -> None:
        self.owner, self.name, self.make = owner, name, make
        self.original: Any = None
        self.replacement: Any = None

    def install(self) -> None:
        found = vars(self.owner).get(self.name, _INHERITED)
        if found is not self.original:
            self.original = found
            self.replacement = self.make(_inherited(self.owner, self.name) if found is _INHERITED else found)
        setattr(self.owner, self.name, self.replacement)

    def remove(self) -> None:
        if vars(self.owner).get(self.name) is not self.replacement:
            return  # somebody else stands here by now, perhaps around ours, which passes through while nothing is open
        if self.original is _INHERITED:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


def _inherited(owner: type, name: str) -> Any:
    return next(vars(base)[name] for base in owner.__mro__[1:] if name in vars(base))
