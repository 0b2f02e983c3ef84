"""What becomes of a module's result: which operations take it, however it is turned and reshaped on the way.

Two layers of one shape whose weights were loaded crosswise would be paired crosswise by their parameters. What is made
of their results tells it: the gate is what silu takes, whichever weight it holds.
"""

from collections import defaultdict
from functools import cached_property

from .flow import Flow
from .kinship import word
from .score import Evidence
from .side import Side

MOST_STEPS = 200
"""Calls that are looked at behind one."""

_LAYOUT = frozenset(word(f"Tensor.{name}") for name in ("reshape", "transpose", "contiguous", "cast"))
_COMMUTATIVE = frozenset(word(f"Tensor.{name}") for name in ("add", "mul"))
_ARITHMETIC = ("add", "sub", "mul", "div", "neg", "cat", "stack", "chunk", "split", "getitem", "narrow", "squeeze")
_OTHERS = ("unsqueeze", "expand", "repeat", "repeat_interleave", "dropout", "identity", "masked_fill", "where", "clone")
_PASSING = _LAYOUT | frozenset(word(f"Tensor.{name}") for name in (*_ARITHMETIC, *_OTHERS))

# What scaled_dot_product_attention does with query, key and value, where the other side writes it out.
_ATTENTION, _MATMUL, _LINEAR = (word(f"Tensor.{name}") for name in ("scaled_dot_product_attention", "matmul", "linear"))
_IN_ATTENTION = ((f"{_MATMUL} 0", "softmax 0"), (f"{_MATMUL} 1", "softmax 0"), (f"{_MATMUL} 1",))

Role = frozenset[str]
Path = tuple[str, ...]


def uncrossed(evidence: Evidence, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs, with those straightened that parameters alone have crossed.

    Two pairs that stand in another order on the two sides change partners where their results play each other's role,
    and the new pairs play one role each.
    """
    crossed = [(x, y) for x, y in _neighbours(pairs) if x[1] > y[1]]
    if not crossed:
        return pairs
    roles = Roles(evidence.target, evidence.flows[0]), Roles(evidence.golden, evidence.flows[1])
    partner = dict(pairs)
    for (a, b), (c, d) in crossed:
        if partner[a] != b or partner[c] != d or not _are_alike(evidence, a, c):
            continue
        mine = roles[0].nearest(a), roles[0].nearest(c)
        theirs = roles[1].nearest(b), roles[1].nearest(d)
        if mine[0] != mine[1] and mine == (theirs[1], theirs[0]) and all(mine):
            partner[a], partner[c] = d, b
    return list(partner.items())


def _neighbours(pairs: list[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs with one of the next few in the target's order: what was crossed stands close together."""
    ordered = sorted(pairs)
    return [(x, y) for n, x in enumerate(ordered) for y in ordered[n + 1 : n + 4]]


def _are_alike(evidence: Evidence, a: int, c: int) -> bool:
    mine = evidence.features[0]
    same = (mine.operation, mine.own_shapes, mine.in_shapes, mine.out_shape)
    return all(column[a] == column[c] for column in same)


class Roles:
    """What becomes of the results of one side's calls."""

    def __init__(self, side: Side, flow: Flow) -> None:
        self._side, self._flow = side, flow
        self._known: dict[int, Role] = {}

    def takers(self, call: int) -> list[tuple[int, int]]:
        """The calls that take a call's result, and as which of their tensors."""
        return self._takers.get(call, [])

    def nearest(self, call: int) -> Role:
        """The operations that take a result first, layout apart."""
        return frozenset(path[0] for path in self._follow(call, 1, _LAYOUT))

    def of(self, call: int) -> Role:
        """The first two operations, one behind the other, that are no arithmetic and no layout, on every way.

        A query is the left operand of a product whose result goes into a softmax, a value the right operand of one
        that goes into a linear layer, however they are scaled, rotated, masked and reshaped on the way.
        """
        if call not in self._known:
            self._known[call] = frozenset(" > ".join(path) for path in self._follow(call, 2, _PASSING))
        return self._known[call]

    def _follow(self, call: int, length: int, passing: frozenset[str]) -> set[Path]:
        found: set[Path] = set()
        seen: set[tuple[int, Path]] = set()
        waiting: list[tuple[int, Path]] = [(call, ())]
        while waiting and len(seen) < MOST_STEPS:
            at, path = waiting.pop()
            for taker, k in self.takers(at):
                if self._side.names[taker].kind != "api" or not self._side.tensors(taker).outputs:
                    continue
                step = self._steps(taker, k, passing)
                longer = (path + step)[:length]
                if step:
                    found.add(longer)
                if len(longer) < length and (taker, longer) not in seen:
                    seen.add((taker, longer))
                    waiting.append((taker, longer))
        return found

    def _steps(self, taker: int, k: int, passing: frozenset[str]) -> Path:
        what = word(self._side.names[taker].stem)
        if what in passing:
            return ()
        if what == _ATTENTION and k < len(_IN_ATTENTION):
            return _IN_ATTENTION[k]
        if what == _MATMUL and any(self._flow.constant[taker]):
            what = _LINEAR
        return (what if what in _COMMUTATIVE else f"{what} {k}",)

    @cached_property
    def _takers(self) -> dict[int, list[tuple[int, int]]]:
        """By call: the calls that take its result, and as which of their tensors."""
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for at, inputs in self._flow.made.items():
            for k, chains in enumerate(inputs):
                for call in {call for chain in chains for call in chain}:
                    found[call].append((at, k))
        return found


def likeness(mine: Role, theirs: Role) -> float:
    """How much of two roles is common, from 0 to 1; 0 where one is not known."""
    return len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0
