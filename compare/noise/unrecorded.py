"""What operations may have computed from that were not recorded: they are judged as one call of an unknown function."""

import math
from collections.abc import Callable

from msprobe.compare.core.noise import State
from msprobe.compare.dataflow.events import Event

from .pairs import AlignedGraphs

AS_NOISY = 3.0
"""After a divergence an input of unknown origin is noise up to so many times what its cell received."""

_SOME = 0.25
"""Of so many elements, by the number that is expected, one may be where a derivative jumps."""

_JUMPING = 0.3
"""Of elements whose relative error is `e` the share of e near a jump leaves at most so many times sqrt(e)."""


class Unrecorded:
    """The noise that unrecorded operations of each cell may have received.

    `states` are those of all pairs of records, which the caller fills as it goes; `judge_inputs` judges what a cell
    received before what calls inside it did. By cell of the target (-1: the root), `_noise_inside` is the greatest
    relative error of what calls directly inside it returned so far.
    """

    def __init__(
        self, aligned: AlignedGraphs, states: "memoryview[int]", judge_inputs: Callable[[Event], None]
    ) -> None:
        self._aligned, self._states, self._judge_inputs = aligned, states, judge_inputs
        self._noise_inside: dict[int, float] = {}

    def error_around(self, event: Event) -> float:
        """The relative error of what operations of the cell around a call may have taken which were not recorded: what
        the cell received, and what calls directly inside it returned before, as far as that is noise. A backward one
        sees the forward's, too."""
        cell = self._cell_around(event)
        found = self._noise_around(cell)
        return max(found, self._noise_around(self._forward_of(cell))) if event.direction == "backward" else found

    def error_of_jumps(self, row: int, event: Event) -> float:
        """The relative error that derivatives leave which jump near values of the forward: a share of the elements as
        large as these' error is wrong altogether, if that is likely to be any."""
        if event.direction != "backward":
            return 0.0
        received = self._noise_around(self._forward_of(self._cell_around(event)))
        return _JUMPING * math.sqrt(received) if received * self._aligned.count(row) >= _SOME else 0.0

    def _forward_of(self, cell: int) -> int:
        return self._aligned.graphs[0].forwards.item(cell) if cell >= 0 else -1

    def _noise_around(self, cell: int) -> float:
        """The greatest relative error of what a cell of the target (-1: the root) received, and calls in it returned,
        as far as it is noise."""
        found = self._noise_inside.get(cell, 0.0)
        if cell < 0 or (place := self._aligned.place_of[0][cell]) < 0:
            return found
        # A cell comes after the calls inside it, and what it received before them.
        self._judge_inputs(self._aligned.event_at[place])
        received = (row for row in self._aligned.pairs.rows(place) if self._aligned.is_input[row])
        noise = (row for row in received if self._states[row] == State.NOISE and self._aligned.are_tensors[row])
        return max(found, *map(self._aligned.distance, noise), 0.0)

    def _cell_around(self, event: Event) -> int:
        return next(self._aligned.graphs[0].around(self._aligned.calls[0][event.place]), -1)

    def note(self, event: Event) -> None:
        errors = [
            self._aligned.distance(row)
            for row in self._aligned.outputs(event)
            if self._states[row] == State.NOISE and self._aligned.are_tensors[row]
        ]
        if errors:
            cell = self._cell_around(event)
            self._noise_inside[cell] = max(self._noise_inside.get(cell, 0.0), *errors)
