"""What stands in for the result of a task whose worker died with it, again and again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lost:
    """No result: `reason` is a sentence that says how the workers ended and what to do about it."""

    reason: str
