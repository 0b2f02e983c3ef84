"""The result of a task that failed. Not in the pool, which few commands load."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a task whose workers died repeatedly: `reason` is a sentence about how they ended and what to
    do."""

    reason: str
