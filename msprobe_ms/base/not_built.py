"""What users can ask for, and this version does not have yet. A row goes when its feature comes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .checks import shown


@dataclass(frozen=True)
class NotBuilt:
    """A setting by the field's name, when its owner is refused for it, and what can be had instead."""

    setting: str
    refused: Callable[[Any], bool]
    instead: str


NOT_BUILT = (
    NotBuilt(
        "task",
        lambda settings: settings.task in ("free_benchmark", "grad_probe"),
        'the tasks "statistics", "tensor" and "structure"',
    ),
    NotBuilt(
        "task",
        lambda settings: settings.task == "overflow_check" and settings.level != "L2",
        'level "L2", or the tasks "statistics", "tensor" and "structure"',
    ),
)


def refused(owner: object) -> Iterator[tuple[str, str]]:
    """The settings of this object that cannot be served yet: the field's name, and what to use instead."""
    for row in NOT_BUILT:
        if hasattr(owner, row.setting) and row.refused(owner):
            value = shown(getattr(owner, row.setting))
            yield (
                row.setting,
                f"{value} is known, but this version does not have it yet; use what it has: {row.instead}",
            )
