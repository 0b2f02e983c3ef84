"""Rank the lines whose calls amplify a change of their inputs, relative to the other lines of the run."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import median

from msprobe.base.phrase import Phrase, phrase
from msprobe.findings.catalogue.single_calls import ILL_CONDITIONED

from .finding import Place, Sensitivity

PEERS = 2
"""Minimum number of other lines of the same API that define the usual value; with fewer, all other lines do."""

_SMALLEST = 1e-3
"""Minimum of the usual value, since next to calls that amplify nothing every call would be an outlier."""


MAX_LOGGED = 3
"""Lines that the log lists."""


@dataclass
class Line:
    """The calls of one API at one line of the user's code, so far."""

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
    """Return the lines with known conditions, the largest excess first; at a tie, by condition."""
    known = [line for line in lines if line.conditions]
    typical = {id(line): median(line.conditions) for line in known}
    found = []
    for line in known:
        others = [each for each in known if each is not line]
        kind = [each for each in others if each.stem == line.stem]
        of_kind = len(kind) >= PEERS
        peers = [typical[id(each)] for each in (kind if of_kind else others)]
        peers = [each for each in peers if each > 0] or peers  # lines that a change does not reach are not informative
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


def logged(found: Sequence[Sensitivity]) -> list[str]:
    """Return the most sensitive lines as lines of the log, or one line if there are none."""
    named = [each for each in found if each.is_ill_conditioned][:MAX_LOGGED]
    if not named:
        top = _times(max((each.condition for each in found), default=0.0))
        return [f"free_benchmark: no call is an outlier; a relative change of an input is amplified at most {top}"]
    code = ILL_CONDITIONED.code
    return [f"free_benchmark: {number}. {_amplifies(each)} [{code}]" for number, each in enumerate(named, 1)]


def _amplifies(each: Sensitivity) -> Phrase:
    fields = {
        "worst": each.worst,
        "step": each.step,
        "times": _times(each.condition),
        "place": f" ({each.place})" if each.place.file else "",
    }
    if each.usual is None:
        return ILL_CONDITIONED.sentence("alone", **fields)
    peers = phrase("other lines with {stem}", stem=each.stem) if each.of_kind else phrase("the other calls of this run")
    return ILL_CONDITIONED.sentence("with peers", peers=peers, usual=each.usual, **fields)


def _times(factor: float) -> Phrase:
    if isfinite(factor):
        return phrase("{factor:.2g} times", factor=factor)
    return phrase("without bound: its output was all zeros")
