"""What users can ask for, and this version does not have yet. A row goes when its feature comes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .checks import shown


@dataclass(frozen=True)
class NotBuilt:
    """A setting by the field's name, which of its values are refused, and what can be had instead."""

    setting: str
    refused: Callable[[Any], bool]
    instead: str


NOT_BUILT = (
    NotBuilt(
        "task",
        lambda task: task not in ("statistics", "tensor", "structure"),
        'the tasks "statistics", "tensor" and "structure"',
    ),
    NotBuilt("level", lambda level: level == "L2", 'the levels "L0", "L1", "mix" and "debug"'),
)


def refused(owner: object) -> Iterator[tuple[str, str]]:
    """The settings of this object that cannot be served yet: the field's name, and what to use instead."""
    for row in NOT_BUILT:
        if hasattr(owner, row.setting) and row.refused(value := getattr(owner, row.setting)):
            yield (
                row.setting,
                f"{shown(value)} is known, but this version does not have it yet; use what it has: {row.instead}",
            )
