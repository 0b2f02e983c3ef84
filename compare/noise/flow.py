"""The state of the judgement along the dataflow: the decisions so far about each pair of records."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.core.limits import Limits
from msprobe.compare.core.noise import DIFFERING, Evidence, State
from msprobe.compare.dataflow.events import Event

from .evidence import OutputEvidence
from .pairs import UNJUDGED, AlignedGraphs

_DIRECTIONS: tuple[names.Direction, ...] = ("forward", "backward", "")


@dataclass(slots=True)
class Unrecorded:
    """The differences that operations which were not recorded may have received, by cell of the target (-1: the root).

    `noise` is the greatest relative error of the inputs of a cell and of the results of calls directly inside it so
    far, as far as that is noise; `differing` are the cells in which such a result differs by more. `without_effect` are
    inputs of cells, by the class of the cell and the tensors of both sides, that differ without an effect;
    `rows_without_effect` are their pairs of records, also at later cells of the class.
    """

    noise: dict[int, float] = field(default_factory=dict)
    differing: set[int] = field(default_factory=set)
    without_effect: set[tuple[str, int, int]] = field(default_factory=set)
    rows_without_effect: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Flow:
    """The states of all pairs of records while calls are judged in execution order, and the data for later calls.

    aligned, outputs, limits : the two graphs, the evidence about outputs, and the limits of noise.
    begun : rows of inputs that agree within noise, and are divergences nevertheless: calls of one side change a tensor
        that the other side passes on.
    is_noisy : the two runs are not bitwise equal even if nothing is wrong.
    states : by row, the `State`.
    are_judged : by row, whether its state was entered; not if all records of a call are equal.
    have_judged_inputs : by event, whether the states of its inputs were entered.
    evidence : by row, the numbers that decided.
    made_of : by row of an input or of the result of a cell, the outputs that are the same tensor.
    stretches : by row, the places of the calls of one side that lead to a divergence.
    changed : rows that may be `begun` in another pass.
    masked : by row, a difference that reaches a tensor, and that a mask hides.
    reordered : rows of outputs that look equal, although parts were joined in another order.
    unmatched : by side, the outputs without a counterpart that a difference reaches, and its size at its source.
    covered : side and number of the calls without a counterpart whose results lead to a comparison.
    greatest : by direction, the greatest relative error of noise so far.
    diverged : the directions in which something differs by more than noise.
    steps, errors : results of the search upstream through calls of one side, by side and call.
    """

    aligned: AlignedGraphs
    outputs: OutputEvidence
    limits: Limits
    begun: Collection[int] = ()
    is_noisy: bool = field(init=False)
    states: "memoryview[int]" = field(init=False)
    are_judged: bytearray = field(init=False)
    have_judged_inputs: bytearray = field(init=False)
    evidence: dict[int, Evidence] = field(default_factory=dict)
    made_of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stretches: dict[int, tuple[int, ...]] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    masked: dict[int, float] = field(default_factory=dict)
    reordered: set[int] = field(default_factory=set)
    unmatched: tuple[dict[int, float], dict[int, float]] = field(default_factory=lambda: ({}, {}))
    covered: set[tuple[int, int]] = field(default_factory=set)
    unrecorded: Unrecorded = field(default_factory=Unrecorded)
    greatest: dict[names.Direction, float] = field(default_factory=lambda: dict.fromkeys(_DIRECTIONS, 0.0))
    diverged: set[names.Direction] = field(default_factory=set)
    steps: dict[tuple[int, int], tuple[set[int], set[int]]] = field(default_factory=dict)
    errors: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        comparison = self.aligned.comparison
        self.is_noisy = self.outputs.are_noisy
        states = np.zeros(len(comparison.equal), np.uint8)
        states[(comparison.grades == UNJUDGED) & ~comparison.is_exempt] = State.UNKNOWN
        self.states = states.data
        self.are_judged = bytearray(len(states))
        self.have_judged_inputs = bytearray(len(self.aligned.events))

    def enter(self, row: int, state: State, event: Event) -> None:
        """Enter the state of a pair of records of a call; one without a verdict can only become a divergence."""
        if self.states[row] == State.UNKNOWN and state != State.DIVERGENT:
            return
        self.states[row] = state
        self.are_judged[row] = True
        if state == State.NOISE:
            if self.greatest[event.direction] < (distance := self.aligned.distance(row)) < math.inf:
                self.greatest[event.direction] = distance
        elif state in DIFFERING:
            self.diverged.add(event.direction)

    def are(self, *states: State) -> NDArray[np.bool_]:
        """Return which pairs of records have one of these states."""
        found: NDArray[np.bool_] = np.isin(np.asarray(self.states), states)
        return found

    def rounding(self, row: int) -> float:
        """Return the relative rounding error of one call that writes a tensor; 0 if the runs are bitwise equal."""
        return self.outputs.floor(row) if self.is_noisy else 0.0
