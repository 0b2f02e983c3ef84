"""Where the tensors of a call come from, within one dump.

A dump of ours says it (`source`). Elsewhere it is told by the values: the last call before whose result has the very
same statistics, or the same digest. Both work however far the two sides have drifted apart.
"""

import math

from .side import NONE, Side, Tensor, Tensors

Chain = tuple[int, ...]
"""A producer and the modules that ended with it, innermost first."""

ALTERNATIVES = 4
"""Calls that gave the same values one after the other (a dropout that is off, a cast to the same dtype, a reshape)."""

Key = tuple[object, ...]
"""Equal for tensors of one side that hold the same values in the same shape."""


class Flow:
    """The producers of every forward call's tensors: `made[at][k]` has the chains of those that its k-th tensor input
    may come from, none where that is not known. `constant[at][k]` says that no call made it."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._results: dict[Key, list[int]] = {}
        self._origins: dict[Key, int] = {}  # how many functions gave these values without being given them
        self._lineage: dict[int, tuple[int, ...]] = {}
        self.made: dict[int, tuple[tuple[Chain, ...], ...]] = {}
        self.constant: dict[int, tuple[bool, ...]] = {}
        for at in side.forward:
            tensors = side.tensors(at)
            producers = [self._producers(at, tensor) for tensor in tensors.inputs]
            self.made[at] = tuple(
                tuple(self._chain(made, at, loose_key(tensor)) for made in found)
                for found, tensor in zip(producers, tensors.inputs, strict=True)
            )
            self.constant[at] = tuple(
                tensor.source.startswith("parameter ")
                or (not found and tensor.source in ("", "leaf") and loose_key(tensor) not in self._results)
                for found, tensor in zip(producers, tensors.inputs, strict=True)
            )
            handed_on = self._handed_on(tensors, producers)
            self._lineage[at] = (at, *handed_on)
            for tensor in tensors.outputs:
                if (key := loose_key(tensor)) is not None:
                    self._results.setdefault(key, []).append(at)
                    is_origin = side.names[at].kind == "api" and not handed_on
                    self._origins[key] = self._origins.get(key, 0) + is_origin

    def _producers(self, at: int, tensor: Tensor) -> list[int]:
        """The call that is told and those whose values it handed on; untold, the last ones that gave the values."""
        if tensor.source.startswith("call "):
            name = tensor.source[len("call ") :].rpartition(".output")[0]
            if name in self._side.at and self._side.at[name] in self._lineage:
                return list(self._lineage[self._side.at[name]][:ALTERNATIVES])
        elif tensor.source and tensor.source != "code":
            return []
        found: list[int] = []
        key = loose_key(tensor)
        results = self._results.get(key, []) if key is not None else []
        if key is not None and len(results) > ALTERNATIVES and self._origins.get(key, 0) > 1:
            return []  # one of many, and the last ones are as good as the first
        for made in reversed(results):
            if len(found) == ALTERNATIVES:
                break
            if made not in found and not self._is_inside(made, at):
                found.append(made)
        return found

    @staticmethod
    def _handed_on(tensors: Tensors, producers: list[list[int]]) -> list[int]:
        """Where the values of a call's first result come from, when it gives what it is given (a reshape, a cast)."""
        key = loose_key(tensors.outputs[0]) if tensors.outputs else None
        if key is None:
            return []
        same = (found for tensor, found in zip(tensors.inputs, producers, strict=True) if loose_key(tensor) == key)
        return next(same, [])

    def _is_inside(self, made: int, at: int) -> bool:
        """Whether a call ran inside a module: what a module is given was there before it began."""
        return self._side.names[at].kind == "cell" and at in self._side.enclosing(made)

    def _chain(self, producer: int, consumer: int, key: Key | None) -> Chain:
        side = self._side
        around = set(side.enclosing(consumer))
        inner = [producer]
        while (below := self._same_inside(inner[0])) != NONE:
            inner.insert(0, below)
        for outer in side.enclosing(producer):
            if outer in around or outer > consumer or not self._gives(outer, key):
                break
            inner.append(outer)
        return tuple(inner)

    def _gives(self, module: int, key: Key | None) -> bool:
        """Whether a tensor is a result of a module that its producer ran in; believed where values say nothing."""
        return key is None or any(loose_key(tensor) == key for tensor in self._side.tensors(module).outputs)

    def _same_inside(self, at: int) -> int:
        """The last module inside a module call whose result is the module's."""
        side = self._side
        last = self._last_child.get(at, NONE)
        if last == NONE or not side.tensors(last).outputs or not side.tensors(at).outputs:
            return NONE
        return last if value_key(side.tensors(last).outputs[0]) == value_key(side.tensors(at).outputs[0]) else NONE

    @property
    def _last_child(self) -> dict[int, int]:
        if not hasattr(self, "_children"):
            self._children = {self._side.outer(at): at for at in self._side.forward if self._side.is_module(at)}
        return self._children


def loose_key(tensor: Tensor) -> Key | None:
    """The same, whatever the shape: of a reshape or a transpose, which not every collector records."""
    key = value_key(tensor)
    return None if key is None else (math.prod(tensor.shape), *key[1:])


def value_key(tensor: Tensor) -> Key | None:
    """What tells a tensor's values from others; None where they say nothing."""
    if tensor.digest:
        return tensor.shape, tensor.digest
    return (tensor.shape, *tensor.statistics) if tensor.says_something else None
