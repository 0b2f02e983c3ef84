"""Results of operations that were not recorded: they are judged as one call of an unknown function."""

import math
from collections.abc import Callable, Iterable

from msprobe.base import names
from msprobe.compare.core.noise import DIFFERING, State
from msprobe.compare.dataflow.events import Event

from .pairs import AlignedGraphs

AS_NOISY = 3.0
"""After a divergence, an input of unknown origin is noise up to this multiple of the noise of its cell's inputs."""

_UNTRACED = ("unknown", "code")
"""Origins of tensors that unrecorded code produced."""

_SOME = 0.25
"""Expected number of elements from which on one may be where a derivative jumps."""

_JUMPING = 0.3
"""Of elements with relative error e, the share of e that is near a jump causes an error of at most this multiple of
sqrt(e)."""


class Unrecorded:
    """The noise that unrecorded operations of each cell may have received.

    `states` are those of all pairs of records, which the caller fills in; `judge_inputs` judges the inputs of a cell
    before those of calls inside it. By cell of the target (-1: the root), `_noise_inside` is the greatest relative
    error of results of calls directly inside it so far. `rows_without_effect` are inputs of cells that differ, and that
    are known to have no effect from another cell of the class.
    """

    def __init__(
        self, aligned: AlignedGraphs, states: "memoryview[int]", judge_inputs: Callable[[Event], None]
    ) -> None:
        self._aligned, self._states, self._judge_inputs = aligned, states, judge_inputs
        self._noise_inside: dict[int, float] = {}
        self._differing_inside = set[int]()  # cells of the target with calls that returned a greater difference
        self._without_effect = set[tuple[str, int, int]]()  # class of a cell, and its input on both sides
        self.rows_without_effect = set[int]()

    def error_around(self, event: Event) -> float:
        """Return the relative error of values that unrecorded operations of the cell around a call may have used: the
        inputs of the cell, and earlier results of calls directly inside it, as far as that is noise. For a backward
        call, those of the forward are included."""
        cell = self._cell_around(event)
        found = self._noise_around(cell)
        return max(found, self._noise_around(self._forward_of(cell))) if event.direction == "backward" else found

    def error_at(self, side: int, call: int) -> float:
        """Return `error_around` of a call that only one side makes, if such operations produced some of its inputs; 0
        if recorded calls produced all."""
        graph, cell = self._aligned.graphs[side], -1
        if not any(graph.origin(row)[0] in _UNTRACED for row in graph.inputs(call)):
            return 0.0
        for cell in graph.around(call):
            if (place := self._aligned.place_of[side][cell]) >= 0:
                ours = self._aligned.calls[0][place]
                found = self._noise_around(ours)
                is_backward = graph.names[call].direction == "backward"
                return max(found, self._noise_around(self._forward_of(ours))) if is_backward else found
        return self._noise_around(-1)

    def may_have_received(self, event: Event) -> bool:
        """Return whether values that unrecorded operations of the cell around a call may have used differ by more than
        noise.

        Values that were used without effect in another cell of the class are excluded. A mask in two forms does not
        explain their results.
        """
        cell = self._cell_around(event)
        cells = (cell, self._forward_of(cell)) if event.direction == "backward" else (cell,)
        return any(map(self._has_differing, cells))

    def _has_differing(self, cell: int) -> bool:
        if cell in self._differing_inside:
            return True
        if cell < 0 or (place := self._aligned.place_of[0][cell]) < 0:
            return False
        event = self._aligned.event_at[place]
        self._judge_inputs(event)
        received = (row for row in event.rows if self._aligned.is_input[row] and self._states[row] in DIFFERING)
        return any(
            self._leaf(event, row) not in self._without_effect and not self._aligned.is_same_mask(row)
            for row in received
        )

    def _leaf(self, event: Event, row: int) -> tuple[str, int, int] | None:
        """Return the class of a cell and the identity of a pair of inputs on both sides; None if calls produced it."""
        aligned = self._aligned
        if not aligned.are_tensors[row]:
            return None
        sides = [(graph, rows[row]) for graph, rows in zip(aligned.graphs, aligned.rows, strict=True)]
        if any(graph.origin(at)[0] not in _UNTRACED for graph, at in sides):
            return None
        ours, theirs = (graph.numbers[at] for graph, at in sides)
        return None if min(ours, theirs) < 0 else (names.parse(event.name).stem.rpartition(".")[2], ours, theirs)

    def _has_no_effect(self, event: Event, leaves: Iterable[tuple[str, int, int]]) -> bool:
        """Return whether all results of unrecorded operations of a cell from some leaves agree, as far as calls inside
        it used them; leaves that it only passes on are excluded."""
        aligned, graph = self._aligned, self._aligned.graphs[0]
        handed_on = {number for _, number, _ in leaves}
        pairs = [
            pair
            for call in graph.below(self._aligned.calls[0][event.place])
            for row in graph.inputs(call)
            if graph.origin(row)[0] in _UNTRACED
            and graph.numbers[row] not in handed_on
            and (pair := aligned.pair_of[0][row]) >= 0
        ]
        return bool(pairs) and not any(self._states[pair] in DIFFERING for pair in pairs)

    def error_of_jumps(self, row: int, event: Event) -> float:
        """Return the relative error caused by derivatives that jump near values of the forward: a share of the elements
        equal to their error is completely wrong, if at least one is expected to be."""
        if event.direction != "backward":
            return 0.0
        received = self._noise_around(self._forward_of(self._cell_around(event)))
        return _JUMPING * math.sqrt(received) if received * self._aligned.count(row) >= _SOME else 0.0

    def _forward_of(self, cell: int) -> int:
        return self._aligned.graphs[0].forwards.item(cell) if cell >= 0 else -1

    def _noise_around(self, cell: int) -> float:
        """Return the greatest relative error of the inputs of a cell of the target (-1: the root), and of results of
        calls in it, as far as it is noise."""
        found = self._noise_inside.get(cell, 0.0)
        if cell < 0 or (place := self._aligned.place_of[0][cell]) < 0:
            return found
        # A cell comes after the calls inside it, and its inputs before them.
        self._judge_inputs(self._aligned.event_at[place])
        received = (row for row in self._aligned.pairs.rows(place) if self._aligned.is_input[row])
        noise = (row for row in received if self._states[row] == State.NOISE and self._aligned.are_tensors[row])
        return max(found, *map(self._aligned.distance, noise), 0.0)

    def _cell_around(self, event: Event) -> int:
        return next(self._aligned.graphs[0].around(self._aligned.calls[0][event.place]), -1)

    def note(self, event: Event) -> None:
        """Note the results of a pair of calls; a cell comes after the calls inside it."""
        cell, outputs, states = self._cell_around(event), self._aligned.outputs(event), self._states
        has_differing_outputs = any(states[row] in DIFFERING for row in outputs)
        if has_differing_outputs:
            self._differing_inside.add(cell)
        if event.kind == "cell" and (self._without_effect or not has_differing_outputs):
            received = [row for row in event.rows if self._aligned.is_input[row] and states[row] in DIFFERING]
            found = {row: leaf for row in received if (leaf := self._leaf(event, row)) is not None}
            if found and not has_differing_outputs and self._has_no_effect(event, found.values()):
                self._without_effect.update(found.values())
            self.rows_without_effect.update(row for row, leaf in found.items() if leaf in self._without_effect)
        errors = [
            self._aligned.distance(row)
            for row in outputs
            if self._states[row] == State.NOISE and self._aligned.are_tensors[row]
        ]
        if errors:
            self._noise_inside[cell] = max(self._noise_inside.get(cell, 0.0), *errors)
