"""Across frameworks: pairs of cells that begin or end at different steps of the network.

What one side does as the last step of its block (a concatenation, an activation) the other may do behind the block, and
what one side does before a block the other may do as its first step. Then what the two blocks are given or give are two
different tensors, and neither is wrong. Each of them is compared where its call has its partner.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msprobe.base import names
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.match.pairs import call_of_row
from msprobe.compare.reason import Reason, Why
from msprobe.store.columns import PARTS, TENSOR
from msprobe.store.record import Dump

from .events import Event, parent_of, upwards
from .source import told

_PASS, _UNJUDGED = GRADES.index("pass"), GRADES.index("unjudged")


def ends_elsewhere(comparison: Comparison, events: Sequence[Event]) -> dict[int, Reason]:
    """By row: why a given or a result of a pair of cells is not to be held against the other."""
    ends = _Ends(comparison)
    cells = (e for e in events if e.is_matched and e.kind == "cell" and e.direction == "forward")
    rows = ((row, cell.place) for cell in cells for row in _differing(comparison, cell))
    return {row: said for row, place in rows if (said := ends.of(row, place))}


def gradients_elsewhere(comparison: Comparison, events: Sequence[Event], rows: Iterable[int]) -> dict[int, Reason]:
    """By row: the same of the gradients that belong to cells with such rows."""
    places = {int(comparison.pairs.call_of[row]) for row in rows}
    said = Reason(Why.OTHER_STEP)
    return {
        row: said
        for event in events
        if event.is_matched and event.direction == "backward" and not event.owners and places & set(event.forwards)
        for row in _differing(comparison, event)
    }


def _differing(comparison: Comparison, event: Event) -> list[int]:
    return [row for row in event.rows if comparison.grades[row] not in (_PASS, _UNJUDGED)]


def shells(comparison: Comparison, events: Sequence[Event]) -> dict[int, Reason]:
    """By place: why a cell that only one side has is no difference, where a call inside it gave its result and has a
    partner: the activation that was handed to a dense layer is a function on the other side."""
    ends = _Ends(comparison)
    found: dict[int, Reason] = {}
    for event in events:
        if event.is_matched or event.kind != "cell":
            continue
        if event.direction == "forward" and (gave := ends.paired_inside(event)):
            found[event.place] = Reason(Why.GAVE_RESULT, names=(gave,))
        elif event.direction == "backward" and found.keys() & set(event.forwards):
            found[event.place] = Reason(Why.SHELL)
    return found


class _Ends:
    def __init__(self, comparison: Comparison) -> None:
        pairs = comparison.pairs
        self._pairs = pairs
        self._sides = _Side(pairs.target), _Side(pairs.golden)
        self._calls = pairs.target_calls.tolist(), pairs.golden_calls.tolist()
        both = [(t, g) for t, g in zip(*self._calls, strict=True) if t >= 0 and g >= 0]
        self._partner = dict(both), {g: t for t, g in both}

    def paired_inside(self, event: Event) -> str:
        """The call with a partner that gave the one result of a cell that has none; empty where there is none."""
        own = 0 if event.side == "target" else 1
        side, cell = self._sides[own], self._calls[own][event.place]
        rows = (self._pairs.target_rows, self._pairs.golden_rows)[own]
        results = [int(rows[row]) for row in event.rows if self._pairs.pair(row).record.part == "output"]
        makers = side.makers(results[0], cell) if len(results) == 1 else ()
        return next((side.dump.columns.names[at] for at in makers if at in self._partner[own]), "")

    def of(self, row: int, place: int) -> Reason | None:
        """Why the two records of a row, of the pair of cells at a place, are two tensors; None where they should be
        one."""
        if not self._pairs.are_tensors(row):
            return None
        is_result = self._pairs.pair(row).record.part == "output"
        for own, other in ((0, 1), (1, 0)):
            mine, theirs = self._sides[own], self._sides[other]
            at = int((self._pairs.target_rows, self._pairs.golden_rows)[own][row])
            cell, partner = self._calls[own][place], self._calls[other][place]
            for maker in mine.makers(at, cell) if is_result else mine.origin(at):
                gave, known = mine.dump.columns.names[maker], self._partner[own].get(maker)
                if known is not None and theirs.is_inside(known, partner) != is_result:
                    same = theirs.dump.columns.names[known]
                    why = Why.OUTSIDE_CELL if is_result else Why.INSIDE_CELL
                    return Reason(why, ("target", "golden")[other], names=(gave, same))
                if known is None and is_result and mine.is_further(maker, cell) and partner not in theirs.holding:
                    return Reason(Why.NO_SUCH_PART, ("target", "golden")[other], names=(gave,))
        return None


class _Side:
    def __init__(self, dump: Dump) -> None:
        self.dump = dump

    def is_inside(self, call: int, cell: int) -> bool:
        """Whether a call ran inside a cell's."""
        return self.dump.columns.names[cell] in upwards(parent_of(self.dump, call), self.dump.construct)

    def makers(self, row: int, cell: int) -> Iterator[int]:
        """The calls inside a cell that gave the very tensor of its result at a row; cells also in another shape, for a
        dense layer gives what its activation gave with the axes of its input."""
        look = self.dump.columns.look
        for made in self._results.get(self._key(row), ()):
            at = call_of_row(self.dump, made)
            if (look[made] == look[row] or at in self.cells) and self.is_inside(at, cell):
                yield at

    def origin(self, row: int) -> Iterator[int]:
        """The call that gave a tensor that a cell was given, where the dump tells it."""
        source = told(self.dump.columns.source[row])
        if source.origin == "call" and (at := self._order.get(source.call)) is not None:
            yield at

    def is_further(self, call: int, cell: int) -> bool:
        """Whether a call is of a cell that somebody handed to the framework's layer around it, and not a part of that
        layer (the cells in which nn.LSTM runs); in a cell of the user's own it is one of its steps."""
        from msprobe.mapping.layers import layers_of  # here: one framework needs no table of layers

        if call not in self.cells:
            return False
        inner, outer = (names.parse(self.dump.columns.names[at]) for at in (call, cell))
        part = inner.path[len(outer.path) + 1 :].partition(".")[0]
        layers = layers_of(outer.stem.rpartition(".")[2])
        return bool(layers) and not any(part in layer.inner for layer in layers)

    @cached_property
    def cells(self) -> set[int]:
        """The calls of cells."""
        return {at for at, name in enumerate(self.dump.columns.names) if names.parse(name).kind == "cell"}

    @cached_property
    def holding(self) -> set[int]:
        """The calls of cells that called cells."""
        parents = (parent_of(self.dump, at) for at in self.cells)
        return {self._order[parent] for parent in parents if parent in self._order}

    @cached_property
    def _order(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.dump.columns.names)}

    @cached_property
    def _results(self) -> dict[tuple[object, ...], list[int]]:
        columns, found = self.dump.columns, dict[tuple[object, ...], list[int]]()
        for at, name in enumerate(columns.names):
            if names.parse(name).direction != "forward":
                continue
            for row in range(columns.starts[at], columns.starts[at + 1]):
                if columns.kind[row] == TENSOR and PARTS[columns.part[row]] == "output":
                    found.setdefault(self._key(row), []).append(row)
        return found

    def _key(self, row: int) -> tuple[object, ...]:
        columns = self.dump.columns
        return columns.digest[row], columns.max[row], columns.min[row], columns.mean[row], columns.norm[row]
