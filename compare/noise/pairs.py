"""The dataflow graphs of two dumps, aligned by the pairs of a comparison, and the distances of tensors."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.compare.core.reason import CAUSES, Cause
from msprobe.compare.core.standard import canonical, family
from msprobe.compare.dataflow.events import Event, events, events_by_place
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import EQUAL, Comparison, calls_with
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.match.fused import SUM, groups
from msprobe.compare.match.pairs import Ints
from msprobe.compare.match.records import has_inner_node_gradients
from msprobe.mapping.transform import parse
from msprobe.store.reader import load_tensor
from msprobe.store.record import NULL, PARTS, TENSOR, Columns

from .identities import is_sum_of
from .summary import Summaries

if TYPE_CHECKING:
    from msprobe.replay.replay import Partner, Place

PASS, WARNING, ERROR, UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))

_MASKED = 1e3
"""Elements beyond this are excluded from the scale of the others, as between two frameworks: a mask of -1e9."""

_MAX_AXES = 6
"""Maximum number of axes of tensors whose axes may be permuted."""

Array = NDArray[Any]


class AlignedGraphs(ABC):
    """The dataflow graphs of a comparison's two dumps. Tuples have the target's value and the golden's.

    A *row* is a pair of records, a *place* a pair of calls, as the comparison numbers them. `rows` and `calls` convert
    these to the dumps' own numbers, `pair_of` and `place_of` convert back (-1 for none); `unmatched_place` is
    `place_of` for calls without a counterpart. `innermost` are the pairs of calls that compute something themselves, in
    execution order: APIs, and cells inside which nothing is recorded. Subclasses define distances of two tensors: by
    elements or by statistics.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.pairs = comparison, comparison.pairs
        self.has_other_kernels = self.pairs.relation.has_other_kernels
        self._has_inner_nodes = any(map(has_inner_node_gradients, (self.pairs.target, self.pairs.golden)))
        self.graphs = Graph(self.pairs.target), Graph(self.pairs.golden)
        rows = self.pairs.target_rows, self.pairs.golden_rows
        calls = self.pairs.target_calls, self.pairs.golden_calls
        are_paired = np.minimum(*rows) >= 0
        if self.has_other_kernels:
            are_paired &= comparison.causes != CAUSES.index(Cause.OTHER_GRADIENT)  # two tensors
        views = self.pairs.notes.views
        are_paired[[row for row, view in views.items() if view == SUM]] = False  # as are a sum and a part of it
        sides = list(zip(self.graphs, rows, calls, strict=True))
        # An element of a memoryview is read faster than one of an array, and is a Python number.
        self.pair_of = tuple(_inverse(mine, are_paired, len(graph.columns)) for graph, mine, _ in sides)
        self.place_of = tuple(_inverse(mine, np.minimum(*calls) >= 0, len(graph.names)) for graph, _, mine in sides)
        self.rows, self.calls = (rows[0].data, rows[1].data), (calls[0].data, calls[1].data)
        kinds = [np.append(np.frombuffer(graph.columns.kind, np.uint8), 255)[mine] for graph, mine, _ in sides]
        self.are_tensors = _flags((kinds[0] == TENSOR) & (kinds[1] == TENSOR))
        self.is_input, self.grades, self.equal = (
            _flags(comparison.is_input),
            comparison.grades.data,
            comparison.equal.data,
        )
        self._of_whole: tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]] = ({}, {})
        for parts in groups(views, *rows):
            side = 1 if views[parts[0]].golden else 0
            self._of_whole[side][self.rows[side][parts[0]]] = parts
        self.unmatched_place = tuple(
            {call: place for place, call in enumerate(mine) if call >= 0 and others[place] < 0}
            for mine, others in (self.calls, self.calls[::-1])
        )
        self.events = events(comparison.pairs)
        self._call_of = comparison.pairs.call_of.data
        self.event_at = events_by_place(comparison.pairs)
        self._order = np.empty(len(self.pairs), np.int64)  # by place: the position in execution order
        self._order[list(self.event_at)] = np.arange(len(self.events))
        self._are_matched = np.minimum(*calls) >= 0
        self._name_inner_outputs()
        are_innermost = self._are_innermost().data
        self.innermost = dict.fromkeys(
            event
            for event in self.events
            if event.is_matched
            and event.direction
            and (event.kind == "api" or (event.kind == "cell" and are_innermost[event.place]))
        )

    def _name_inner_outputs(self) -> None:
        """Use the results of a pair of cells as outputs of the calls inside, if these have no counterparts."""
        wanted = np.zeros(len(self.pairs), bool)
        wanted[[event.place for event in self.events if event.is_matched and event.kind != "api"]] = True
        rows = np.flatnonzero(wanted[self.pairs.call_of] & np.asarray(self.are_tensors) & ~np.asarray(self.is_input))
        are_open = np.ones(len(rows), bool)
        for graph, pair_of, mine in zip(self.graphs, self.pair_of, self.rows, strict=True):
            are_open &= np.asarray(pair_of)[graph.aliases(np.asarray(mine)[rows])] < 0
        rows = rows[are_open]
        for row in rows[np.argsort(self._order[self.pairs.call_of[rows]], kind="stable")].tolist():
            made = self.makers(row)
            wholes = [self._of_whole[side].get(self.rows[side][row], ()) for side in (0, 1)]
            if all(
                pair_of[at] < 0 or pair_of[at] in parts
                for pair_of, at, parts in zip(self.pair_of, made, wholes, strict=True)
            ):
                for side, (pair_of, at, parts) in enumerate(zip(self.pair_of, made, wholes, strict=True)):
                    if pair_of[at] < 0:
                        pair_of[at] = row
                    if parts:
                        self._of_whole[side][at] = parts

    def pairs_of(self, side: int, row: int) -> tuple[int, ...]:
        """Return the pairs that contain a record of one side: several if its parts are records of the other side."""
        pair = self.pair_of[side][row]
        return self._of_whole[side].get(row) or ((pair,) if pair >= 0 else ())

    def _are_innermost(self) -> NDArray[np.bool_]:
        """Return by pair of calls whether it computes something itself, if it is a function or cell with a
        direction."""
        found = np.ones(len(self.pairs), bool)
        for graph, calls in zip(self.graphs, self.calls, strict=True):
            has_inside = np.zeros(len(graph.names) + 1, bool)
            has_inside[list(graph.inside)] = True
            has_inside[:-1] |= has_inside[graph.forwards]
            found &= ~has_inside[np.asarray(calls)]
        return found

    # Calls in execution order.

    def in_order(self, places: Ints) -> list[Event]:
        """Return the calls at some places in execution order."""
        return [self.events[at] for at in np.sort(self._order[places]).tolist()]

    def events_with(self, rows: NDArray[np.bool_]) -> list[Event]:
        """Return the pairs of calls that have some of these pairs of records, in execution order."""
        return self.in_order(np.flatnonzero((calls_with(self.comparison, rows) > 0) & self._are_matched))

    @cached_property
    def one_sided(self) -> list[Event]:
        """Return the calls that only one side makes, in execution order."""
        return self.in_order(np.flatnonzero(~self._are_matched))

    @cached_property
    def first_with_tensors(self) -> int:
        """Return the place of the first call that has a pair of tensors; -1 for none."""
        places = np.unique(self.pairs.call_of[np.asarray(self.are_tensors)])
        return int(places[np.argmin(self._order[places])]) if len(places) else -1

    # Records of calls.

    def calls_with(self, rows: NDArray[np.bool_]) -> bytes:
        """Return by pair of calls whether it has some of these pairs of records."""
        return (calls_with(self.comparison, rows) > 0).tobytes()

    def outputs(self, event: Event) -> list[int]:
        is_input = self.is_input
        return [row for row in event.rows if not is_input[row]]

    def inputs_of(self, event: Event) -> list[int]:
        """Return the rows from which the outputs of a call are computed; for a backward call also the records of its
        forward."""
        is_input = self.is_input
        found = [row for row in event.rows if is_input[row]]
        for place in event.forwards:
            found += self.pairs.rows(place)
        return found

    @cached_property
    def with_differing(self) -> bytes:
        """Return by pair of calls whether it has records that are not bitwise equal."""
        return self.calls_with(np.asarray(self.equal) != EQUAL)

    @cached_property
    def records_apis(self) -> bool:
        """Return whether both sides recorded the calls of APIs."""
        return all(graph.dump.level in ("L1", "mix") for graph in self.graphs)

    @cached_property
    def _with_other_values(self) -> bytes:
        is_wrong = np.isin(self.comparison.grades, (WARNING, ERROR)) & ~np.asarray(self.are_tensors)
        if not self.has_other_kernels:  # an argument that only one side passes
            is_wrong |= self.comparison.causes == CAUSES.index(Cause.UNMATCHED)
        return self.calls_with(is_wrong & np.asarray(self.is_input))

    def has_other_values(self, event: Event) -> bool:
        """Return whether an argument of a pair of calls, or of their forward, that is not a tensor differs."""
        found = self._with_other_values
        return bool(found[event.place]) or any(found[place] for place in event.forwards)

    def has_unmatched_inputs(self, event: Event) -> bool:
        """Return whether one side's call, or its forward, receives a tensor that the other's does not."""
        return any(self.unmatched_tensor(row) for row in self.inputs_of(event))

    def unmatched_tensor(self, row: int) -> tuple[int, int] | None:
        """Return side and own row of a tensor that only one side has; None for any other record."""
        t, g = (rows[row] for rows in self.rows)
        side, at = (0, t) if t >= 0 else (1, g)
        return (side, at) if min(t, g) < 0 and self.graphs[side].columns.kind[at] == TENSOR else None

    def name(self, row: int) -> names.Name:
        """Return the name of the pair of calls that a pair of records belongs to."""
        return names.parse(self.pairs.name(self.pairs.call_of.item(row)))

    def direction(self, row: int) -> names.Direction:
        """Return the direction of the pair of calls that a pair of records belongs to."""
        return self.event_at[self._call_of[row]].direction

    def dtype_and_shape(self, side: int, row: int) -> tuple[str, tuple[int, ...] | None]:
        """Return dtype and shape of one side's record of a pair."""
        columns = self.graphs[side].columns
        _, dtype, shape = columns.looks[columns.look[self.rows[side][row]]]
        return dtype, shape

    def path(self, side: int, row: int) -> tuple[str, ...]:
        """Return the path of one side's record of a pair."""
        columns = self.graphs[side].columns
        path: tuple[str, ...] = columns.path_of(self.rows[side][row])
        return path

    def has_other_form(self, row: int) -> bool:
        """Return whether two tensors have different shapes or dtypes, which rounding cannot cause."""
        (dtype_t, shape_t), (dtype_g, shape_g) = self.dtype_and_shape(0, row), self.dtype_and_shape(1, row)
        is_same = shape_t == shape_g and canonical(dtype_t) == canonical(dtype_g)
        return row not in self.pairs.notes.views and not is_same

    def is_floating(self, row: int) -> bool:
        return family(self.dtype_and_shape(0, row)[0]) in ("float", "complex")

    def is_constant(self, row: int) -> bool:
        """Return whether all elements of a tensor are equal: zeros times anything are zeros in any kernel."""
        columns, at = self.graphs[0].columns, self.rows[0][row]
        return bool(columns.max[at] == columns.min[at])

    def is_same_mask(self, row: int) -> bool:
        """Return whether two masks, tensors of zeros and one number far below zero, hide the same number of elements by
        different numbers: two forms of one mask, with equal results of a softmax. With the same number, other elements
        are hidden."""
        if not self.are_tensors[row] or not self.is_floating(row):
            return False
        sides = [(graph.columns, rows[row]) for graph, rows in zip(self.graphs, self.rows, strict=True)]
        hidden = [_hidden_elements(columns, at) for columns, at in sides]
        lowest = {columns.min[at] for columns, at in sides}
        return 0 < hidden[0] == hidden[1] and len(lowest) > 1

    def may_be_of_inner_node(self, row: int) -> bool:
        """Return whether an output may be, on one side, the gradient of an inner node of autograd instead of an
        argument's."""
        if not self._has_inner_nodes or self.is_input[row]:
            return False
        name = self.name(row)
        return name.kind == "api" and name.direction == "backward"

    # Dataflow.

    def made_by(self, side: int, row: int) -> list[int]:
        """Return the outputs that are the same tensor as an input of one side's call, or its summands."""
        graph = self.graphs[side]
        if graph.names[graph.call_of[row]].direction == "backward":
            return graph.contributions(row)[0]
        kind, made = graph.origin(row)
        return [made] if kind == "call" else []

    def calls_inside(self, side: int, event: Event) -> Iterator[tuple[int, int]]:
        """Yield the calls inside a cell of one side that are pairs, at any depth: their numbers and places."""
        graph, place_of, waiting = self.graphs[side], self.place_of[side], [self.calls[side][event.place]]
        while waiting:
            for call in graph.below(waiting.pop()):
                if call in graph.inside or graph.names[call].kind == "parameters_grad":
                    waiting.append(call)
                if (place := place_of[call]) >= 0:
                    yield call, place

    def is_compared_inside(self, event: Event) -> bool:
        """Return whether some pair of calls inside a pair of cells is judged by its own inputs."""
        rows = (row for _, place in self.calls_inside(0, event) for row in self.pairs.rows(place))
        return any(self.is_input[row] and self.are_tensors[row] for row in rows)

    def last_calls(self, row: int, event: Event) -> Iterator[tuple[int, int]]:
        """Yield the calls, by side, that computed the result of a pair of cells, without the layer itself."""
        for side, (graph, at) in enumerate(zip(self.graphs, self.makers(row), strict=True)):
            call = graph.call_of[at]
            if graph.dump.parents[call] != self.calls[side][event.place]:
                yield side, call

    @cached_property
    def are_untraced(self) -> bytes:
        """Return by row whether it is a pair of tensors that differ and whose origin as an input is in neither dump;
        empty if backward calls were recorded, as these contain more."""
        if any(graph.has_backward for graph in self.graphs):
            return b""
        found: NDArray[np.bool_] = np.asarray(self.are_tensors) & (np.asarray(self.equal) != EQUAL)
        found &= np.asarray(self.grades) != UNJUDGED
        for graph, rows in zip(self.graphs, self.rows, strict=True):
            found[found] = graph.are_of_unknown_origin(np.asarray(rows)[found])
        return found.tobytes()

    def makers(self, row: int) -> tuple[int, int]:
        """Return the two records that the innermost calls which computed a pair of outputs wrote."""
        return self.graphs[0].alias(self.rows[0][row]), self.graphs[1].alias(self.rows[1][row])

    def has_other_function(self, row: int) -> bool:
        """Return whether the calls that computed a pair of outputs are not a pair, or have different functions."""
        calls = [graph.call_of[at] for graph, at in zip(self.graphs, self.makers(row), strict=True)]
        ours, theirs = (place_of[call] for place_of, call in zip(self.place_of, calls, strict=True))
        if ours != theirs or ours < 0:
            return True
        mine, other = (graph.names[call] for graph, call in zip(self.graphs, calls, strict=True))
        return mine.kind == "api" and mine.stem != other.stem

    def pairs_of_makers(self, row: int) -> tuple[int, int]:
        """Return the pairs that contain these two records; -1 for none."""
        t, g = self.makers(row)
        return self.pair_of[0][t], self.pair_of[1][g]

    def is_judged_itself(self, row: int) -> bool:
        """Return whether a pair of outputs of cells was not returned by calls inside, either of which has a
        counterpart."""
        if any(at == rows[row] for at, rows in zip(self.makers(row), self.rows, strict=True)):
            return True
        return all(
            not pairs or row in pairs for pairs in (self.pairs_of(side, at) for side, at in enumerate(self.makers(row)))
        )

    def judged_elsewhere(self, row: int) -> int:
        """Return the pair of outputs of calls inside that is the same as a pair of outputs of cells; -1 for none."""
        t, g = self.pairs_of_makers(row)
        return t if t == g != row else -1

    def has_counterpart_outside(self, row: int, event: Event) -> bool:
        """Return whether the call inside the cell of one side that produced its result has a counterpart outside of the
        other side's cell: two blocks that end at different steps."""
        for side, pair in enumerate(self.pairs_of_makers(row)):
            if pair < 0 or pair == row:
                continue
            graph, cell = self.graphs[1 - side], self.calls[1 - side][event.place]
            call = graph.call_of[self.rows[1 - side][pair]]
            if call != cell and cell not in graph.around(call):
                return True
        return False

    def is_computed(self, row: int) -> bool:
        """Return whether calls, recorded or not, produced a pair of records on either side, so that it is not a
        parameter, constant or value."""
        if not self.is_input[row] or self.direction(row) == "backward":
            return True
        sides = zip(self.graphs, self.rows, strict=True)
        origins = [graph.origin(rows[row])[0] for graph, rows in sides if rows[row] >= 0]
        return bool(self.are_tensors[row]) and not {"parameter", "leaf"}.intersection(origins)

    def is_constant_input(self, row: int) -> bool:
        """Return whether no gradient goes back through an input of a call through which others do: a table, a mask."""
        for graph, rows in zip(self.graphs, self.rows, strict=True):
            back = graph.gradient(rows[row])
            if back >= 0 and graph.columns.kind[back] == NULL and graph.has_outputs(graph.call_of[back]):
                return True
        return False

    def is_whole(self, row: int, parts: Sequence[int]) -> bool:
        """Return whether an incoming gradient of the golden is the sum of these of its records, as far as its mean
        shows: operations that were not recorded may also have used the tensor."""
        of = self._golden_summaries
        whole, added = of.of(self.rows[1][row]), [of.of(at) for at in parts]
        known = [one for one in added if one is not None]
        return whole is None or len(known) < len(added) or is_sum_of(whole, known)

    @cached_property
    def _golden_summaries(self) -> Summaries:
        return Summaries(self.graphs[1].columns)

    # Distances.

    has_elements = False
    """Whether distances are those of elements."""

    kernel_error = 0.0
    """The distance of two outputs up to which it shows only the rounding of two kernels."""

    @abstractmethod
    def difference(self, row: int) -> float:
        """Return the norm of the difference of a pair of tensors; inf if their non-finite elements differ."""

    def is_masked(self, row: int) -> bool:
        """Return whether the distance of a pair of tensors is not evidence about most elements, as others are far
        greater."""
        return False

    @abstractmethod
    def has_same_zeros(self, row: int) -> bool:
        """Return whether the same elements are zero on both sides: rounding does not make a small number zero, or a
        zero a small number, but a mask that is too weak does."""

    @abstractmethod
    def is_sum(self, row: int, made: Sequence[int], rounding: float) -> bool:
        """Return whether a tensor may be one of these pairs of outputs, or their sum; `rounding` is the sum's own."""

    @abstractmethod
    def distance(self, row: int) -> float:
        """Return the relative error of a pair of tensors: the norm of the difference over the golden's."""

    def distance_of_product(self, row: int) -> float:
        """Return `distance` of a product of two matrices that both have errors."""
        return self.distance(row)

    def count(self, row: int) -> int:
        """Return the number of elements of the target's tensor of a pair."""
        return math.prod(self.dtype_and_shape(0, row)[1] or ())

    def share(self, row: int) -> float:
        """Return the distance of a pair of tensors as printed: relative to the norm."""
        return self.distance(row)

    def size(self, row: int) -> float:
        """Return the norm of the golden tensor of a pair, without non-finite elements."""
        norm = abs(self.graphs[1].columns.norm[self.rows[1][row]])
        return norm if math.isfinite(norm) else 0.0


class AlignedTensors(AlignedGraphs):
    """Aligned graphs of dumps with tensors, which are compared element by element."""

    has_elements = True

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        self._distances: dict[int, float] = {}
        self._in_other_layout: dict[int, float] = {}

    def difference(self, row: int) -> float:
        found = self.comparison.measures.get(row)
        if not self.are_tensors[row] or (self.equal[row] == EQUAL and found is None):
            return 0.0
        if found is not None:
            return math.inf if found.mismatched else found.euclid
        if row not in self._in_other_layout:
            self._in_other_layout[row] = self._difference_in_other_layout(row)
        return self._in_other_layout[row]

    def _difference_in_other_layout(self, row: int) -> float:
        """Return the norm of the difference of two tensors of equal size in different shapes, as two frameworks may
        have."""
        both = self._loaded(row) if self.has_other_kernels and row not in self.pairs.notes.views else None
        return math.inf if both is None else nearest_layout(*both)

    def has_same_zeros(self, row: int) -> bool:
        both = None if row in self.pairs.notes.views else self._loaded(row)
        return both is None or both[0].shape != both[1].shape or bool(np.array_equal(both[0] == 0, both[1] == 0))

    def is_sum(self, row: int, made: Sequence[int], rounding: float) -> bool:
        """Return whether it differs by no more than the outputs do (triangle inequality), unless unrecorded code wrote
        to it."""
        most = 2 * sum(map(self.difference, made))
        if len(made) > 1 or self.has_other_kernels:  # the sum of gradients rounds too, and so do calls of one side
            most += rounding * self.size(row)
        return self.difference(row) <= most

    def distance(self, row: int) -> float:
        if (known := self._distances.get(row)) is None:
            is_apart = self.equal[row] != EQUAL and self.are_tensors[row] and self.grades[row] != UNJUDGED
            known = self._distances[row] = self._distance(row) if is_apart else 0.0
        return known

    def _distance(self, row: int) -> float:
        found = self.comparison.measures.get(row)
        if found is None:
            size = self.size(row)
            return self.difference(row) / size if size else math.inf
        if found.mismatched:
            return math.inf
        golden = self.graphs[1].columns.norm[self.rows[1][row]]
        if golden != golden and row in self.comparison.described:
            golden = float(self.comparison.described[row][1].norm or math.nan)
        if found.euclid == 0:
            return 0.0
        if not math.isfinite(golden) and found.scale_error:  # infinities on both sides: the finite elements count
            golden = math.sqrt(found.size) * found.max_absolute / found.scale_error
        distance = found.euclid / abs(golden) if golden and math.isfinite(golden) else math.inf
        return max(distance, self._with_masked(row))

    def _with_masked(self, row: int) -> float:
        """Return the relative error of the elements up to `_MASKED` if others are greater; 0 if there are none, or no
        others."""
        columns, at = self.graphs[1].columns, self.rows[1][row]
        if not max(abs(columns.max[at]), abs(columns.min[at])) > _MASKED or row in self.pairs.notes.views:
            return 0.0
        if (both := self._loaded(row)) is None:
            return 0.0
        t, g = both
        near = np.abs(g) <= _MASKED
        if t.shape != g.shape or not near.any() or near.all():
            return 0.0
        t, g = t[near].astype(np.float64), g[near].astype(np.float64)
        norm = float(np.linalg.norm(g))
        return float(np.linalg.norm(t - g)) / norm if norm else 0.0

    def _loaded(self, row: int) -> tuple[Array, Array] | None:
        """Return both tensors of a pair; None if one cannot be read."""
        pair = self.pairs.pair(row)
        if pair.target is None or pair.golden is None:
            return None
        try:
            return load_tensor(self.pairs.target, pair.target), load_tensor(self.pairs.golden, pair.golden)
        except DumpError:
            return None

    def partners(self, event: Event) -> "dict[Place, Partner]":
        """Return the correspondence of tensors of the target's call and the golden's, for a pair of calls and its
        forward."""
        found: dict[Place, Partner] = {}
        columns = self.graphs[1].columns
        for place in (event.place, *event.forwards):
            is_backward = place == event.place and event.direction == "backward"
            for row in self.pairs.rows(place):
                at = self.rows[1][row]
                if at >= 0 and columns.kind[at] == TENSOR and (partner := self._partner(row)) is not None:
                    found[is_backward, PARTS[columns.part[at]], columns.path_of(at)] = partner
        return found

    def _partner(self, row: int) -> "Partner | None":
        """Return the target's record of a pair in the golden's layout; None if that is unknown."""
        from msprobe.replay.replay import Partner  # here: statistics are judged without replaying calls

        if not self.are_tensors[row]:
            return Partner(-1) if self.grades[row] == PASS else None
        at, view = self.rows[0][row], self.pairs.notes.views.get(row)
        if view is None:
            return Partner(at)
        _, shape = self.dtype_and_shape(1, row)
        back = parse(view.golden).inverse(shape or ()) if view.golden else parse("")
        if view.is_part or back is None:
            return None
        return Partner(at, " | ".join(filter(None, (view.target, str(back)))))


def is_running_statistic(columns: Columns, row: int) -> bool:
    """Return whether a record is a parameter that is a running mean or variance of a normalization."""
    name = columns.source[row] or ".".join(columns.path_of(row))
    return names.is_running_statistic(name)


def nearest_layout(target: Array, golden: Array) -> float:
    """Return the norm of the difference of two tensors of equal size in different shapes: with their elements in order,
    or with the target's axes in the order of the golden's that is nearest; inf if neither fits.

    One program moves the heads to the front before it scales, the other one after.
    """
    if target.size != golden.size or not target.size or any(a.dtype.kind not in "fiub" for a in (target, golden)):
        return math.inf
    is_turned = target.ndim == golden.ndim and target.shape != golden.shape
    if is_turned and target.squeeze().shape == golden.squeeze().shape:
        return math.inf  # a row is not a column: they are broadcast differently
    t, g = target.astype(np.float64), golden.astype(np.float64)
    found = [float(np.linalg.norm(t.ravel() - g.ravel()))]
    t, g = t.squeeze(), g.squeeze()
    if t.shape != g.shape and sorted(t.shape) == sorted(g.shape) and t.ndim <= _MAX_AXES:
        orders = (order for order in permutations(range(t.ndim)) if tuple(t.shape[at] for at in order) == g.shape)
        found += [float(np.linalg.norm(t.transpose(order) - g)) for order in orders]
    return min((one for one in found if math.isfinite(one)), default=math.inf)


def _flags(array: NDArray[np.bool_]) -> Sequence[bool]:
    return array.data  # type: ignore[return-value]  # a memoryview of booleans, which mypy takes for numbers


def _inverse(rows: Ints, are_paired: NDArray[np.bool_], size: int) -> "memoryview[int]":
    """Return by row of a dump the pair that contains it, -1 for none."""
    found = np.full(size, -1, np.int64)
    known = np.flatnonzero(are_paired)
    found[rows[known[::-1]]] = known[::-1]
    return found.data


def _hidden_elements(columns: Columns, row: int) -> int:
    """Return the number of elements that a mask hides; 0 for any other tensor. A mask has one number far below zero for
    these and 0 for all others."""
    high, low, mean, norm = columns.max[row], columns.min[row], columns.mean[row], abs(columns.norm[row])
    if high != 0 or not low <= -_MASKED or not math.isfinite(low + mean + norm):
        return 0
    hidden = round(mean / low * math.prod(columns.shape(row) or ()))
    return hidden if round((norm / low) ** 2) == hidden else 0
