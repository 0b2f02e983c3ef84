"""The result of the search: pairs of calls, each with a confidence and its reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .features import KIN
from .score import Evidence


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


@dataclass(frozen=True, slots=True)
class Because:
    """The step of the search that made a pair, a key of `_REASONS` or `inside`; `amount` is its margin in points, or
    the part in common."""

    by: str
    amount: float = 0.0


_REASONS = {
    "given": (1.0, "fixed by the user"),
    "parameters": (0.98, "no other module holds the same parameters"),
    "inputs": (0.97, "are given the same weight"),
    "values": (0.96, "no other call takes and gives the same values"),
    "results": (0.9, "no other call around gives the same values"),
    "moved": (0.85, "the only ones of their kind here that are given the same tensors"),
    "weight": (0.93, "the last steps behind calls that are given the same weight"),
    "last": (0.95, "both give the result of the pair of modules around them"),
    "fused": (0.9, "several modules together hold the parameters of one"),
    "use": (
        0.85,
        "of several that look alike the ones that are given the same tensors, or whose results are used alike",
    ),
    "takers": (0.85, "calls that are a pair take their results"),
    "order": (0.0, "stands at the same place in the order of execution"),
}
"""Confidence and reason of a step; by order, the confidence depends on what agrees."""


def words(evidence: Evidence, target: int, because: Because) -> tuple[float, str]:
    """Confidence and reason of a pair."""
    mine, theirs = evidence.features
    golden = evidence.golden_of[target]
    if because.by == "inside":
        return 0.6 + 0.35 * because.amount, f"hold the same paired modules ({because.amount:.0%} of them)"
    sure, reason = _REASONS[because.by]
    said, unsure = [reason], 1.0 - sure
    if because.by == "order":
        out, ins = evidence.agrees(target, golden)
        unsure = 0.4 / (1.0 + because.amount)
        if mine.own_values[target] and mine.own_values[target] == theirs.own_values[golden]:
            said.append("same parameters")
            unsure *= 0.3
        if out and mine.telling[target]:
            said.append("same values come out")
            unsure *= 0.5
        if ins:
            said.append("same values go in")
            unsure *= 0.7
    if evidence.kinship(target, golden) >= KIN:
        is_module = evidence.target.names[target].kind == "cell"
        said.append("classes correspond" if is_module else "the functions correspond")
    if mine.out_shape[target] == theirs.out_shape[golden]:
        said.append("same shapes" if mine.in_shapes[target] == theirs.in_shapes[golden] else "same shape of the result")
    return round(1.0 - unsure, 3), ", ".join(said)
