"""One dump as the search sees it: its calls, what encloses them, and the tensors that go in and come out."""

from dataclasses import dataclass
from functools import cached_property

from msprobe.base.names import Name, counterpart, parse
from msprobe.mapping.layers import layers_of
from msprobe.store.columns import PARTS, TENSOR, VALUE, Calls
from msprobe.store.record import Dump

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
