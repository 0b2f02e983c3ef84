"""One dump as the search reads it: its calls, the modules around them, and where their tensors come from.

A dump of ours records the source of a tensor. Elsewhere the values tell it: the last call before whose result has the
very same statistics, or the same digest. Both work however far the two sides have drifted apart.
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

Chain = tuple[int, ...]
"""A producer and the modules that ended with it, innermost first."""

ALTERNATIVES = 4
"""Calls that gave the same values one after the other (a dropout that is off, a cast to the same dtype, a reshape)."""

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a dump tells of one tensor: shape, the four statistics (NaN where there is none), digest, producer."""

    path: tuple[str, ...]
    shape: tuple[int, ...]
    statistics: tuple[float, float, float, float]
    digest: str
    source: str

    @property
    def key(self) -> Key | None:
        """Equal for tensors of one side that hold the same values in the same shape; None where values say nothing."""
        if self.digest:
            return self.shape, self.digest
        return (self.shape, *self.statistics) if self.says_something else None

    @property
    def loose_key(self) -> Key | None:
        """The same, whatever the shape: of a reshape or a transpose, which not every collector records."""
        key = self.key
        return None if key is None else (math.prod(self.shape), *key[1:])

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
        calls, every = dump.calls, range(len(self.names))
        if isinstance(calls, Calls):
            self.again = [calls.is_recompute(at) for at in every]
            parents = [calls.parent(at) for at in every]
        else:
            self.again, parents = [call.is_recompute for call in calls], [call.parent for call in calls]
        self.parents = [self._enclosing(at, parents[at]) for at in every]
        self.is_inner = [self._is_inner(at) for at in every]
        self._tensors: dict[int, Tensors] = {}

    def __len__(self) -> int:
        return len(self.names)

    def tensors(self, at: int) -> Tensors:
        """The tensors of a call."""
        if at not in self._tensors:
            self._tensors[at] = self._read(at)
        return self._tensors[at]

    @cached_property
    def forward(self) -> list[int]:
        """Forward calls in the order in which they ended."""
        return [at for at, name in enumerate(self.names) if name.direction == "forward"]

    @cached_property
    def modules(self) -> list[int]:
        """Forward calls of modules, without inner parts of layers."""
        return [at for at in self.forward if self.names[at].kind == "cell" and not self.is_inner[at]]

    @cached_property
    def leaves(self) -> list[int]:
        """Forward calls of modules that call no other module; or, having parameters of their own, none that has any: a
        dense layer and the activation that was handed to it are two."""
        owning = {at for at in self.modules if self.tensors(at).parameters}
        around = self.around - owning
        around |= {outer for at in owning for outer in self.enclosing(at)}
        return [at for at in self.modules if at not in around]

    @cached_property
    def around(self) -> set[int]:
        """Forward calls that call modules."""
        return {self.outer(at) for at in self.modules}

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

    def _enclosing(self, at: int, parent: str | None) -> int:
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
            part, kind = columns.part[row], columns.kind[row]
            shape = columns.looks[columns.look[row]][2] if kind == TENSOR else None
            if part in found and shape is not None:
                path, digest, source = columns.paths[columns.path[row]], columns.digest[row], columns.source[row]
                found[part].append(Tensor(path, shape, self._statistics(row), digest, source))
            elif part == _INPUT and kind == VALUE:
                values.append(columns.values.get(row))
        inputs, parameters, outputs = (tuple(found[part]) for part in (_INPUT, _PARAMETERS, _OUTPUT))
        return Tensors(inputs, parameters, outputs, tuple(values))

    def _statistics(self, row: int) -> tuple[float, float, float, float]:
        columns = self.columns
        if row not in columns.odd:
            return columns.max[row], columns.min[row], columns.mean[row], columns.norm[row]
        odd = columns.odd[row]
        numbers = (None,) * 4 if odd is None else (odd.max, odd.min, odd.mean, odd.norm)
        high, low, mean, norm = (_NAN if number is None else float(number) for number in numbers)
        return high, low, mean, norm


class Dataflow:
    """The producers of every forward call's tensors: `made[at][k]` has the chains of those that its k-th tensor input
    may come from, none where that is not known. `constant[at][k]` says that no call made it."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._results: dict[Key, list[int]] = {}
        self._origins: dict[Key, int] = {}  # how many functions gave these values without having them as an input
        self._lineage: dict[int, tuple[int, ...]] = {}
        self._last_child = {side.outer(at): at for at in side.modules}
        self.made: dict[int, tuple[tuple[Chain, ...], ...]] = {}
        self.constant: dict[int, tuple[bool, ...]] = {}
        for at in side.forward:
            tensors = side.tensors(at)
            inputs = [(tensor, tensor.loose_key, self._producers(at, tensor)) for tensor in tensors.inputs]
            self.made[at] = tuple(tuple(self._chain(made, at, key) for made in found) for _, key, found in inputs)
            self.constant[at] = tuple(
                tensor.source.startswith("parameter ")
                or (not found and tensor.source in ("", "leaf") and key not in self._results)
                for tensor, key, found in inputs
            )
            # Where the values of the first result come from, when it is one of the inputs (a reshape, a cast).
            first = tensors.outputs[0].loose_key if tensors.outputs else None
            passed = next((found for _, key, found in inputs if key == first), []) if first is not None else []
            self._lineage[at] = (at, *passed)
            for tensor in tensors.outputs:
                if (key := tensor.loose_key) is not None:
                    self._results.setdefault(key, []).append(at)
                    is_origin = side.names[at].kind == "api" and not passed
                    self._origins[key] = self._origins.get(key, 0) + is_origin

    def _producers(self, at: int, tensor: Tensor) -> list[int]:
        """The recorded source and the calls whose values it passed on; without one, the last calls with these
        values."""
        if tensor.source.startswith("call "):
            source = self._side.at.get(tensor.source[len("call ") :].rpartition(".output")[0], NONE)
            if source in self._lineage:
                return list(self._lineage[source][:ALTERNATIVES])
        elif tensor.source and tensor.source != "code":
            return []
        key = tensor.loose_key
        results = self._results.get(key, []) if key is not None else []
        if key is not None and len(results) > ALTERNATIVES and self._origins.get(key, 0) > 1:
            return []  # one of many, and the last ones are as good as the first
        found: list[int] = []
        for made in reversed(results):
            if len(found) == ALTERNATIVES:
                break
            # The input of a module was there before it began, so it was not made inside.
            is_inside = self._side.names[at].kind == "cell" and at in self._side.enclosing(made)
            if made not in found and not is_inside:
                found.append(made)
        return found

    def _chain(self, producer: int, consumer: int, key: Key | None) -> Chain:
        side = self._side
        around = set(side.enclosing(consumer))
        inner = [producer]
        while (below := self._same_inside(inner[0])) != NONE:
            inner.insert(0, below)
        for outer in side.enclosing(producer):
            # Where values say nothing, the result of a module is believed to be that of its last call.
            is_result = key is None or any(tensor.loose_key == key for tensor in side.tensors(outer).outputs)
            if outer in around or outer > consumer or not is_result:
                break
            inner.append(outer)
        return tuple(inner)

    def _same_inside(self, at: int) -> int:
        """The last module inside a module call whose result is the module's."""
        last = self._last_child.get(at, NONE)
        if last == NONE:
            return NONE
        inner, outer = self._side.tensors(last).outputs, self._side.tensors(at).outputs
        return last if inner and outer and inner[0].key == outer[0].key else NONE
