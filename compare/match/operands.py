"""The two operands of a call whose result is the same in either order: `y * weight` here is `weight * y` there.

The first of these that tells the two orders apart decides: what the operands look like, where they come from, what
values they hold. Where nothing does, each operand is the one at its place.
"""

from collections.abc import Iterable, Mapping, Sequence

from msprobe.base.names import Name
from msprobe.compare.counterparts.kinship import word
from msprobe.store.record import Dump, Part

from .item import Item, shape_of

COMMUTATIVE = frozenset(
    word(f"Tensor.{name}")
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
    return word(mine.stem) in COMMUTATIVE and word(theirs.stem) in COMMUTATIVE


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
