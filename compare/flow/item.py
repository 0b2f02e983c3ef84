"""What the walk goes along: one key, or the dump of one stage, of one step and rank, as far as it was judged."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from msprobe.compare.judge.verdict import Grade
from msprobe.compare.locate.finding import Finding

Order: TypeAlias = tuple[int, int, int, int, str]
"""Within a step: the part of the flow; a stage's dump before the keys that it makes; the place among these; what was
saved behind a key; the name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A key or a stage in one step and rank.

    `part` is its number in `parts.FLOW`. `differs`: something in it is not equal to the bit. `grade` is the worst of
    its verdicts, where `unjudged` is worse than `pass` and better than `warning`. `reason` says why, `first` where the
    first difference is. A stage has the first wrong call in `finding`, and in `mode` what its dumps hold;
    `weights_differ` where parameters do. `saved` is the number of a key's first save in its process, -1 where that is
    not known; `is_placed`: a stage whose place in the step is known; `token` the first token of sequences that differs.
    """

    kind: Literal["key", "stage"]
    name: str
    step: int
    rank: int
    part: int
    order: Order
    differs: bool
    grade: Grade
    reason: str = ""
    first: str = ""
    finding: Finding | None = None
    mode: str = ""
    weights_differ: bool = False
    is_placed: bool = True
    saved: int = -1
    token: int | None = None

    @property
    def is_beyond(self) -> bool:
        """Whether it differs beyond its tolerance, or in a way that has none."""
        return self.grade in ("warning", "error") or (self.finding is not None and self.finding.grade != "pass")


_WORSE: dict[Grade, int] = {"pass": 0, "unjudged": 1, "warning": 2, "error": 3}


def worse(grade: Grade) -> int:
    """How bad a grade is."""
    return _WORSE[grade]
