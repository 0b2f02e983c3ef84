"""Match the records of a pair of calls in two frameworks: other argument names, order, layout and nesting.

The two operands of a call whose result is the same in either order: `y * weight` here is `weight * y` there.

The first of these that tells the two orders apart decides: what the operands look like, where they come from, what
values they hold. Where nothing does, each operand is the one at its place.

Which record of a call is which of its counterpart in the other framework, and how it is to be looked at.

The table of functions brings the places of both sides to one (PyTorch's words); of cells the table of layers does so
for parameters. What is left over then is paired in order where only one order can be meant: a keyword on one side that
is a position on the other.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msprobe.base import names
from msprobe.base.names import Name
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.counterparts.features import operation_word
from msprobe.mapping import layers
from msprobe.mapping.api import ApiTable
from msprobe.mapping.correspondence import Correspondence
from msprobe.mapping.transform import Transform, parse
from msprobe.mapping.user_files import ApiRule
from msprobe.store.record import NULL, PARTS, TENSOR, VALUE, Dump, Part

from .call_keys import word
from .pairs import Alone, View, equal_values, listed_alone

Row = int | None


@dataclass
class Joined:
    """The rows of one pair of calls: target row and golden row (None for none), and by their number what is said."""

    rows: list[tuple[Row, Row]] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    alone: dict[int, Alone] = field(default_factory=dict)
    meant: dict[int, object] = field(default_factory=dict)


@dataclass(slots=True)
class Item:
    """One record on its way to a partner. `key` is its canonical place, None where it has none on purpose."""

    row: int
    part: Part
    path: tuple[str, ...]
    key: Hashable = None
    transform: Transform | None = None
    name: str = ""


def shape_of(dump: Dump, item: Item) -> tuple[int, ...] | None:
    """The shape of a tensor; None for anything else."""
    columns = dump.columns
    return columns.looks[columns.look[item.row]][2] if columns.kind[item.row] == TENSOR else None


def tells_inner_nodes(dump: Dump) -> bool:
    """Whether a dump's backward calls hand back what PyTorch's last inner node did, in its order: so does msprobe."""
    return dump.framework == "pytorch" and dump.format_version == 0


COMMUTATIVE = frozenset(
    operation_word(f"Tensor.{name}")
    for name in (
        *("add", "mul", "eq", "ne", "maximum", "minimum", "and", "or", "xor"),
        *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    )
)

CLOSE = 1e-4
"""Two operands are one tensor where no statistic is further apart, as a share of its scale."""

_CALL, _PARAMETER, _OUTPUT = "call ", "parameter ", ".output."
_OPERANDS = 2


class Operands:
    """Finds the pairs of calls whose operands stand in the other order. `partners`: target call to golden call."""

    def __init__(self, target: Dump, golden: Dump, partners: Mapping[int, int]) -> None:
        self._dumps = target, golden
        names = target.columns.names, golden.columns.names
        self._partners = {names[0][i]: names[1][j] for i, j in partners.items()}
        self._golden_partners = {golden: target for target, golden in self._partners.items()}

    def are_crossed(self, left: Sequence[Item], right: Sequence[Item]) -> bool:
        """Whether two operands of each side, in the order of their places, belong together crosswise."""
        for score in (self._by_look, self._by_origin, self._by_values):
            straight = score(left[0], right[0]) + score(left[1], right[1])
            crossed = score(left[0], right[1]) + score(left[1], right[0])
            if straight != crossed:
                return crossed > straight
        return False

    def _by_look(self, mine: Item, theirs: Item) -> int:
        kinds = (dump.columns.kind[item.row] for dump, item in zip(self._dumps, (mine, theirs), strict=True))
        return int(len(set(kinds)) == 1 and shape_of(self._dumps[0], mine) == shape_of(self._dumps[1], theirs))

    def _by_origin(self, mine: Item, theirs: Item) -> int:
        """1 where both are parameters, or one result of a pair of calls; -1 where they come from elsewhere."""
        told = self._dumps[0].columns.source[mine.row], self._dumps[1].columns.source[theirs.row]
        are_parameters = [text.startswith(_PARAMETER) for text in told]
        if all(are_parameters) or not all(told):
            return int(all(are_parameters))
        if any(are_parameters):
            return -1
        (ours, at), (other, their_at) = (_result(text) for text in told)
        if self._partners.get(ours) is None or self._golden_partners.get(other) is None:
            return 0
        return int(at == their_at) if self._partners[ours] == other else -1

    def _by_values(self, mine: Item, theirs: Item) -> int:
        a, b = (
            [columns.max[item.row], columns.min[item.row], columns.mean[item.row], columns.norm[item.row]]
            for columns, item in zip((dump.columns for dump in self._dumps), (mine, theirs), strict=True)
        )
        scale = max(map(abs, (*a[:2], *b[:2])))  # the mean is no greater
        scales = (scale, scale, scale, max(abs(a[3]), abs(b[3])))
        return int(all(abs(x - y) <= CLOSE * s for x, y, s in zip(a, b, scales, strict=True)))


def is_commutative(mine: Name, theirs: Name) -> bool:
    """Whether the order of two operands says nothing, in either call."""
    return operation_word(mine.stem) in COMMUTATIVE and operation_word(theirs.stem) in COMMUTATIVE


def two_operands(part: Part, left: Sequence[Item], right: Sequence[Item]) -> tuple[list[Item], list[Item]] | None:
    """The operands of both sides (the gradients of them, of a backward call), each side's in the order of their keys;
    None where a call has not two of them, or an argument besides: `alpha` weighs one of them."""
    mine, theirs = ([item for item in items if item.part == part] for items in (left, right))
    keys = {item.key for item in mine}
    if not len(mine) == len(theirs) == len(keys) == _OPERANDS or None in keys or keys != {i.key for i in theirs}:
        return None
    return sorted(mine, key=lambda item: repr(item.key)), sorted(theirs, key=lambda item: repr(item.key))


def cross(operands: Sequence[Item], items: Iterable[Item]) -> None:
    """Give those of some records that stand at the place of one of two operands the place of the other."""
    one, other = (item.key[1] for item in operands if isinstance(item.key, tuple))
    moved = {one: other, other: one}
    for item in items:
        if isinstance(item.key, tuple):
            item.key = item.key[0], moved.get(item.key[1], item.key[1])


def _result(source: str) -> tuple[str, str]:
    """The call that made a tensor, and which of its results it is; empty where no call did."""
    if not source.startswith(_CALL):
        return "", ""
    call, _, path = source.removeprefix(_CALL).rpartition(_OUTPUT)
    return call, path


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


Flow = Literal["forward", "backward"]

SHAPED = frozenset(["reshape", "view", "view_as", "expand", "expand_as", "broadcast_to", "flatten", "unflatten"])
"""What shape was asked for, -1 or not, the shape of the result tells."""

NO_PARTNERS: Mapping[int, int] = {}


class Records:
    """Joins the records of pairs of calls of two frameworks."""

    def __init__(self, target: Dump, golden: Dump, table: ApiTable, partners: Mapping[int, int] = NO_PARTNERS) -> None:
        """`partners`: target call to golden call of all pairs that are known."""
        self._dumps = target, golden
        self._table = table
        self._operands = Operands(target, golden, partners)
        self._is_ms_target = target.framework == "mindspore"
        self._tells_inner_nodes = any(map(tells_inner_nodes, self._dumps))
        self._arguments = Arguments(target, golden)
        self._may_turn = False
        self._at = tuple({name: n for n, name in enumerate(dump.columns.names)} for dump in self._dumps)

    def join(self, i: int, j: int, rule: ApiRule | None = None) -> Joined:
        """The records of target call `i` and golden call `j`; `rule` is the user's for this pair."""
        left, right = self._items(0, i), self._items(1, j)
        mine, theirs = (names.parse(d.columns.names[c]) for d, c in zip(self._dumps, (i, j), strict=True))
        pair: Correspondence | None = None
        is_inner = mine.kind == "api" and mine.direction == "backward" and self._tells_inner_nodes
        if rule is not None:
            self._key_by_rule(left, right, rule, mine)
        elif mine.kind == "api":
            pair = self._key_by_table(left, right, mine, theirs)
            if is_commutative(mine, theirs):
                self._key_by_operand(left, right, mine, theirs)
        else:
            self._key_by_layer(left if self._is_ms_target else right, mine if self._is_ms_target else theirs)
            for part in ("input", "output"):
                self._key_by_shape(part, left, right)
        if is_inner:
            self._key_by_norm(left, right)
        self._may_turn = pair is not None and any(n.startswith("transpose_") for n in pair.ms_signature.every)
        found = Joined()
        self._pair(left, right, found)
        self._arguments.judge(found, left, right, pair, mine)
        return found

    # Keys.

    def _items(self, side: int, call: int) -> list[Item]:
        columns = self._dumps[side].columns
        found = []
        for row in range(columns.starts[call], columns.starts[call + 1]):
            part, path = PARTS[columns.part[row]], columns.paths[columns.path[row]]
            found.append(Item(row, part, path, (part, path)))
        return found

    def _key_by_rule(self, left: list[Item], right: list[Item], rule: ApiRule, name: Name) -> None:
        """As the user wrote it; what his lists leave out has no partner."""
        is_backward = name.direction == "backward"
        swapped = {"input": "output", "output": "input"} if is_backward else {}
        listed = {swapped.get(part, part): set(places.values()) for part, places in rule.places.items()}
        for item in left:
            part = swapped.get(item.part, item.part)
            place = rule.place(part, item.path)
            item.key = None if place is None else (item.part, place)
            for length in range(len(item.path), 0, -1):
                if part == "input" and item.path[:length] in rule.transforms:
                    item.transform = parse(rule.transforms[item.path[:length]])
        for item in right:
            known = listed.get(item.part)
            if known is not None and not any(item.path[: len(p)] == p for p in known):
                item.key = None

    def _key_by_table(self, left: list[Item], right: list[Item], mine: Name, theirs: Name) -> Correspondence | None:
        ms, pt = (mine, theirs) if self._is_ms_target else (theirs, mine)
        sides = (0, 1) if self._is_ms_target else (1, 0)
        flow: Flow = "backward" if ms.direction == "backward" else "forward"
        arguments = [self._places(side, name) for side, name in zip(sides, (ms, pt), strict=True)]
        pair = self._table.between(ms.stem, pt.stem, *arguments)
        if pair is None:
            self._leave_arguments_out(left, right, ms, pt)
            return None
        _name_the_end(left, mine)
        _name_the_end(right, theirs)
        for item in filter(lambda item: item.path, left if self._is_ms_target else right):
            place = pair.ms_place(item.part, item.path, flow, arguments[0])
            item.key = None if place is None else (place.part, place.path)
            item.transform = pair.ms_transform(item.part, item.path, flow, arguments[0]) or None
            item.name = item.path[0] if place is None else place.path[0]
            if item.part == "input" and flow == "forward":
                item.name = pair.ms_signature.named(item.path)[0]
        for item in filter(lambda item: item.path, right if self._is_ms_target else left):
            place = pair.pt_place(item.part, item.path, flow, arguments[1])
            item.key = None if place is None else (place.part, place.path)
            item.name = pair.pt_signature.named(item.path)[0] if item.part == "input" else item.path[0]
        if word(pt) in SHAPED:
            self._leave_values_out(left, right)
        return pair

    def _leave_arguments_out(self, left: list[Item], right: list[Item], ms: Name, pt: Name) -> None:
        """Of two functions that the table does not know for each other.

        Under one name values may still mean other things where it knows another function for one (`transpose`). Under
        two, one of them is the last of several steps: what it is given is not what the other is.
        """
        if word(ms) != word(pt):
            argument = "output" if ms.direction == "backward" else "input"
            for item in (*left, *right):
                if item.part == argument:
                    item.key = None
        elif word(pt) in SHAPED or self._table.counterparts(ms.stem):
            self._leave_values_out(left, right)

    def _leave_values_out(self, left: list[Item], right: list[Item]) -> None:
        for side, items in enumerate((left, right)):
            kinds = self._dumps[side].columns.kind
            for item in items:
                if item.part == "input" and kinds[item.row] != TENSOR:
                    item.key = None

    def _places(self, side: int, name: Name) -> list[str]:
        """The arguments of a call (of a backward call, of its forward), as places: `0`, `1`, `axis`."""
        call = self._at[side].get(names.counterpart(name.text, "forward"))
        if call is None:
            return []
        return list(
            dict.fromkeys(item.path[0] for item in self._items(side, call) if item.part == "input" and item.path)
        )

    def _key_by_layer(self, items: list[Item], name: Name) -> None:
        """MindSpore's parameters under PyTorch's names."""
        type_name = name.stem.rpartition(".")[2]
        for item in items:
            if item.part in ("parameters", "parameters_grad") and item.path:
                shape = self._shape(0 if self._is_ms_target else 1, item) or ()
                said, text = layers.parameter_name(type_name, item.path[0], shape)
                item.key = (item.part, (said, *item.path[1:]))
                item.transform = parse(text) if text else None

    def _key_by_operand(self, left: list[Item], right: list[Item], mine: Name, theirs: Name) -> None:
        """The operands, and in a backward call their gradients, of a call that takes them in either order."""
        part: Part = "output" if mine.direction == "backward" else "input"
        found = two_operands(part, left, right)
        if part == "output":
            found = self._forward_operands(mine, theirs) or found
        if found is not None and self._operands.are_crossed(*found):
            cross(found[0], (item for item in left if item.part == part))

    def _forward_operands(self, mine: Name, theirs: Name) -> tuple[list[Item], list[Item]] | None:
        """Of the forward calls of two backward calls, which tell more; None where a dump has none."""
        forward = [names.parse(names.counterpart(name.text, "forward")) for name in (mine, theirs)]
        calls = [at.get(name.text) for at, name in zip(self._at, forward, strict=True)]
        if calls[0] is None or calls[1] is None:
            return None
        left, right = self._items(0, calls[0]), self._items(1, calls[1])
        self._key_by_table(left, right, *forward)
        return two_operands("input", left, right)

    def _key_by_norm(self, left: list[Item], right: list[Item]) -> None:
        """Gradients that are handed back, whatever their order: those of one shape whose norms are nearest."""
        free = [item for item in right if item.part == "output"]
        for item in free:
            item.key = (item.part, item.path, "alone")
        nearest = self._nearest(free)
        for item in left:
            if item.part != "output" or item.key is None:
                continue
            item.key = (item.part, item.path, "first")
            if (best := nearest.take(self._shape(0, item), self._dumps[0].columns.norm[item.row])) is not None:
                best.key = item.key

    def _shape(self, side: int, item: Item) -> tuple[int, ...] | None:
        return shape_of(self._dumps[side], item)

    def _key_by_shape(self, part: str, left: list[Item], right: list[Item]) -> None:
        """Arguments of cells that the two sides take in another order, as their shapes show: nearest of equal shape."""
        mine, theirs = (
            [i for i in items if i.part == part and self._shape(n, i)] for n, items in enumerate((left, right))
        )
        known = {item.key: self._shape(1, item) for item in theirs}
        if all(known.get(item.key, self._shape(0, item)) == self._shape(0, item) for item in mine):
            return
        nearest, moved = self._nearest(theirs), list[tuple[Item, Item]]()
        for item in mine:
            if (best := nearest.take(self._shape(0, item), self._dumps[0].columns.norm[item.row])) is not None:
                moved.append((item, best))
        if not moved:
            return
        for item in theirs:
            item.key = (part, ("left", *item.path))
        for item, other in moved:
            item.key = other.key = (part, ("moved", *other.path))

    def _nearest(self, items: Sequence[Item]) -> "_Nearest":
        """The golden's tensors among some records, to be taken one by one."""
        columns = self._dumps[1].columns
        return _Nearest([(shape, columns.norm[i.row], i) for i in items if (shape := self._shape(1, i)) is not None])

    # Pairs.

    def _pair(self, left: list[Item], right: list[Item], found: Joined) -> None:
        waiting: dict[Hashable, deque[Item]] = {}
        for item in right:
            if item.key is not None:
                waiting.setdefault(item.key, deque()).append(item)
        partner: dict[int, Item] = {}
        for item in left:
            if item.key is not None and waiting.get(item.key):
                partner[item.row] = waiting[item.key].popleft()
        self._pair_leftovers(left, right, partner)
        taken = {other.row for other in partner.values()}
        parts = {part: n for n, part in enumerate(PARTS)}
        rest = deque(item for item in right if item.row not in taken)
        for item in left:
            while rest and parts[rest[0].part] < parts[item.part]:
                found.rows.append((None, rest.popleft().row))
            other = partner.get(item.row)
            if other is not None:
                self._look(len(found.rows), item, other, found)
            found.rows.append((item.row, other.row if other else None))
        found.rows += [(None, item.row) for item in rest]

    def _pair_leftovers(self, left: list[Item], right: list[Item], partner: dict[int, Item]) -> None:
        """In order, what can be meant in one way only: as many tensors of one shape on both sides, of one part."""
        taken = {item.row for item in partner.values()}

        def free(side: int, items: list[Item]) -> dict[Hashable, list[Item]]:
            columns, groups = self._dumps[side].columns, dict[Hashable, list[Item]]()
            for item in items:
                is_free = item.row not in partner if side == 0 else item.row not in taken
                if is_free and item.key is not None and columns.kind[item.row] == TENSOR:
                    groups.setdefault((item.part, columns.looks[columns.look[item.row]][2]), []).append(item)
            return groups

        theirs = free(1, right)
        for look, mine in free(0, left).items():
            others = theirs.get(look, [])
            if len(mine) == len(others) and (len(mine) == 1 or look[0] != "parameters"):  # type: ignore[index]  # a pair
                partner.update((item.row, other) for item, other in zip(mine, others, strict=True))

    def _look(self, number: int, mine: Item, theirs: Item, found: Joined) -> None:
        """The transform of the record that has one, where it is a tensor."""
        sides = ((mine, self._dumps[0], True), (theirs, self._dumps[1], False))
        is_turned = self._is_turned(mine, theirs)
        for item, dump, is_target in sides:
            if is_turned and is_target:
                found.views[number] = View(is_turned)
            elif item.transform and dump.columns.kind[item.row] == TENSOR:
                text = str(item.transform)
                found.views[number] = View(text, "") if is_target else View("", text)

    def _is_turned(self, mine: Item, theirs: Item) -> str:
        """The transform of an argument that a primitive was constructed to transpose, which no dump tells but the
        shape."""
        a, b = self._shape(0, mine), self._shape(1, theirs)
        if not self._may_turn or a is None or b is None or a == b or len(a) < 2 or (*a[:-2], a[-1], a[-2]) != b:
            return ""
        return f"transpose({', '.join(map(str, (*range(len(a) - 2), len(a) - 1, len(a) - 2)))})"


class _Nearest:
    """Records that are taken one by one, each time the one of a shape whose norm is nearest, of equals the first."""

    def __init__(self, told: Iterable[tuple[tuple[int, ...], float, Item]]) -> None:
        self._free: dict[tuple[int, ...], list[tuple[float, int, Item]]] = {}
        for number, (shape, norm, item) in enumerate(told):
            # What has no norm is as far from any as can be.
            self._free.setdefault(shape, []).append((math.inf if norm != norm else norm, number, item))
        for group in self._free.values():
            group.sort(key=lambda told: told[:2])

    def take(self, shape: tuple[int, ...] | None, norm: float) -> Item | None:
        """The nearest of a shape, which is free no more; None where none is left."""
        group = self._free.get(shape) if shape is not None else None
        if not group:
            return None
        if norm != norm:  # as far from all of them
            at = min(range(len(group)), key=lambda n: group[n][1])
        else:
            behind = bisect_left(group, norm, key=lambda told: told[0])
            before = bisect_left(group, group[behind - 1][0], key=lambda told: told[0]) if behind else behind
            near = [n for n in {before, behind} if n < len(group)]
            at = min(near, key=lambda n: (_distance(group[n][0], norm), group[n][1]))
        return group.pop(at)[2]


def _distance(one: float, other: float) -> float:
    return 0.0 if one == other else abs(one - other)


def _name_the_end(items: list[Item], name: Name) -> None:
    """`arange(7)` is given its end at the place where `arange(0, 7)` has its start."""
    if word(name) in ("arange", "range") and name.direction == "forward":
        positions = [item for item in items if item.part == "input" and item.path[:1] and item.path[0].isdigit()]
        if len(positions) == 1:
            positions[0].path = ("end",)
