"""One dump as the search reads it: its calls, the modules around them, and the origins of their tensors.

Dumps of this tool contain the source of a tensor. In others, values show it: the last earlier call whose result has
exactly the same statistics, or the same digest. Both work for any difference between the two sides.
"""

from dataclasses import dataclass
from functools import cached_property

from msprobe.compare.core.tensor import Identity, Tensor, source_of, tensor_of
from msprobe.mapping.layers import layers_of
from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, VALUE, Dump

NONE = -1

Chain = tuple[int, ...]
"""A producer and the modules that ended with it, innermost first."""

ALTERNATIVES = 4
"""Number of calls that returned the same values in sequence (a disabled dropout, a cast to the same dtype, a
reshape)."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of one call, and its other arguments."""

    inputs: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    values: tuple[object, ...]


class Side:
    """A dump's calls by position.

    `parents` is the nearest enclosing module call that was collected, NONE at the root. A module inside a layer of the
    framework that is a single layer of the other framework (the cells in which nn.LSTM runs) does not count as a
    module.
    """

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.framework = dump.framework
        self.names, self.parents = dump.names, dump.parents
        self.again = [dump.calls.is_recompute(at) for at in range(len(self.names))]
        self.is_inner = [self._is_inner(at) for at in range(len(self.names))]
        self._tensors: dict[int, Tensors] = {}

    def __len__(self) -> int:
        return len(self.names)

    def tensors(self, at: int) -> Tensors:
        """Return the tensors of a call."""
        if at not in self._tensors:
            self._tensors[at] = self._read(at)
        return self._tensors[at]

    @cached_property
    def forward(self) -> list[int]:
        """Return forward calls in the order in which they ended."""
        return [at for at, name in enumerate(self.names) if name.direction == "forward"]

    @cached_property
    def modules(self) -> list[int]:
        """Return forward calls of modules, without inner parts of layers."""
        return [at for at in self.forward if self.names[at].kind == "cell" and not self.is_inner[at]]

    @cached_property
    def leaves(self) -> list[int]:
        """Return forward calls of modules that call no other module; for those with their own parameters, no other
        module with parameters: a dense layer and the activation passed to it are two."""
        owning = {at for at in self.modules if self.tensors(at).parameters}
        around = self.around - owning
        around |= {outer for at in owning for outer in self.enclosing(at)}
        return [at for at in self.modules if at not in around]

    @cached_property
    def around(self) -> set[int]:
        """Return forward calls that call modules."""
        return {self.outer(at) for at in self.modules}

    @cached_property
    def apis(self) -> list[int]:
        """Return forward calls of functions, methods and primitives."""
        return [at for at in self.forward if self.names[at].kind == "api"]

    def outer(self, at: int) -> int:
        """Return the nearest enclosing module call, without inner parts of layers."""
        parent = self.parents[at]
        while parent != NONE and self.is_inner[parent]:
            parent = self.parents[parent]
        return parent

    def enclosing(self, at: int) -> list[int]:
        """Return all enclosing module calls, innermost first."""
        found: list[int] = []
        parent = self.outer(at)
        while parent != NONE and len(found) < len(self.names):
            found.append(parent)
            parent = self.outer(parent)
        return found

    def class_name(self, at: int) -> str:
        """Return a module's class."""
        return self.names[at].stem.rpartition(".")[2]

    def _is_inner(self, at: int) -> bool:
        parent = self.parents[at]
        if self.names[at].kind != "cell" or parent == NONE:
            return False
        attribute = self.names[at].path[len(self.names[parent].path) + 1 :].partition(".")[0]
        return any(attribute in layer.inner for layer in layers_of(self.class_name(parent)))

    def _read(self, at: int) -> Tensors:
        columns = self.dump.columns
        inputs, parameters, outputs = (
            tuple(
                tensor
                for row in columns.tensors(at, part)
                if columns.shape(row) is not None and (tensor := tensor_of(columns, row))
            )
            for part in (INPUT, PARAMETERS, OUTPUT)
        )
        values = (row for row in columns.rows(at) if columns.part[row] == INPUT and columns.kind[row] == VALUE)
        return Tensors(inputs, parameters, outputs, tuple(columns.values.get(row) for row in values))


class Dataflow:
    """The producers of every forward call's tensors: `made[at][k]` has the chains of possible producers of its k-th
    tensor input, empty if unknown. `constant[at][k]`: no call produced it."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._results: dict[Identity, list[int]] = {}
        # number of functions that returned these values without having them as an input
        self._origins: dict[Identity, int] = {}
        self._lineage: dict[int, tuple[int, ...]] = {}
        self._last_child = {side.outer(at): at for at in side.modules}
        self.made: dict[int, tuple[tuple[Chain, ...], ...]] = {}
        self.constant: dict[int, tuple[bool, ...]] = {}
        for at in side.forward:
            tensors = side.tensors(at)
            inputs = [(tensor.elements, self._producers(at, tensor)) for tensor in tensors.inputs]
            self.made[at] = tuple(tuple(self._chain(made, at, key) for made in found) for key, found in inputs)
            origins = [source_of(tensor.source).origin for tensor in tensors.inputs]
            self.constant[at] = tuple(
                origin == "parameter" or (not found and origin in ("unknown", "leaf") and key not in self._results)
                for origin, (key, found) in zip(origins, inputs, strict=True)
            )
            # The origin of the values of the first result, if it is one of the inputs (a reshape, a cast).
            first = tensors.outputs[0].elements if tensors.outputs else None
            passed = next((found for key, found in inputs if key == first), []) if first is not None else []
            self._lineage[at] = (at, *passed)
            for tensor in tensors.outputs:
                if (key := tensor.elements) is not None:
                    self._results.setdefault(key, []).append(at)
                    is_origin = side.names[at].kind == "api" and not passed
                    self._origins[key] = self._origins.get(key, 0) + is_origin

    def _producers(self, at: int, tensor: Tensor) -> list[int]:
        """Return the recorded source and the calls whose values it passed on; without one, the last calls with these
        values."""
        source = source_of(tensor.source)
        made = self._side.dump.place.get(source.call) if source.part == "output" else None
        if made in self._lineage:
            return list(self._lineage[made][:ALTERNATIVES])
        if source.origin in ("parameter", "leaf"):
            return []
        key = tensor.elements
        results = self._results.get(key, []) if key is not None else []
        if key is not None and len(results) > ALTERNATIVES and self._origins.get(key, 0) > 1:
            return []  # one of many, and the last ones are equally good
        found: list[int] = []
        for made in reversed(results):
            if len(found) == ALTERNATIVES:
                break
            # The input of a module existed before it began, so it was not produced inside.
            is_inside = self._side.names[at].kind == "cell" and at in self._side.enclosing(made)
            if made not in found and not is_inside:
                found.append(made)
        return found

    def _chain(self, producer: int, consumer: int, key: Identity | None) -> Chain:
        side = self._side
        around = set(side.enclosing(consumer))
        inner = [producer]
        while (below := self._same_inside(inner[0])) != NONE:
            inner.insert(0, below)
        for outer in side.enclosing(producer):
            # If values are not distinctive, the result of a module is assumed to be that of its last call.
            is_result = key is None or any(tensor.elements == key for tensor in side.tensors(outer).outputs)
            if outer in around or outer > consumer or not is_result:
                break
            inner.append(outer)
        return tuple(inner)

    def _same_inside(self, at: int) -> int:
        """Return the last module inside a module call whose result is the module's."""
        last = self._last_child.get(at, NONE)
        if last == NONE:
            return NONE
        inner, outer = self._side.tensors(last).outputs, self._side.tensors(at).outputs
        return last if inner and outer and inner[0].values == outer[0].values else NONE
