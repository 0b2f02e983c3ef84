"""Match the records of a pair of calls in two frameworks: other argument names, order, layout and nesting.

The table of functions converts the places of both sides to PyTorch's names; for parameters of cells, the table of
layers does. The remaining records are paired in order if only one order is possible: a keyword on one side that is a
position on the other.
"""

import math
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msprobe.base import names
from msprobe.base.names import Name
from msprobe.compare.core.exemptions import Stage, exemptions_of
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.relation import relation_of
from msprobe.compare.core.tensor import source_of
from msprobe.compare.counterparts.features import operation_word
from msprobe.mapping import layers
from msprobe.mapping.api import ApiTable
from msprobe.mapping.correspondence import Correspondence
from msprobe.mapping.transform import Transform, parse
from msprobe.mapping.user_files import ApiRule
from msprobe.store.record import NULL, PARTS, TENSOR, VALUE, Columns, Dump, Part

from .call_keys import word
from .pairs import Partnerless, View, equal_values

AXES = frozenset(["dim", "dims", "axis", "axes", "dim0", "dim1", "start_dim", "end_dim", "normalized_dim"])
"""PyTorch's parameters that are axes, counted from the front or from the end."""

SHAPED = frozenset(["reshape", "view", "view_as", "expand", "expand_as", "broadcast_to", "flatten", "unflatten"])
"""Functions whose requested shape, with or without -1, is that of the result."""

COMMUTATIVE = frozenset(
    operation_word(f"Tensor.{name}")
    for name in (
        *("add", "mul", "eq", "ne", "maximum", "minimum", "and", "or", "xor"),
        *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    )
)

CLOSE = 1e-4
"""Two operands are the same tensor if no statistic differs by more, relative to its scale."""

NO_PARTNERS: Mapping[int, int] = {}

_OPERANDS = 2
_UNKNOWN = object()
_BUFFERS = (("running_mean",), ("running_var",), ("num_batches_tracked",))
_PART_ORDER = {part: n for n, part in enumerate(PARTS)}


@dataclass
class Joined:
    """The rows of one pair of calls: target row and golden row (-1 for none), and notes by their number."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    partnerless: dict[int, Partnerless] = field(default_factory=dict)
    translated: dict[int, object] = field(default_factory=dict)


@dataclass(slots=True)
class Item:
    """One record to be paired. `key` is its canonical place, None if it has none on purpose."""

    columns: Columns
    row: int
    part: Part
    path: tuple[str, ...]
    key: Hashable = None
    transform: Transform | None = None
    name: str = ""

    @property
    def is_tensor(self) -> bool:
        """Return whether the record is a tensor."""
        return self.columns.kind[self.row] == TENSOR

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return the shape of a tensor; None for anything else."""
        return self.columns.shape(self.row)

    @property
    def norm(self) -> float:
        """Return the norm of a tensor, NaN if it is unknown."""
        return self.columns.norm[self.row]


Items = Sequence[Item]


def has_inner_node_gradients(dump: Dump) -> bool:
    """Return whether backward calls of a dump contain the gradients of PyTorch's last inner node, in its order, as
    those of msprobe do."""
    return dump.framework == "pytorch" and dump.format_version == 0


class Records:
    """Joins the records of pairs of calls of two frameworks."""

    def __init__(self, target: Dump, golden: Dump, table: ApiTable, partners: Mapping[int, int] = NO_PARTNERS) -> None:
        """Join records; `partners` is target call to golden call of all known pairs."""
        self._dumps = target, golden
        self._table = table
        self._between: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], Correspondence | None] = {}
        self._is_ms_target = target.framework == "mindspore"
        self._has_inner_nodes = any(map(has_inner_node_gradients, self._dumps))
        self._exemptions = exemptions_of(Stage.MATCH, relation_of(target, golden))
        self._operands = Operands(target, golden, partners)

    def join(self, i: int, j: int, rule: ApiRule | None = None) -> Joined:
        """Return the records of target call `i` and golden call `j`; `rule` is the user's for this pair."""
        left, right = self._items(0, i), self._items(1, j)
        mine, theirs = self._dumps[0].names[i], self._dumps[1].names[j]
        pair: Correspondence | None = None
        if rule is not None:
            _key_by_rule(left, right, rule, mine)
        elif mine.kind == "api":
            pair = self._key_by_table(left, right, mine, theirs)
            if {operation_word(mine.stem), operation_word(theirs.stem)} <= COMMUTATIVE:
                self._key_by_operand(left, right, mine, theirs)
        else:
            _key_by_layer(self._ms_first(left, right)[0], self._ms_first(mine, theirs)[0])
            _key_by_shape("input", left, right)
            _key_by_shape("output", left, right)
        if mine.kind == "api" and mine.direction == "backward" and self._has_inner_nodes:
            _key_by_norm(left, right)
        may_turn = pair is not None and any(n.startswith("transpose_") for n in pair.ms_signature.every)
        found = Joined()
        _pair(left, right, found, may_turn)
        self._explain(found, left, right, pair, mine)
        return found

    def _ms_first(self, mine: Any, theirs: Any) -> tuple[Any, Any]:
        return (mine, theirs) if self._is_ms_target else (theirs, mine)

    # Keys.

    def _items(self, side: int, call: int) -> list[Item]:
        columns = self._dumps[side].columns
        placed = ((row, PARTS[columns.part[row]], columns.path_of(row)) for row in columns.rows(call))
        return [Item(columns, row, part, path, (part, path)) for row, part, path in placed]

    def _key_by_table(self, left: Items, right: Items, mine: Name, theirs: Name) -> Correspondence | None:
        (ms, pt), (ms_items, pt_items) = self._ms_first(mine, theirs), self._ms_first(left, right)
        flow: Literal["forward", "backward"] = "backward" if ms.direction == "backward" else "forward"
        sides = self._ms_first(0, 1)
        ms_tops, pt_tops = (self._places(side, name) for side, name in zip(sides, (ms, pt), strict=True))
        key = ms.stem, pt.stem, tuple(ms_tops), tuple(pt_tops)
        if key not in self._between:
            self._between[key] = self._table.between(*key)
        pair = self._between[key]
        if pair is None:
            _leave_arguments_out((*left, *right), ms, pt, is_known=bool(self._table.counterparts(ms.stem)))
            return None
        _name_the_end(left, mine)
        _name_the_end(right, theirs)
        for item in ms_items:
            if item.path:
                place = pair.ms_place(item.part, item.path, flow, ms_tops)
                item.key = None if place is None else (place.part, place.path)
                item.transform = pair.ms_transform(item.part, item.path, flow, ms_tops) or None
                item.name = item.path[0] if place is None else place.path[0]
                if item.part == "input" and flow == "forward":
                    item.name = pair.ms_signature.named(item.path)[0]
        for item in pt_items:
            if item.path:
                place = pair.pt_place(item.part, item.path, flow, pt_tops)
                item.key = None if place is None else (place.part, place.path)
                item.name = pair.pt_signature.named(item.path)[0] if item.part == "input" else item.path[0]
        if word(pt) in SHAPED:
            _leave_values_out((*left, *right))
        return pair

    def _places(self, side: int, name: Name) -> list[str]:
        """Return the arguments of a call (for a backward call, of its forward), as places: `0`, `1`, `axis`."""
        call, columns = self._dumps[side].place.get(names.counterpart(name.text, "forward")), self._dumps[side].columns
        rows = [] if call is None else [row for row in columns.rows(call) if PARTS[columns.part[row]] == "input"]
        return list(dict.fromkeys(path[0] for row in rows if (path := columns.path_of(row))))

    def _key_by_operand(self, left: Items, right: Items, mine: Name, theirs: Name) -> None:
        """Exchange the operands, or in a backward call their gradients, of a commutative call if the other side has
        them in the other order."""
        part: Part = "output" if mine.direction == "backward" else "input"
        found = _two_operands(part, left, right)
        if part == "output":
            found = self._forward_operands(mine, theirs) or found
        if found is None or not self._operands.are_crossed(*found):
            return
        one, other = (item.key[1] for item in found[0] if isinstance(item.key, tuple))
        moved = {one: other, other: one}
        for item in left:
            if item.part == part and isinstance(item.key, tuple):
                item.key = item.key[0], moved.get(item.key[1], item.key[1])

    def _forward_operands(self, mine: Name, theirs: Name) -> tuple[list[Item], list[Item]] | None:
        """Return the operands of the forward calls of two backward calls, which contain more information; None if a
        dump lacks one."""
        forward = [names.parse(names.counterpart(name.text, "forward")) for name in (mine, theirs)]
        calls = [dump.place.get(name.text) for dump, name in zip(self._dumps, forward, strict=True)]
        if calls[0] is None or calls[1] is None:
            return None
        left, right = self._items(0, calls[0]), self._items(1, calls[1])
        self._key_by_table(left, right, *forward)
        return _two_operands("input", left, right)

    # Values, and records without a counterpart.

    def _explain(self, found: Joined, left: Items, right: Items, pair: Correspondence | None, name: Name) -> None:
        """Enter MindSpore's values in PyTorch's terms, and why records have no counterpart; `name` is the target's."""
        by_row = [{item.row: item for item in items} for items in (left, right)]
        unmatched: list[tuple[int, Item, int]] = []
        rank = next((len(item.shape) for item in left if item.part == "input" and item.shape is not None), 0)
        for number, (t, g) in enumerate(found.rows):
            if t < 0 or g < 0:
                side = int(t < 0)
                unmatched.append((number, by_row[side][max(t, g)], side))
            elif pair is not None:
                _translate_value(number, *self._ms_first(by_row[0][t], by_row[1][g]), rank, pair, found)
        in_other_form = _values_in_other_form(unmatched)
        for number, item, side in unmatched:
            is_ms = (side == 0) == self._is_ms_target
            record = OneSidedRecord(item, is_ms, pair, name, self._has_inner_nodes, in_other_form.get(number))
            reasons = (exemption.function(record) for exemption in self._exemptions)
            if (reason := next((reason for reason in reasons if reason is not None), None)) is not None:
                found.partnerless[number] = reason


@dataclass(slots=True)
class OneSidedRecord:
    """A record of a pair of calls that only one side has, for the exemptions of stage `MATCH`.

    `is_ms`: the record is MindSpore's. `pair` is the correspondence of the two functions, and `name` the target's call.
    `in_other_form`: its value is a list on the other side, or an element of a list.
    """

    item: Item
    is_ms: bool
    pair: Correspondence | None
    name: Name
    has_inner_nodes: bool
    in_other_form: Partnerless | None

    @property
    def here(self) -> str:
        """The framework that has the record."""
        return "MindSpore" if self.is_ms else "PyTorch"


def value_in_other_form(record: OneSidedRecord) -> Partnerless | None:
    """The other side has the value in another form, as a list or as an element of a list."""
    return record.in_other_form


def null(record: OneSidedRecord) -> Partnerless | None:
    """The record is None."""
    return Partnerless(Reason(Why.NULL, record.here)) if record.item.columns.kind[record.item.row] == NULL else None


def gradient_of_inner_node(record: OneSidedRecord) -> Partnerless | None:
    """An output of a backward call was paired by its norm, because one side may have recorded an inner node."""
    key = record.item.key
    is_of_inner_node = record.item.part == "output" and record.has_inner_nodes
    return (
        Partnerless(Reason(Why.INNER_NODE)) if is_of_inner_node and isinstance(key, tuple) and len(key) == 3 else None
    )


def additional_output(record: OneSidedRecord) -> Partnerless | None:
    """The function of the other side has no such result, or this call of it does not return it."""
    item = record.item
    if item.part != "output":
        return None
    if item.key is None:
        return Partnerless(Reason(Why.NO_RESULT, record.here))
    is_extra = not item.is_tensor or item.path[:1] != ("0",)
    return Partnerless(Reason(Why.NO_RESULT_OF_CALL, record.here)) if is_extra else None


def running_statistic(record: OneSidedRecord) -> Partnerless | None:
    """PyTorch has it in a buffer, which is not among the parameters."""
    item = record.item
    if not record.is_ms or item.part != "parameters" or not isinstance(item.key, tuple):
        return None
    return Partnerless(Reason(Why.BUFFER)) if item.key[1][:1] in _BUFFERS else None


def gradient_of_additional_output(record: OneSidedRecord) -> Partnerless | None:
    """The other side does not return the result of which this is the incoming gradient."""
    is_gradient = record.item.part == "input" and record.name.direction == "backward"
    is_additional = is_gradient and record.item.path[:1] != ("0",)
    return Partnerless(Reason(Why.NO_RESULT_OF_GRADIENT, record.here)) if is_additional else None


def default(record: OneSidedRecord) -> Partnerless | None:
    """The argument has the value with which the other side computes by default; wrong if it has another value."""
    item, pair = record.item, record.pair
    if item.part != "input" or pair is None or item.is_tensor:
        return None
    value, expected = item.columns.values.get(item.row), _expected(item, pair, record.is_ms)
    # A default of None is computed from the other arguments: the stride of a pooling is the size of the kernel.
    if expected is _UNKNOWN or (expected is None) > (value is None):
        return None
    if equal_values(value, expected):
        return Partnerless(Reason(Why.DEFAULT, record.here))
    return Partnerless(Reason(Why.OTHER_DEFAULT, record.here, item.name, target=value, golden=expected), True)


def argument_without_counterpart(record: OneSidedRecord) -> Partnerless | None:
    """The function of the other side does not have the argument."""
    if record.item.part != "input" or record.item.key is not None:
        return None
    return Partnerless(Reason(Why.OTHER_WAY) if record.pair is None else Reason(Why.NO_ARGUMENT, record.here))


def argument_of_one_side(record: OneSidedRecord) -> Partnerless | None:
    """The argument is not a tensor, and the default of the other side is not known."""
    is_value = record.item.part == "input" and not record.item.is_tensor
    return Partnerless(Reason(Why.ONE_ARGUMENT, record.here)) if is_value else None


def cell_argument(record: OneSidedRecord) -> Partnerless | None:
    """It is an argument of a cell."""
    is_of_cell = record.name.kind == "cell" and record.item.part == "input"
    return Partnerless(Reason(Why.CELL_ARGUMENT)) if is_of_cell else None


def _expected(item: Item, pair: Correspondence, is_ms: bool) -> object:
    """Return the value of an argument at which both sides agree although only one received it; `_UNKNOWN` without one.

    A dropped argument of MindSpore with the value None may be anything.
    """
    here, there = (pair.dropped, pair.pt_defaults) if is_ms else (pair.inserted, pair.ms_defaults)
    if item.name in here:
        return _UNKNOWN if here[item.name] is None else here[item.name]
    names_there = pair.renamed if is_ms else {to: of for of, to in pair.renamed.items()}
    return there.get(names_there.get(item.name, item.name), _UNKNOWN)


def _translate_value(number: int, ms: Item, pt: Item, rank: int, pair: Correspondence, found: Joined) -> None:
    """Enter MindSpore's value in PyTorch's terms, if those differ; `rank` is that of the call's first tensor."""
    if ms.columns.kind[ms.row] != VALUE or ms.part != "input":
        return
    value = ms.columns.values[ms.row]
    words: Mapping[object, object] = pair.values.get(ms.name, {})
    text = words.get(value, value) if isinstance(value, Hashable) else value
    if ms.transform and isinstance(text, int | float) and type(text) is not bool:
        text = ms.transform(text) if not ms.transform.is_layout else text
    if isinstance(ms.key, tuple) and ms.key[1][:1] and ms.key[1][0] in AXES and type(text) is int:
        other = pt.columns.values.get(pt.row)
        if type(other) is int and rank and (text - other) % rank == 0 and max(abs(text), abs(other)) <= rank:
            text = other  # one axis, counted from the front and from the end
    if text is not value:
        found.translated[number] = text


def _values_in_other_form(unmatched: Sequence[tuple[int, Item, int]]) -> dict[int, Partnerless]:
    """Return the values that have no partner because the other side has them as one value, or as a list."""
    partnerless: dict[int, Partnerless] = {}
    values: tuple[list[tuple[int, tuple[object, ...], object]], ...] = ([], [])
    for number, item, side in unmatched:
        if item.columns.kind[item.row] == VALUE and isinstance(item.key, tuple):
            values[side].append((number, (item.key[0], *item.key[1]), item.columns.values[item.row]))
    for whole, listed in (values, values[::-1]):
        elements: defaultdict[tuple[object, ...], list[tuple[int, object]]] = defaultdict(list)
        for number, place, value in listed:
            elements[place[:-1]].append((number, value))
        for number, place, value in whole:
            if inner := elements.get(place):
                is_wrong = not all(equal_values(value, v) for _, v in inner)
                why = Why.ONE_VALUE if is_wrong else Why.ONE_VALUE_EQUAL
                reason = Partnerless(Reason(why, target=value, golden=[v for _, v in inner]), is_wrong)
                partnerless.update(dict.fromkeys((number, *(n for n, _ in inner)), reason))
    return partnerless


class Operands:
    """Finds the pairs of calls whose operands are exchanged: `y * weight` here is `weight * y` there.

    The first property that distinguishes the two orders decides: form, origin, or values of the operands. If none does,
    operands correspond by position.
    """

    def __init__(self, target: Dump, golden: Dump, partners: Mapping[int, int]) -> None:
        """Compare operands; `partners` is target call to golden call."""
        self._dumps = target, golden
        self._golden_of = {target.columns.names[i]: golden.columns.names[j] for i, j in partners.items()}
        self._goldens = set(self._golden_of.values())

    def exchanged(self, i: int, j: int) -> list[int]:
        """Return the golden's rows of the two operands, or in a backward call of their gradients, of calls of one
        framework whose operands are exchanged; empty if they are not."""
        names = self._dumps[0].names[i], self._dumps[1].names[j]
        if any(name.kind != "api" or operation_word(name.stem) not in COMMUTATIVE for name in names):
            return []
        calls, part = (i, j), "input"
        if names[0].direction == "backward":
            forward = [dump.counterpart(call, "forward") for dump, call in zip(self._dumps, calls, strict=True)]
            calls, part = (forward[0], forward[1]), "output"
        if min(calls) < 0:
            return []
        found = _two_operands("input", *(_of_part(d, c, "input") for d, c in zip(self._dumps, calls, strict=True)))
        own = _of_part(self._dumps[1], j, part)
        return [item.row for item in own] if found and len(own) == _OPERANDS and self.are_crossed(*found) else []

    def are_crossed(self, left: Items, right: Items) -> bool:
        """Return whether two operands of each side, in the order of their places, correspond crosswise."""
        for score in (self._by_look, self._by_origin, self._by_values):
            straight = score(left[0], right[0]) + score(left[1], right[1])
            crossed = score(left[0], right[1]) + score(left[1], right[0])
            if straight != crossed:
                return crossed > straight
        return False

    @staticmethod
    def _by_look(mine: Item, theirs: Item) -> int:
        kinds = {item.columns.kind[item.row] for item in (mine, theirs)}
        return int(len(kinds) == 1 and mine.shape == theirs.shape)

    def _by_origin(self, mine: Item, theirs: Item) -> int:
        """Return 1 if both are parameters, or one result of a pair of calls; -1 if their origins differ."""
        texts = [item.columns.source[item.row] for item in (mine, theirs)]
        ours, other = map(source_of, texts)
        are_parameters = [source.origin == "parameter" for source in (ours, other)]
        if all(are_parameters) or not all(texts):
            return int(all(are_parameters))
        if any(are_parameters):
            return -1
        if ours.call not in self._golden_of or other.call not in self._goldens or "input" in (ours.part, other.part):
            return 0
        return int(ours.path == other.path) if self._golden_of[ours.call] == other.call else -1

    @staticmethod
    def _by_values(mine: Item, theirs: Item) -> int:
        a, b = (item.columns.numbers[item.row].tolist() for item in (mine, theirs))
        scale = max(map(abs, (*a[:2], *b[:2])))  # the mean is not greater
        scales = (scale, scale, scale, max(abs(a[3]), abs(b[3])))
        return int(all(abs(x - y) <= CLOSE * s for x, y, s in zip(a, b, scales, strict=True)))


def _of_part(dump: Dump, call: int, part: str) -> list[Item]:
    """Return the records of one part of a call, by their paths."""
    columns = dump.columns
    rows = (row for row in columns.rows(call) if PARTS[columns.part[row]] == part)
    return [Item(columns, row, PARTS[columns.part[row]], path := columns.path_of(row), path) for row in rows]


def _two_operands(part: Part, left: Items, right: Items) -> tuple[list[Item], list[Item]] | None:
    """Return the operands of both sides (for a backward call, their gradients), each side's in the order of their keys;
    None if a call does not have two of them, or has another argument: `alpha` scales one of them."""
    mine, theirs = ([item for item in items if item.part == part] for items in (left, right))
    keys = {item.key for item in mine}
    if not len(mine) == len(theirs) == len(keys) == _OPERANDS or None in keys or keys != {i.key for i in theirs}:
        return None
    return sorted(mine, key=lambda item: repr(item.key)), sorted(theirs, key=lambda item: repr(item.key))


def _key_by_rule(left: Items, right: Items, rule: ApiRule, name: Name) -> None:
    """Use the rule of the user; records that are not in its lists have no counterpart."""
    swapped = {"input": "output", "output": "input"} if name.direction == "backward" else {}
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


def _key_by_layer(items: Items, name: Name) -> None:
    """Use PyTorch's names for MindSpore's parameters."""
    type_name = name.stem.rpartition(".")[2]
    for item in items:
        if item.part in ("parameters", "parameters_grad") and item.path:
            message, text = layers.parameter_name(type_name, item.path[0], item.shape or ())
            item.key = (item.part, (message, *item.path[1:]))
            item.transform = parse(text) if text else None


def _leave_arguments_out(items: Items, ms: Name, pt: Name, is_known: bool) -> None:
    """Exclude arguments of two functions that do not correspond by the table.

    Functions of one name may have arguments of another meaning if the table has another counterpart for one
    (`transpose`), `is_known`. With two names, one of them is the last of several steps: its inputs are not those of the
    other.
    """
    if word(ms) != word(pt):
        argument = "output" if ms.direction == "backward" else "input"
        for item in items:
            if item.part == argument:
                item.key = None
    elif word(pt) in SHAPED or is_known:
        _leave_values_out(items)


def _leave_values_out(items: Items) -> None:
    for item in items:
        if item.part == "input" and not item.is_tensor:
            item.key = None


def _name_the_end(items: Items, name: Name) -> None:
    """Use the place of the end for the argument of `arange(7)`, which is the place of the start in `arange(0, 7)`."""
    if word(name) in ("arange", "range") and name.direction == "forward":
        positions = [item for item in items if item.part == "input" and item.path[:1] and item.path[0].isdigit()]
        if len(positions) == 1:
            positions[0].path = ("end",)


def _key_by_norm(left: Items, right: Items) -> None:
    """Pair the gradients of inputs in any order: those of one shape whose norms are closest."""
    free = [item for item in right if item.part == "output"]
    for item in free:
        item.key = (item.part, item.path, "alone")
    nearest = _Nearest(free)
    for item in left:
        if item.part == "output" and item.key is not None:
            item.key = (item.part, item.path, "first")
            if (best := nearest.take(item)) is not None:
                best.key = item.key


def _key_by_shape(part: Part, left: Items, right: Items) -> None:
    """Pair arguments of cells that the two sides take in another order, by their shapes: the closest norm of equal
    shape."""
    mine, theirs = ([item for item in items if item.part == part and item.shape] for items in (left, right))
    known = {item.key: item.shape for item in theirs}
    if all(known.get(item.key, item.shape) == item.shape for item in mine):
        return
    nearest = _Nearest(theirs)
    moved = [(item, best) for item in mine if (best := nearest.take(item)) is not None]
    for item in theirs if moved else ():
        item.key = (part, ("left", *item.path))
    for item, other in moved:
        item.key = other.key = (part, ("moved", *other.path))


class _Nearest:
    """Tensors that are taken individually: each time the one of a shape with the closest norm, the first if several are
    equal."""

    def __init__(self, items: Items) -> None:
        self._free: defaultdict[tuple[int, ...], list[tuple[float, int, Item]]] = defaultdict(list)
        for number, item in enumerate(items):
            if item.shape is not None:
                # A tensor without a norm has the greatest distance from any other.
                norm = math.inf if item.norm != item.norm else item.norm
                self._free[item.shape].append((norm, number, item))
        for group in self._free.values():
            group.sort(key=lambda one: one[:2])

    def take(self, item: Item) -> Item | None:
        """Return and remove the closest to a tensor; None if none of its shape remains."""
        group, norm = self._free.get(item.shape) if item.shape is not None else None, item.norm
        if not group:
            return None
        if norm != norm:  # equally far from all of them
            at = min(range(len(group)), key=lambda n: group[n][1])
        else:
            after = bisect_left(group, norm, key=lambda one: one[0])
            before = bisect_left(group, group[after - 1][0], key=lambda one: one[0]) if after else after
            near = [n for n in {before, after} if n < len(group)]
            at = min(near, key=lambda n: (0.0 if group[n][0] == norm else abs(group[n][0] - norm), group[n][1]))
        return group.pop(at)[2]


def _pair(left: Items, right: Items, found: Joined, may_turn: bool) -> None:
    """Pair by keys, then the remaining ones by shape; golden-only records come after the target's of their part."""
    waiting: defaultdict[Hashable, deque[Item]] = defaultdict(deque)
    for item in right:
        if item.key is not None:
            waiting[item.key].append(item)
    partner = {i.row: waiting[i.key].popleft() for i in left if i.key is not None and waiting.get(i.key)}
    _pair_leftovers(left, right, partner)
    taken = {other.row for other in partner.values()}
    rest = deque(item for item in right if item.row not in taken)
    for item in left:
        while rest and _PART_ORDER[rest[0].part] < _PART_ORDER[item.part]:
            found.rows.append((-1, rest.popleft().row))
        other = partner.get(item.row)
        if other is not None and (view := _view(item, other, may_turn)) is not None:
            found.views[len(found.rows)] = view
        found.rows.append((item.row, other.row if other else -1))
    found.rows += [(-1, item.row) for item in rest]


def _pair_leftovers(left: Items, right: Items, partner: dict[int, Item]) -> None:
    """Pair, in order, records with only one possible counterpart: equal numbers of tensors of one shape on both sides,
    of one part."""

    def by_look(items: Iterable[Item]) -> dict[tuple[Part, object], list[Item]]:
        groups: defaultdict[tuple[Part, object], list[Item]] = defaultdict(list)
        for item in items:
            if item.key is not None and item.is_tensor:
                groups[item.part, item.shape].append(item)
        return groups

    taken = {item.row for item in partner.values()}
    theirs = by_look(item for item in right if item.row not in taken)
    for look, mine in by_look(item for item in left if item.row not in partner).items():
        others = theirs.get(look, [])
        if len(mine) == len(others) and (len(mine) == 1 or look[0] != "parameters"):
            partner.update((item.row, other) for item, other in zip(mine, others, strict=True))


def _view(mine: Item, theirs: Item, may_turn: bool) -> View | None:
    """Return the transform of the record that has one, if it is a tensor.

    `may_turn`: the primitive may have been constructed to transpose an argument, which only the shape shows.
    """
    a, b = mine.shape, theirs.shape
    is_turned = may_turn and a is not None and b is not None and a != b and len(a) >= 2
    if theirs.transform and theirs.is_tensor:
        return View("", str(theirs.transform))
    if is_turned and a is not None and (*a[:-2], a[-1], a[-2]) == b:
        return View(f"transpose({', '.join(map(str, (*range(len(a) - 2), len(a) - 1, len(a) - 2)))})")
    return View(str(mine.transform), "") if mine.transform and mine.is_tensor else None
