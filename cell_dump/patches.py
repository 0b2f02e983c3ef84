"""Framework attributes replaced for a while, and the originals put back.

One table keeps every original. While a collection is closed nothing of ours is left in the framework: `remove` puts the very
objects back, and deletes what the class had only inherited.
"""

from typing import Any

_INHERITED = object()


class Patches:
    """Attributes that are replaced together and restored together; both directions may be repeated safely."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str, Any, Any]] = []
        self.installed = False

    def add(self, owner: Any, name: str, replacement: Any) -> None:
        """Plan to replace `owner.name`; what stands there now is what `remove` will put back."""
        original = vars(owner).get(name, _INHERITED)
        self._wanted.append((owner, name, original, replacement))

    def install(self) -> None:
        """Put every replacement in place."""
        if self.installed:
            return
        for owner, name, _, replacement in self._wanted:
            setattr(owner, name, replacement)
        self.installed = True

    def remove(self) -> None:
        """Put every original back."""
        if not self.installed:
            return
        for owner, name, original, _ in reversed(self._wanted):
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self.installed = False

    def __len__(self) -> int:
        return len(self._wanted)
