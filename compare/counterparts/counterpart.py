"""What the search for counterparts says: pairs of calls, each with a confidence and a reason, and what stayed open."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Target call `target` and golden call `golden`, as positions in `Dump.calls`, are the same step of the program.

    `confidence` is in (0, 1]: 1.0 only for what the user fixed. `reason` says in words what speaks for the pair.
    """

    target: int
    golden: int
    confidence: float
    reason: str


@dataclass(frozen=True)
class Counterparts:
    """Everything that was found: `calls` rises in `target`, and each target stands in one pair at most.

    Several targets share a golden call only where their parameters together are its own: query, key and value of a
    fused projection. `ambiguous` maps a target call without partner to the golden calls that it could be, best first.
    """

    calls: tuple[Counterpart, ...]
    ambiguous: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def golden_of(self) -> dict[int, int]:
        """Target position to golden position."""
        return {pair.target: pair.golden for pair in self.calls}
