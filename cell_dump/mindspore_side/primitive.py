"""Primitive objects that cells hold, `self.matmul = ops.MatMul()`: their calls, as `Primitive.matmul.MatMul.0.forward`.

Many layers compute with such objects and never touch a function of `mindspore.ops`. All objects with the same
attribute name and class share one number. `__call__` of their classes is replaced while a collection is open.
"""

from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any
from weakref import finalize, ref

from msprobe.base.patches import Patches
from msprobe.cell_dump.recorded import Current, Stems


class PrimitiveCalls:
    """Sees the calls of the primitives of the given models while its patches are installed."""

    def __init__(self, current: Current) -> None:
        self._current = current
        self._stems: dict[int, str] = {}
        self._owners: set[type] = set()
        self._models: list[ref[Any]] = []

    def add(self, roots: list[Any], patches: Patches, wanted: Stems = None) -> None:
        """Take in the primitives of models, also of their roots, whose stem is `wanted`.

        Each model is looked at once, and not kept alive. An object that several cells hold goes by the first attribute
        found.
        """
        self._models = [known for known in self._models if known() is not None]
        for root in roots:
            if any(known() is root for known in self._models):
                continue
            self._models.append(ref(root))
            for stem, primitive in held_by(root):
                if wanted is None or stem in wanted:
                    self._add(stem, primitive, patches)

    def _add(self, stem: str, primitive: Any, patches: Patches) -> None:
        if id(primitive) in self._stems:
            return
        self._stems[id(primitive)] = stem
        finalize(primitive, self._stems.pop, id(primitive), None).atexit = False
        owner = next(c for c in type(primitive).__mro__ if "__call__" in vars(c))
        if owner not in self._owners:
            self._owners.add(owner)
            patches.add(owner, "__call__", self._wrap)

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        stems, current = self._stems, self._current

        @wraps(original)
        def __call__(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            stem = stems.get(id(primitive))
            if stem is None or (session := current()) is None or not session.listens():
                return original(primitive, *args, **kwargs)
            return session.call_api(stem, partial(original, primitive), args, kwargs)

        return __call__


def held_by(root: Any) -> Iterable[tuple[str, Any]]:
    """The primitives that a model's cells hold, with the stems of their calls."""
    for _, cell in root.cells_and_names():
        for attribute, primitive in cell._primitives.items():
            if primitive is not None:
                yield f"Primitive.{attribute}.{type(primitive).__name__}", primitive
