"""What follows from a pair of forward calls: their backward calls, and the gradients of their parameters."""

from collections import defaultdict

from .counterpart import Counterpart
from .score import Evidence
from .side import NONE, Side


def follow(evidence: Evidence, found: list[Counterpart]) -> list[Counterpart]:
    """Pairs of backward calls and of parameters' gradients."""
    taken = {pair.target for pair in found}
    stands_for: dict[int, int] = {}  # golden call: the forward call of the golden side from which it follows
    more: list[Counterpart] = []

    def add(target: int, golden: int, source: int, confidence: float, reason: str) -> None:
        if NONE not in (target, golden) and target not in taken and stands_for.setdefault(golden, source) == source:
            taken.add(target)
            more.append(Counterpart(target, golden, confidence, reason))

    gradients = _gradients(evidence.target), _gradients(evidence.golden)
    for pair in found:
        mine, theirs = evidence.target.names[pair.target], evidence.golden.names[pair.golden]
        if mine.direction != "forward":
            continue
        add(
            evidence.target.backward_of(pair.target),
            evidence.golden.backward_of(pair.golden),
            pair.golden,
            pair.confidence,
            "their forward calls are a pair",
        )
        lists = gradients[0].get(mine.stem, []), gradients[1].get(theirs.stem, [])
        if len(lists[0]) == len(lists[1]):
            for a, b in zip(*lists, strict=True):
                add(a, b, pair.golden, pair.confidence, "the modules that own the parameters are a pair")
    return more


def _gradients(side: Side) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(side.names):
        if name.kind == "parameters_grad":
            found[name.stem].append(at)
    return found
