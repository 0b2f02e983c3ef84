"""Which calls amplify a change of their inputs most, beyond what is usual around them."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from statistics import median

from .finding import Place, Sensitivity

PEERS = 2
"""Other lines of the same API from which on they say what is usual; with fewer, all other lines do."""

_SMALLEST = 1e-3
"""What is usual is this at least: beside calls that amplify nothing every one would stand out."""


@dataclass
class Line:
    """The calls of one API at one line of the user's, so far."""

    stem: str
    place: Place
    calls: int = 0
    inconsistent: int = 0
    non_finite: int = 0
    max_rel: float = 0.0
    conditions: "array[float]" = field(default_factory=lambda: array("d"))
    condition: float = -1.0
    worst: str = ""
    step: int = 0

    def add(self, name: str, step: int, condition: float | None) -> None:
        """Record the condition of a call; None where its input did not change."""
        if condition is None or condition != condition:
            return
        self.conditions.append(condition)
        if condition > self.condition:
            self.condition, self.worst, self.step = condition, name, step


def ranked(lines: Iterable[Line]) -> tuple[Sensitivity, ...]:
    """The lines whose conditions are known, those with the largest excess first; at a tie, by condition."""
    known = [line for line in lines if line.conditions]
    typical = {id(line): median(line.conditions) for line in known}
    found = []
    for line in known:
        others = [each for each in known if each is not line]
        kind = [each for each in others if each.stem == line.stem]
        of_kind = len(kind) >= PEERS
        peers = [typical[id(each)] for each in (kind if of_kind else others)]
        peers = [each for each in peers if each > 0] or peers  # what a change does not reach says nothing
        usual = median(peers) if peers else None
        excess = line.condition / max(usual, _SMALLEST) if usual is not None else line.condition
        if usual is not None and not isfinite(usual):
            excess = 1.0
        found.append(
            Sensitivity(
                *(line.stem, line.place, line.worst, line.step, line.calls, line.condition, typical[id(line)]),
                *(usual, of_kind, excess, line.inconsistent, line.max_rel, line.non_finite),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.excess, -each.condition, each.worst)))
