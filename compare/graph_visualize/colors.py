"""The colors of nodes, and the explanations of the measures in the page's table.

A node has a number from 0 to 1, and a color represents a part of that range. In msprobe 26 the number is the verdict;
in 8.1 it is a distance, which has another meaning for statistics, tensors and digests.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from msprobe.compare.judge.judged import Mode
from msprobe.compare.tables.columns import Column, columns

Task = Literal["all", "summary", "md5", "structure", ""]
"""The type of the comparison, in the plugin's terms: tensors, statistics, digests, only the structure; empty for one
dump."""

Number = int | float


@dataclass(frozen=True, slots=True)
class Color:
    """`part`: from and to; empty for nodes without a counterpart."""

    code: str
    part: tuple[Number, ...]
    level: str
    meaning: str

    def entry(self, with_level: bool) -> dict[str, object]:
        """Return its members in the files."""
        more = {"accuracy_level": self.level} if with_level else {}
        return {"value": list(self.part), "description": self.meaning, **more}


UNMATCHED = Color("#C7C7C7", (), "unmatched node", "The other side does not have this node.")

BY_VERDICT = (
    Color("#FFFCF3", (0, 0.3), "pass", "All compared values of this node are within their limits."),
    Color("#FFDC7F", (0.3, 0.6), "warning", "An output differs by more than the inputs explain; check this node."),
    Color("#FF704D", (0.6, 1), "error", "An input or output exceeds its limit; see the table."),
    UNMATCHED,
)


def _steps(bounds: tuple[Number, ...], meaning: str) -> tuple[Color, ...]:
    codes = ("#FFFCF3", "#FFEDBE", "#FFDC7F", "#FFC62E", "#FF704D")
    parts = pairwise(bounds)
    return (*(Color(code, part, "", meaning) for code, part in zip(codes, parts, strict=True)), UNMATCHED)


BY_DISTANCE = {
    "summary": _steps((0, 0.2, 0.4, 0.6, 0.8, 1), "The largest relative difference of a statistic of the outputs."),
    "all": _steps(
        (0, 0.05, 0.1, 0.15, 0.2, 1),
        "Decrease of the share of elements within 0.001 from the inputs to the outputs.",
    ),
    "md5": (
        Color("#FFFCF3", (1, 1), "", "All digests are equal."),
        Color("#FF704D", (0, 0), "", "A digest differs."),
        UNMATCHED,
    ),
}


def colors(task: Task, by_verdict: bool) -> tuple[Color, ...]:
    """Return the colors of a comparison; for structures only whether a node has a counterpart."""
    if task == "structure":
        return (UNMATCHED,)
    return BY_VERDICT if by_verdict else BY_DISTANCE[task]


_WIDTH_OF_NAMES = 6
_MEASURES: dict[Task, tuple[Mode, int]] = {"summary": ("statistics", 8), "all": ("tensor", 6)}


def measures(task: Task) -> tuple[Column, ...]:
    """Return the columns of a comparison's table that are members of each record in the files."""
    mode, count = _MEASURES.get(task, ("tensor", 0))
    return columns(mode, with_stack=False)[_WIDTH_OF_NAMES : _WIDTH_OF_NAMES + count]


def tool_tips(task: Task) -> dict[str, str]:
    """Return the meaning of each measure, as a sentence."""
    if task == "md5":
        return {"md5": "digest of a tensor; equal if the tensors are bitwise equal"}
    return {column.title: column.text for column in measures(task)}
