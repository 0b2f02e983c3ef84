"""Which record of a call is which of its counterpart in the other framework, and how it is to be looked at.

The table of functions brings the places of both sides to one (PyTorch's words); of cells the table of layers does so
for parameters. What is left over then is paired in order where only one order can be meant: a keyword on one side that
is a position on the other.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal

from msprobe.base import names
from msprobe.base.names import Name
from msprobe.mapping import layers
from msprobe.mapping.api import ApiTable
from msprobe.mapping.api_file import ApiRule
from msprobe.mapping.correspondence import Correspondence
from msprobe.mapping.transform import parse
from msprobe.store.columns import PARTS, TENSOR
from msprobe.store.record import Dump, Part

from .arguments import Arguments
from .item import Item, Joined, shape_of, tells_inner_nodes
from .keys import word
from .operands import Operands, cross, is_commutative, two_operands
from .pairs import View

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
