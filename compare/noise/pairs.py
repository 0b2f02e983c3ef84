"""Two dumps side by side along their dataflow: which record corresponds to which, and how far apart they are."""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.compare.core.standard import canonical, family
from msprobe.compare.dataflow.events import Event, events
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import EQUAL, Comparison
from msprobe.compare.judge.verdict import CAUSES, GRADES, Cause
from msprobe.compare.locate.exemptions import trained_alone
from msprobe.compare.locate.wording import RUNNING
from msprobe.compare.match.cross_framework import round_differently
from msprobe.compare.match.pairs import Ints
from msprobe.compare.match.records import tells_inner_nodes
from msprobe.mapping.transform import parse
from msprobe.replay.replay import Partner, Place
from msprobe.store.reader import load_tensor
from msprobe.store.record import PARTS, TENSOR, Columns

_MASKED = 1e3
"""Elements beyond this do not count for what stands beside them, as between two frameworks: a mask of -1e9."""

_MOST_AXES = 6
"""Of tensors whose axes may stand in another order."""

_UNJUDGED = GRADES.index("unjudged")


Array = NDArray[Any]


class Paired:
    """The pairs of records of a comparison, and both dataflow graphs. A tuple has the target's and the golden's.

    `rows` and `calls` lead from a pair to the places in the dumps, `pair_of` and `place_of` back (-1 for none).
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.pairs = comparison, comparison.pairs
        self.is_across = round_differently(self.pairs.target, self.pairs.golden)
        self._tells_inner_nodes = any(map(tells_inner_nodes, (self.pairs.target, self.pairs.golden)))
        self.graphs = Graph(self.pairs.target), Graph(self.pairs.golden)
        self.rows = self.pairs.target_rows, self.pairs.golden_rows
        self.calls = self.pairs.target_calls, self.pairs.golden_calls
        are_paired = np.minimum(*self.rows) >= 0
        if self.is_across:
            are_paired &= comparison.causes != CAUSES.index(Cause.OTHER_GRADIENT)  # two tensors
        self.pair_of = tuple(
            _inverse(rows, are_paired, len(graph.columns)) for rows, graph in zip(self.rows, self.graphs, strict=True)
        )
        self.place_of = tuple(
            _inverse(calls, np.minimum(*self.calls) >= 0, len(graph.names))
            for calls, graph in zip(self.calls, self.graphs, strict=True)
        )
        self.place_alone = tuple(
            {int(call): place for place, call in enumerate(calls.tolist()) if call >= 0 and int(other[place]) < 0}
            for calls, other in (self.calls, self.calls[::-1])
        )
        self.is_given, self.equal = comparison.is_given, comparison.equal
        self.events = events(comparison)
        self._apart: dict[int, float] = {}
        self._laid_out: dict[int, float] = {}
        self._name_inner_outputs()
        self.innermost = {event for event in self.events if event.is_matched and self.is_innermost(event)}

    def _name_inner_outputs(self) -> None:
        """What a pair of cells returns stands for the outputs of the calls inside, where these have no counterparts."""
        for event in self.events:
            if not event.is_matched or event.kind == "api":
                continue
            for row in self.outputs(event):
                made = self.makers(row) if self.pairs.are_tensors(row) else ()
                if all(pair_of[at] < 0 for pair_of, at in zip(self.pair_of, made, strict=False)):
                    for pair_of, at in zip(self.pair_of, made, strict=False):
                        pair_of[at] = row

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

    def partners(self, event: Event) -> dict[Place, Partner]:
        """Which tensors of the target's call are which of the golden's, of a pair of calls and its forward."""
        found: dict[Place, Partner] = {}
        columns = self.graphs[1].columns
        for place in (event.place, *event.forwards):
            is_backward = place == event.place and event.direction == "backward"
            for row in self.rows_of(place):
                at = int(self.rows[1][row])
                if at < 0 or columns.kind[at] != TENSOR or (partner := self._partner(row)) is None:
                    continue
                found[is_backward, PARTS[columns.part[at]], columns.paths[columns.path[at]]] = partner
        return found

    def _partner(self, row: int) -> Partner | None:
        """The target's record of a pair in the golden's layout; None where that cannot be said."""
        if not self.pairs.are_tensors(row):
            return Partner(-1) if GRADES[self.comparison.grades[row]] == "pass" else None
        at, view = int(self.rows[0][row]), self.pairs.notes.views.get(row)
        if view is None:
            return Partner(at)
        columns = self.graphs[1].columns
        _, _, shape = columns.looks[columns.look[int(self.rows[1][row])]]
        back = parse(view.golden).inverse(shape or ()) if view.golden else parse("")
        if view.is_part or back is None:
            return None
        return Partner(at, " | ".join(filter(None, (view.target, str(back)))))

    def makers(self, row: int) -> tuple[int, int]:
        """The two records that the calls wrote which computed a pair of outputs; innermost ones."""
        t, g = (graph.alias(int(rows[row])) for graph, rows in zip(self.graphs, self.rows, strict=True))
        return t, g

    def stands_for_itself(self, row: int) -> bool:
        """Whether a pair of outputs of cells is not what calls inside returned, of which either has a counterpart."""
        made = self.makers(row)
        if any(at == int(rows[row]) for at, rows in zip(made, self.rows, strict=True)):
            return True
        return all(int(pair_of[at]) in (row, -1) for pair_of, at in zip(self.pair_of, made, strict=True))

    def has_counterpart_outside(self, row: int, event: Event) -> bool:
        """Whether the call inside one side's cell that made what it returns has its counterpart outside of the other's:
        two blocks that end at different steps."""
        for side, at in enumerate(self.makers(row)):
            if (pair := int(self.pair_of[side][at])) < 0 or pair == row:
                continue
            graph, cell = self.graphs[1 - side], int(self.calls[1 - side][event.place])
            call = graph.call_of(int(self.rows[1 - side][pair]))
            if call != cell and cell not in graph.around(call):
                return True
        return False

    @cached_property
    def trained_alone(self) -> set[int]:
        """The places of gradients of parameters that one side alone trains."""
        return trained_alone(self.comparison, self.events)

    def has_lone_inputs(self, event: Event) -> bool:
        """Whether one side's call, or its forward, receives a tensor that the other's does not."""
        for place in (event.place, *event.forwards):
            for row in self.rows_of(place):
                if not self.is_given[row] and place == event.place:
                    continue
                sides = [int(rows[row]) for rows in self.rows]
                side = 0 if sides[0] >= 0 else 1
                if min(sides) < 0 and self.graphs[side].columns.kind[sides[side]] == TENSOR:
                    return True
        return False

    def judged_elsewhere(self, row: int) -> int:
        """The pair of outputs, of calls inside, that a pair of outputs of cells is; -1 for none."""
        found = {int(self.pair_of[side][at]) for side, at in enumerate(self.makers(row))}
        return found.pop() if len(found) == 1 and row not in found else -1

    def has_other_form(self, row: int) -> bool:
        """Whether two tensors have another shape or dtype, which no rounding changes."""
        forms = []
        for graph, rows in zip(self.graphs, self.rows, strict=True):
            _, dtype, shape = graph.columns.looks[graph.columns.look[int(rows[row])]]
            forms.append((canonical(dtype), shape))
        return row not in self.pairs.notes.views and forms[0] != forms[1]

    def is_floating(self, row: int) -> bool:
        columns = self.pairs.target.columns
        return family(columns.looks[columns.look[int(self.rows[0][row])]][1]) in ("float", "complex")

    @property
    def kernel_error(self) -> float:
        """Up to where the distance of two outputs tells nothing but how two kernels round."""
        return 0.0

    def may_be_of_inner_node(self, row: int) -> bool:
        """Whether an output may be the gradient of an inner node of autograd on one side, and not an argument's."""
        if not self._tells_inner_nodes or self.is_given[row]:
            return False
        name = names.parse(self.pairs.name(int(self.pairs.call_of[row])))
        return name.kind == "api" and name.direction == "backward"

    def is_running(self, row: int) -> bool:
        """Whether a parameter is a running statistic of a normalisation."""
        return is_running_statistic(self.pairs.target.columns, int(self.rows[0][row]))

    def difference(self, row: int) -> float:
        """The norm of the difference of a pair of tensors; inf where their non-finite elements differ."""
        found = self.comparison.measures.get(row)
        if not self.pairs.are_tensors(row) or (self.equal[row] == EQUAL and found is None):
            return 0.0
        if found is None:
            return self._difference_laid_out_otherwise(row)
        return math.inf if found.mismatched else found.euclid

    def _difference_laid_out_otherwise(self, row: int) -> float:
        """Of two frameworks: the norm of the difference of as many elements in another shape."""
        if row not in self._laid_out:
            both = self.loaded(row) if self.is_across and row not in self.pairs.notes.views else None
            self._laid_out[row] = math.inf if both is None else nearest_layout(*both)
        return self._laid_out[row]

    def loaded(self, row: int) -> tuple[Array, Array] | None:
        """Both tensors of a pair; None where one cannot be read."""
        pair = self.pairs.pair(row)
        if pair.target is None or pair.golden is None:
            return None
        try:
            return load_tensor(self.pairs.target, pair.target), load_tensor(self.pairs.golden, pair.golden)
        except DumpError:
            return None

    def direction(self, row: int) -> str:
        """Whether a pair of records belongs to a forward or a backward call."""
        return names.parse(self.pairs.name(int(self.pairs.call_of[row]))).direction

    def is_sum(self, row: int, made: Sequence[int], rounding: float) -> bool:
        """Whether a tensor may be what pairs of outputs made, or the sum of that; `rounding` is the sum's own.

        By the triangle inequality it cannot differ by more than they do, unless code that was not recorded wrote to it.
        """
        most = 2 * sum(map(self.difference, made))
        if len(made) > 1 or self.is_across:  # the sum of gradients rounds, too, and so do calls of one side
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
        if found is None:
            size = self.size(row)
            return self.difference(row) / size if size else math.inf
        if found.mismatched:
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
        both = None if row in self.pairs.notes.views else self.loaded(row)
        return both is None or both[0].shape != both[1].shape or bool(np.array_equal(both[0] == 0, both[1] == 0))

    def _beside_masked(self, row: int) -> float:
        """The relative error of the elements up to `_MASKED`, where others are greater; 0 where none is, or nothing
        else."""
        columns, at = self.pairs.golden.columns, int(self.rows[1][row])
        if not max(abs(columns.max[at]), abs(columns.min[at])) > _MASKED or row in self.pairs.notes.views:
            return 0.0
        if (both := self.loaded(row)) is None:
            return 0.0
        t, g = both
        near = np.abs(g) <= _MASKED
        if t.shape != g.shape or not near.any() or near.all():
            return 0.0
        t, g = t[near].astype(np.float64), g[near].astype(np.float64)
        norm = float(np.linalg.norm(g))
        return float(np.linalg.norm(t - g)) / norm if norm else 0.0


def is_running_statistic(columns: Columns, row: int) -> bool:
    """Whether a record is a parameter that is a running mean or variance of a normalisation."""
    name = columns.source[row] or ".".join(columns.paths[columns.path[row]])
    return name.rpartition(".")[2] in RUNNING


def nearest_layout(target: Array, golden: Array) -> float:
    """The norm of the difference of two tensors of as many elements in different shapes: with their elements in order,
    or with the target's axes in the order of the golden's that is nearest; inf where neither can be meant.

    One program takes the heads to the front before it scales, the other behind.
    """
    if target.size != golden.size or not target.size or any(a.dtype.kind not in "fiub" for a in (target, golden)):
        return math.inf
    is_turned = target.ndim == golden.ndim and target.shape != golden.shape
    if is_turned and target.squeeze().shape == golden.squeeze().shape:
        return math.inf  # a row is no column: what they are broadcast to differs
    t, g = target.astype(np.float64), golden.astype(np.float64)
    found = [float(np.linalg.norm(t.ravel() - g.ravel()))]
    t, g = t.squeeze(), g.squeeze()
    if t.shape != g.shape and sorted(t.shape) == sorted(g.shape) and t.ndim <= _MOST_AXES:
        orders = (order for order in permutations(range(t.ndim)) if tuple(t.shape[at] for at in order) == g.shape)
        found += [float(np.linalg.norm(t.transpose(order) - g)) for order in orders]
    return min((one for one in found if math.isfinite(one)), default=math.inf)


def _inverse(rows: Ints, are_paired: NDArray[np.bool_], size: int) -> Ints:
    """By row of a dump: the pair that it stands in, -1 for none."""
    found = np.full(size, -1, np.int64)
    known = np.flatnonzero(are_paired)
    found[rows[known[::-1]]] = known[::-1]
    return found
