"""Two dumps side by side along their dataflow: which record is which of the other side, and how far apart they are."""

import math
from collections.abc import Sequence

import numpy as np

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import EQUAL, Comparison
from msprobe.compare.judge.standard import family
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.events import Event, events
from msprobe.compare.locate.words import RUNNING
from msprobe.compare.match.pairs import Ints
from msprobe.store.read import load_tensor

_MASKED = 1e3
"""Elements beyond this do not count for what stands beside them, as between two frameworks: a mask of -1e9."""

_UNJUDGED = GRADES.index("unjudged")


class Paired:
    """The pairs of records of a comparison, and both dataflow graphs. A tuple has the target's and the golden's.

    `rows` and `calls` lead from a pair to the places in the dumps, `pair_of` and `place_of` back (-1 for none).
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.pairs = comparison, comparison.pairs
        self.graphs = Graph(self.pairs.target), Graph(self.pairs.golden)
        self.rows = self.pairs.target_rows, self.pairs.golden_rows
        self.calls = self.pairs.target_calls, self.pairs.golden_calls
        sides = tuple(zip(self.rows, self.calls, self.graphs, strict=True))
        self.pair_of = tuple(_inverse(rows, len(graph.columns)) for rows, _, graph in sides)
        self.place_of = tuple(_inverse(calls, len(graph.names)) for _, calls, graph in sides)
        self.is_given, self.equal = comparison.is_given, comparison.equal
        self.events = events(comparison)
        self._apart: dict[int, float] = {}
        self.innermost = {event for event in self.events if event.is_matched and self.is_innermost(event)}

    def is_innermost(self, event: Event) -> bool:
        """Whether a pair of calls computes itself: an API, or a cell inside which nothing is recorded."""
        if event.kind not in ("api", "cell") or not event.direction:
            return False
        if event.kind == "api":
            return True
        for side in (0, 1):
            graph, call = self.graphs[side], int(self.calls[side][event.place])
            forward = graph.number.get(names.counterpart(graph.columns.names[call], "forward"), call)
            if forward in graph.inside or call in graph.inside:
                return False
        return True

    def rows_of(self, place: int) -> range:
        starts = self.pairs.starts
        return range(int(starts[place]), int(starts[place + 1]))

    def outputs(self, event: Event) -> list[int]:
        return [row for row in event.rows if not self.is_given[row]]

    def makers(self, row: int) -> tuple[int, int]:
        """The two records that the calls wrote which computed a pair of outputs; innermost ones."""
        t, g = (graph.alias(int(rows[row])) for graph, rows in zip(self.graphs, self.rows, strict=True))
        return t, g

    def judged_elsewhere(self, row: int) -> int:
        """The pair of outputs, of calls inside, that a pair of outputs of cells is; -1 for none."""
        found = {int(self.pair_of[side][at]) for side, at in enumerate(self.makers(row))}
        return found.pop() if len(found) == 1 and row not in found else -1

    def is_floating(self, row: int) -> bool:
        columns = self.pairs.target.columns
        return family(columns.looks[columns.look[int(self.rows[0][row])]][1]) in ("float", "complex")

    def is_running(self, row: int) -> bool:
        """Whether a parameter is a running statistic of a normalisation."""
        columns, at = self.pairs.target.columns, int(self.rows[0][row])
        name = columns.source[at] or ".".join(columns.paths[columns.path[at]])
        return name.rpartition(".")[2] in RUNNING

    def difference(self, row: int) -> float:
        """The norm of the difference of a pair of tensors; inf where their non-finite elements differ."""
        if self.equal[row] == EQUAL or not self.pairs.are_tensors(row):
            return 0.0
        found = self.comparison.measures.get(row)
        return math.inf if found is None or found.mismatched else found.euclid

    def is_sum(self, row: int, made: Sequence[int], rounding: float) -> bool:
        """Whether a tensor may be what pairs of outputs made, or the sum of that; `rounding` is the sum's own.

        By the triangle inequality it cannot differ by more than they do, unless code that was not recorded wrote to it.
        """
        most = 2 * sum(map(self.difference, made))
        if len(made) > 1:  # the sum of gradients rounds, too
            most += rounding * self.size(row)
        return self.difference(row) <= most

    def size(self, row: int) -> float:
        """The norm of the golden of a pair of tensors, as far as it is finite."""
        norm = abs(self.pairs.golden.columns.norm[int(self.rows[1][row])])
        return norm if math.isfinite(norm) else 0.0

    def distance(self, row: int) -> float:
        """The relative error of a pair of tensors: the norm of the difference over the golden's."""
        known = self._apart.get(row)
        if known is None:
            known = self._apart[row] = self._measured(row)
        return known

    def _measured(self, row: int) -> float:
        if self.equal[row] == EQUAL or not self.pairs.are_tensors(row):
            return 0.0
        if self.comparison.grades[row] == _UNJUDGED:
            return 0.0
        found = self.comparison.measures.get(row)
        if found is None or found.mismatched:
            return math.inf
        golden = self.pairs.golden.columns.norm[int(self.rows[1][row])]
        if golden != golden and row in self.comparison.described:
            golden = float(self.comparison.described[row][1].norm or math.nan)
        if found.euclid == 0:
            return 0.0
        if not math.isfinite(golden) and found.scale_error:  # infinities on both sides: the finite elements count
            golden = math.sqrt(found.size) * found.max_absolute / found.scale_error
        apart = found.euclid / abs(golden) if golden and math.isfinite(golden) else math.inf
        return max(apart, self._beside_masked(row))

    def has_same_zeros(self, row: int) -> bool:
        """Whether the same elements are zero on both sides: rounding makes no zero of a small number, nor the other way
        round, but a mask that is too weak does."""
        pair = self.pairs.pair(row)
        if pair.target is None or pair.golden is None or row in self.pairs.notes.views:
            return True
        try:
            t, g = load_tensor(self.pairs.target, pair.target), load_tensor(self.pairs.golden, pair.golden)
        except DumpError:
            return True
        return t.shape != g.shape or bool(np.array_equal(t == 0, g == 0))

    def _beside_masked(self, row: int) -> float:
        """The relative error of the elements up to `_MASKED`, where others are greater; 0 where none is, or nothing
        else."""
        columns, at = self.pairs.golden.columns, int(self.rows[1][row])
        if not max(abs(columns.max[at]), abs(columns.min[at])) > _MASKED or row in self.pairs.notes.views:
            return 0.0
        pair = self.pairs.pair(row)
        if pair.target is None or pair.golden is None:
            return 0.0
        try:
            t, g = load_tensor(self.pairs.target, pair.target), load_tensor(self.pairs.golden, pair.golden)
        except DumpError:
            return 0.0
        near = np.abs(g) <= _MASKED
        if t.shape != g.shape or not near.any() or near.all():
            return 0.0
        t, g = t[near].astype(np.float64), g[near].astype(np.float64)
        norm = float(np.linalg.norm(g))
        return float(np.linalg.norm(t - g)) / norm if norm else 0.0


def _inverse(rows: Ints, size: int) -> Ints:
    """By row of a dump: the pair that it stands in, -1 for none."""
    found = np.full(size, -1, np.int64)
    known = np.flatnonzero(rows >= 0)
    found[rows[known[::-1]]] = known[::-1]
    return found
