"""One dump as the search reads it: its calls, the modules around them, and where their tensors come from.

Where the tensors of a call come from, within one dump.

A dump of ours says it (`source`). Elsewhere it is told by the values: the last call before whose result has the very
same statistics, or the same digest. Both work however far the two sides have drifted apart.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from msprobe.base.names import Name, counterpart, parse
from msprobe.mapping.layers import layers_of
from msprobe.store.record import PARTS, TENSOR, VALUE, Calls, Dump

NONE = -1
_INPUT, _PARAMETERS, _OUTPUT = (PARTS.index(part) for part in ("input", "parameters", "output"))
_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a dump tells of one tensor: shape, the four statistics (NaN where there is none), digest, producer."""

    path: tuple[str, ...]
    shape: tuple[int, ...]
    statistics: tuple[float, float, float, float]
    digest: str
    source: str

    @property
    def says_something(self) -> bool:
        """Whether its values tell it from others: zeros, ones and scalars are everywhere."""
        high, low = self.statistics[:2]
        return high != low and (high == high or bool(self.digest)) and self.shape not in ((), (1,))


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of one call, and its arguments that are none."""

    inputs: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    values: tuple[object, ...]


class Side:
    """A dump's calls by position.

    `parents` is the nearest enclosing module call that was collected, NONE at the root. A module inside a layer of the
    framework that the other framework builds in one piece (the cells in which nn.LSTM runs) counts as no module.
    """

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.framework = dump.framework
        self.columns = dump.columns
        self.names: list[Name] = [parse(name) for name in self.columns.names]
        self.at = {name.text: at for at, name in enumerate(self.names)}
        calls = dump.calls
        quick = calls if isinstance(calls, Calls) else None
        self.again = [quick.is_recompute(at) if quick else calls[at].is_recompute for at in range(len(self.names))]
        self._parent_names = [quick.parent(at) if quick else calls[at].parent for at in range(len(self.names))]
        self.parents = [self._enclosing(at) for at in range(len(self.names))]
        self.is_inner = [self._is_inner(at) for at in range(len(self.names))]
        self._tensors: dict[int, Tensors] = {}

    def __len__(self) -> int:
        return len(self.names)

    def tensors(self, at: int) -> Tensors:
        """The tensors of a call."""
        known = self._tensors.get(at)
        if known is None:
            known = self._tensors[at] = self._read(at)
        return known

    def is_module(self, at: int) -> bool:
        """Whether the call is a module's, and no inner part of a layer."""
        return self.names[at].kind == "cell" and not self.is_inner[at]

    @cached_property
    def forward(self) -> list[int]:
        """Forward calls in the order in which they ended."""
        return [at for at, name in enumerate(self.names) if name.direction == "forward"]

    @cached_property
    def leaves(self) -> list[int]:
        """Forward calls of modules that call no other module; or, having parameters of their own, none that has any: a
        dense layer and the activation that was handed to it are two."""
        modules = [at for at in self.forward if self.is_module(at)]
        owning = {at for at in modules if self.tensors(at).parameters}
        around = self.around - owning
        around |= {outer for at in owning for outer in self.enclosing(at)}
        return [at for at in modules if at not in around]

    @cached_property
    def around(self) -> set[int]:
        """Forward calls that call modules."""
        return {self.outer(at) for at in self.forward if self.is_module(at)}

    @cached_property
    def containers(self) -> list[int]:
        """Forward calls of all other modules."""
        leaves = set(self.leaves)
        return [at for at in self.forward if self.is_module(at) and at not in leaves]

    @cached_property
    def apis(self) -> list[int]:
        """Forward calls of functions, methods and primitives."""
        return [at for at in self.forward if self.names[at].kind == "api"]

    def outer(self, at: int) -> int:
        """The nearest enclosing module call, inner parts of layers passed over."""
        parent = self.parents[at]
        while parent != NONE and self.is_inner[parent]:
            parent = self.parents[parent]
        return parent

    def enclosing(self, at: int) -> list[int]:
        """All enclosing module calls, innermost first."""
        found: list[int] = []
        parent = self.outer(at)
        while parent != NONE and len(found) < len(self.names):
            found.append(parent)
            parent = self.outer(parent)
        return found

    def backward_of(self, at: int) -> int:
        """The position of the backward call of a forward call, NONE without one."""
        return self.at.get(counterpart(self.names[at].text, "backward"), NONE)

    def forward_of(self, at: int) -> int:
        """The position of the forward call of a backward call; its own where it has none."""
        return self.at.get(counterpart(self.names[at].text, "forward"), at)

    def class_name(self, at: int) -> str:
        """A module's class."""
        return self.names[at].stem.rpartition(".")[2]

    def _enclosing(self, at: int) -> int:
        parent = self._parent_names[at]
        for _ in range(100):  # construct.json of others may lead in a circle
            if parent is None:
                return NONE
            if parent in self.at:
                return self.at[parent] if self.at[parent] != at else NONE
            parent = self.dump.construct.get(parent)
        return NONE

    def _is_inner(self, at: int) -> bool:
        parent = self.parents[at]
        if self.names[at].kind != "cell" or parent == NONE:
            return False
        attribute = self.names[at].path[len(self.names[parent].path) + 1 :].partition(".")[0]
        return any(attribute in layer.inner for layer in layers_of(self.class_name(parent)))

    def _read(self, at: int) -> Tensors:
        columns = self.columns
        found: dict[int, list[Tensor]] = {_INPUT: [], _PARAMETERS: [], _OUTPUT: []}
        values: list[object] = []
        for row in range(columns.starts[at], columns.starts[at + 1]):
            part = columns.part[row]
            if part not in found:
                continue
            if columns.kind[row] == TENSOR:
                shape = columns.looks[columns.look[row]][2]
                if shape is not None:
                    found[part].append(
                        Tensor(
                            columns.paths[columns.path[row]],
                            shape,
                            self._statistics(row),
                            columns.digest[row],
                            columns.source[row],
                        )
                    )
            elif columns.kind[row] == VALUE and part == _INPUT:
                values.append(columns.values.get(row))
        return Tensors(tuple(found[_INPUT]), tuple(found[_PARAMETERS]), tuple(found[_OUTPUT]), tuple(values))

    def _statistics(self, row: int) -> tuple[float, float, float, float]:
        columns = self.columns
        if row not in columns.odd:
            return columns.max[row], columns.min[row], columns.mean[row], columns.norm[row]
        told = columns.odd[row]
        if told is None:
            return _NAN, _NAN, _NAN, _NAN
        high, low, mean, norm = (
            _NAN if number is None else float(number) for number in (told.max, told.min, told.mean, told.norm)
        )
        return high, low, mean, norm


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
