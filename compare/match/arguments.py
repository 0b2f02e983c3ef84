"""What an argument means in the other framework's words, and why one side alone has a record."""

from collections.abc import Hashable, Iterator, Mapping, Sequence

from msprobe.base.names import Name
from msprobe.compare.reason import Reason, Why
from msprobe.mapping.correspondence import Correspondence
from msprobe.store.columns import NULL, TENSOR, VALUE
from msprobe.store.record import Dump

from .alone import equal_values, listed_alone
from .item import Item, Joined, shape_of, tells_inner_nodes
from .pairs import Alone

AXES = frozenset(["dim", "dims", "axis", "axes", "dim0", "dim1", "start_dim", "end_dim", "normalized_dim"])
"""PyTorch's parameters that say an axis, from the front or from behind."""

_UNKNOWN = object()
_BUFFERS = (("running_mean",), ("running_var",), ("num_batches_tracked",))


class Arguments:
    """Judges what is said of the values of two frameworks' calls, once their records are pairs."""

    def __init__(self, target: Dump, golden: Dump) -> None:
        self._dumps = target, golden
        self._is_ms_target = target.framework == "mindspore"
        self._tells_inner_nodes = any(map(tells_inner_nodes, self._dumps))
        self._is_backward = False

    def judge(
        self, found: Joined, left: Sequence[Item], right: Sequence[Item], pair: Correspondence | None, name: Name
    ) -> None:
        """Enter what is to be said of the values of two calls, of which `name` is the target's."""
        self._is_backward = name.direction == "backward"
        by_row = [{item.row: item for item in items} for items in (left, right)]
        sides: tuple[list[tuple[int, Item]], ...] = ([], [])
        for number, (t, g) in enumerate(found.rows):
            if t is None and g is not None:
                sides[1].append((number, by_row[1][g]))
            elif g is None and t is not None:
                sides[0].append((number, by_row[0][t]))
            elif pair is not None and t is not None and g is not None:
                ms, pt = (by_row[0][t], by_row[1][g]) if self._is_ms_target else (by_row[1][g], by_row[0][t])
                self._mean(number, ms, self._value(pt), self._rank(left), pair, found)
        listed_alone(_told(self._dumps[0], sides[0]), _told(self._dumps[1], sides[1]), found.alone)
        for side, items in enumerate(sides):
            for number, item in items:
                said = self._alone(side, item, pair)
                if said is None and name.kind == "cell" and item.part == "input":
                    said = Alone(Reason(Why.CELL_ARGUMENT))
                if number not in found.alone and said is not None:
                    found.alone[number] = said

    def _value(self, item: Item) -> object:
        """The value of a record of PyTorch's."""
        return self._dumps[1 if self._is_ms_target else 0].columns.values.get(item.row)

    def _rank(self, left: Sequence[Item]) -> int:
        """How many axes the first tensor has that the target's call is given."""
        shapes = (shape_of(self._dumps[0], item) for item in left if item.part == "input")
        return next((len(shape) for shape in shapes if shape is not None), 0)

    def _mean(self, number: int, item: Item, other: object, rank: int, pair: Correspondence, found: Joined) -> None:
        """MindSpore's value in PyTorch's words, where those differ."""
        columns = self._dumps[0 if self._is_ms_target else 1].columns
        if columns.kind[item.row] != VALUE or item.part != "input":
            return
        value = columns.values[item.row]
        words: Mapping[object, object] = pair.values.get(item.name, {})
        said = words.get(value, value) if isinstance(value, Hashable) else value
        if item.transform and isinstance(said, int | float) and type(said) is not bool:
            said = item.transform(said) if not item.transform.is_layout else said
        if isinstance(item.key, tuple) and item.key[1][:1] and item.key[1][0] in AXES and type(said) is int:
            said = self._axis(said, other, rank)
        if said is not value:
            found.meant[number] = said

    def _axis(self, said: int, other: object, rank: int) -> int:
        """An axis as the other side counts it, from the front or from behind."""
        if type(other) is int and rank and (said - other) % rank == 0 and max(abs(said), abs(other)) <= rank:
            return other
        return said

    def _alone(self, side: int, item: Item, pair: Correspondence | None) -> Alone | None:
        """Why a record rightly stands alone; None where nothing explains it."""
        columns = self._dumps[side].columns
        is_ms = (side == 0) == self._is_ms_target
        here = "MindSpore" if is_ms else "PyTorch"
        if columns.kind[item.row] == NULL:
            return Alone(Reason(Why.NULL, here))
        if item.part == "output":
            if self._tells_inner_nodes and isinstance(item.key, tuple) and len(item.key) == 3:
                return Alone(Reason(Why.INNER_NODE))
            if item.key is None:
                return Alone(Reason(Why.NO_RESULT, here))
            is_extra = columns.kind[item.row] != TENSOR or item.path[:1] != ("0",)
            return Alone(Reason(Why.NO_RESULT_OF_CALL, here)) if is_extra else None
        if is_ms and item.part == "parameters" and isinstance(item.key, tuple) and item.key[1][:1] in _BUFFERS:
            return Alone(Reason(Why.BUFFER))
        if item.part != "input":
            return None
        if self._is_backward and item.path[:1] != ("0",):
            return Alone(Reason(Why.NO_RESULT_OF_GRADIENT, here))
        is_tensor = columns.kind[item.row] == TENSOR
        value = columns.values.get(item.row)
        if pair is not None and not is_tensor:
            expected = _expected(item, pair, is_ms)
            # A default of None is worked out from the other arguments: the stride of a pooling is the kernel's size.
            if expected is not _UNKNOWN and (expected is None) <= (value is None):
                if equal_values(value, expected):
                    return Alone(Reason(Why.DEFAULT, here))
                return Alone(Reason(Why.OTHER_DEFAULT, here, item.name, target=value, golden=expected), True)
        if item.key is None:
            if pair is None:
                return Alone(Reason(Why.OTHER_WAY))
            return Alone(Reason(Why.NO_ARGUMENT, here))
        return None if is_tensor else Alone(Reason(Why.ONE_ARGUMENT, here))


def _expected(item: Item, pair: Correspondence, is_ms: bool) -> object:
    """The value of an argument at which both sides agree although only one was given it; `_UNKNOWN` without one.

    A dropped argument of MindSpore with the value None may be anything.
    """
    here, there = (pair.dropped, pair.pt_defaults) if is_ms else (pair.inserted, pair.ms_defaults)
    if item.name in here:
        return _UNKNOWN if here[item.name] is None else here[item.name]
    canonical = pair.renamed.get(item.name, item.name) if is_ms else item.name
    if not is_ms:
        back = {to: of for of, to in pair.renamed.items()}
        canonical = back.get(item.name, item.name)
    return there.get(canonical, _UNKNOWN)


def _told(dump: Dump, items: Sequence[tuple[int, Item]]) -> Iterator[tuple[int, tuple[object, ...], object]]:
    """Number, canonical place and value of the values among some records."""
    for number, item in items:
        if dump.columns.kind[item.row] == VALUE and isinstance(item.key, tuple):
            yield number, (item.key[0], *item.key[1]), dump.columns.values[item.row]
