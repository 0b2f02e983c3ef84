"""What stands for the result of a task that could not be done; not in the pool, which few commands load."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lost:
    """No result of a task that its workers died with, again and again: `reason` is a sentence that says how they ended
    and what to do about it."""

    reason: str
