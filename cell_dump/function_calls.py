"""What is collected besides cells, of any framework: its functions, and those that the user registers (L1 and mix)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from msprobe.base.errors import SettingsError
from msprobe.base.patches import Patch, Patches

from .custom import CustomCalls
from .golden import stems_of
from .recorded import Current, Stems
from .references import References, Users


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
