"""Functions that the user registers, to be collected like those of the framework.

The registry is of the whole process; what it holds at a `start` is collected from there on. References to a registered
function that were made before are reached by `references.py`.
"""

from dataclasses import dataclass
from functools import partial
from inspect import getattr_static
from types import ModuleType
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.patches import Patch, Patches

from .recorded import Current, Stems, recorded
from .references import References


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
