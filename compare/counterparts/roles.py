"""What becomes of a module's result: which operations take it, however it is turned and reshaped on the way.

Two layers of one shape whose weights were loaded crosswise would be paired crosswise by their parameters. What is made
of their results tells it: the gate is what silu takes, whichever weight it holds.
"""

from collections import defaultdict

from .flow import Flow
from .kinship import word
from .score import Evidence
from .side import Side

DEEPEST = 8
_LAYOUT = frozenset(word(f"Tensor.{name}") for name in ("reshape", "transpose", "contiguous", "cast"))
_COMMUTATIVE = frozenset(word(f"Tensor.{name}") for name in ("add", "mul"))

Role = frozenset[str]
Takers = dict[int, list[tuple[int, int]]]


def uncrossed(evidence: Evidence, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs, with those straightened that parameters alone have crossed.

    Two pairs that stand in another order on the two sides change partners where their results play each other's role,
    and the new pairs play one role each.
    """
    crossed = [(x, y) for x, y in _neighbours(pairs) if x[1] > y[1]]
    if not crossed:
        return pairs
    takers = _takers(evidence.flows[0]), _takers(evidence.flows[1])
    partner = dict(pairs)
    for (a, b), (c, d) in crossed:
        if partner[a] != b or partner[c] != d or not _are_alike(evidence, a, c):
            continue
        mine = _role(evidence.target, takers[0], a), _role(evidence.target, takers[0], c)
        theirs = _role(evidence.golden, takers[1], b), _role(evidence.golden, takers[1], d)
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


def _takers(flow: Flow) -> Takers:
    """By call: the calls that take its result, and as which of their tensors."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for at, inputs in flow.made.items():
        for k, chains in enumerate(inputs):
            for call in {call for chain in chains for call in chain}:
                found[call].append((at, k))
    return found


def _role(side: Side, takers: Takers, module: int) -> Role:
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [(module, 0)]
    while waiting:
        call, depth = waiting.pop()
        for taker, k in takers.get(call, ()):
            if side.names[taker].kind != "api" or depth == DEEPEST:
                continue
            what = word(side.names[taker].stem)
            if what not in _LAYOUT:
                found.add(what if what in _COMMUTATIVE else f"{what} {k}")
            elif taker not in seen:
                seen.add(taker)
                waiting.append((taker, depth + 1))
    return frozenset(found)
