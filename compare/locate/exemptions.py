"""Apply the exemptions that are decided after every pair of records was judged, with their predicates: calls that the
level of the other side does not record, values that no side could collect, gradients that nothing needs or whose sum is
compared elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.base.memo import cached_by_identity
from msprobe.compare.core.exemptions import Scope, Stage, exemptions_of
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Why
from msprobe.compare.core.tensor import Identity, tensor_of
from msprobe.compare.dataflow.events import events
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES, excused
from msprobe.compare.match.pairs import Ints, Pairs
from msprobe.store.record import GRADIENTS, INPUT, NULL, PARAMETERS, TENSOR, Dump


@cached_by_identity
def trained_on_one_side(pairs: Pairs) -> frozenset[int]:
    """Return the places of gradients of parameters whose layer has a counterpart without gradients: there it is frozen,
    or detached.

    Not if one side collected no such gradients at all, nor for a weight that several layers share: its gradient may be
    recorded under any of them.
    """
    unmatched = [event for event in events(pairs) if event.kind == "parameters_grad" and not event.is_matched]
    if not unmatched:
        return frozenset()
    dumps = pairs.target, pairs.golden
    parsed = [[names.parse(name) for name in dump.columns.names] for dump in dumps]
    paired = (pairs.target_calls >= 0) & (pairs.golden_calls >= 0)
    both = zip(pairs.target_calls[paired].tolist(), pairs.golden_calls[paired].tolist(), strict=True)
    unclear = [_sharing(dump) for dump in dumps]
    known = {(parsed[0][t].stem, parsed[1][g].stem) for t, g in both if t not in unclear[0] and g not in unclear[1]}
    # A layer without parameters is not frozen: the parameter belongs to another layer there.
    owners = [{parsed[side][at].stem for _, at in _parameters(dump)} for side, dump in enumerate(dumps)]
    collects = [any(name.kind == "parameters_grad" for name in side) for side in parsed]
    layers = {
        "target": {mine for mine, theirs in known if theirs in owners[1]} if collects[1] else set(),
        "golden": {theirs for mine, theirs in known if mine in owners[0]} if collects[0] else set(),
    }
    return frozenset(event.place for event in unmatched if names.parse(event.called).stem in layers[event.side])


@cached_by_identity
def not_collected(pairs: Pairs) -> frozenset[int]:
    """Return the places of unmatched calls that the other side may also have made: it ran there and was excluded from
    the collection, or calls of its kind were not collected there."""
    unmatched = [event for event in events(pairs) if not event.is_matched]
    if not unmatched:
        return frozenset()
    dumps = {"target": pairs.golden, "golden": pairs.target}  # by the side that has the call
    kinds = {side: {(name.kind, name.direction) for name in other.names} for side, other in dumps.items()}
    return frozenset(
        event.place
        for event in unmatched
        if (event.kind, event.direction) not in kinds[event.side]
        or (event.called in dumps[event.side].construct and event.called not in dumps[event.side].place)
    )


def _sharing(dump: Dump) -> set[int]:
    """Return the calls of cells with a parameter that another cell also has, by their values; a tensor whose elements
    are all equal is not evidence."""
    owners: dict[Identity, list[int]] = {}
    for mark, call in _parameters(dump):
        owners.setdefault(mark, []).append(call)
    shared = (calls for calls in owners.values() if len({names.parse(dump.columns.names[at]).stem for at in calls}) > 1)
    return {call for calls in shared for call in calls}


def _parameters(dump: Dump) -> Iterator[tuple[Identity, int]]:
    """Return the identity of every parameter, with the call that received it."""
    columns = dump.columns
    for row, part in enumerate(columns.part):
        if part == PARAMETERS and columns.max[row] > columns.min[row] and (tensor := tensor_of(columns, row)):
            yield tensor.exact or (), columns.call_of(row)


def with_exemptions(comparison: Comparison) -> Comparison:
    """Return the comparison with the exemptions of stage `COMPARISON`."""
    for exemption in exemptions_of(Stage.COMPARISON, comparison.relation):
        found: Mapping[int, Reason] = exemption.function(comparison)
        if not found:
            continue
        rows = found
        if exemption.scope is Scope.CALL:
            rows = {row: reason for place, reason in found.items() for row in comparison.pairs.rows(place)}
        comparison = comparison.with_verdicts({row: excused(exemption, reason) for row, reason in rows.items()})
        if exemption.scope is Scope.CALL:
            comparison = replace(comparison, explained={**comparison.explained, **found})
    return comparison


_LEFT_OUT = {"L0": "api", "L1": "cell"}
"""The kind of calls that a level excludes, by level."""


def of_other_level(comparison: Comparison) -> dict[int, Reason]:
    """Return the places of calls without a partner that the level of the other side leaves out.

    The cells of a dump of level mix are compared with those of level L0, and the calls inside them are not.
    """
    pairs = comparison.pairs
    found: dict[int, Reason] = {}
    for dump, calls, other, others in (
        (pairs.target, pairs.target_calls, pairs.golden, pairs.golden_calls),
        (pairs.golden, pairs.golden_calls, pairs.target, pairs.target_calls),
    ):
        left_out = _LEFT_OUT.get(other.level)
        if left_out is None or dump.level == other.level or any(name.kind == left_out for name in other.names):
            continue
        alone = np.flatnonzero((calls >= 0) & (others < 0)).tolist()
        reason = Reason(Why.OTHER_LEVEL, name=other.level)
        found |= {place: reason for place in alone if dump.names[int(calls[place])].kind == left_out}
    return found


def summed_gradients(comparison: Comparison) -> dict[int, Reason]:
    """Return the rows of a call's own gradient against an accumulated one that is also an incoming gradient that is
    compared.

    What reaches a tensor from all its users is the gradient that the call receives which made the tensor.
    """
    rows = np.flatnonzero(comparison.causes == CAUSES.index(Cause.OTHER_GRADIENT)).tolist()
    found: dict[int, Reason] = {}
    if not rows:
        return found
    pairs = comparison.pairs
    sides = (pairs.target, pairs.target_rows), (pairs.golden, pairs.golden_rows)
    compared = [_compared_gradients(comparison, dump, of) for dump, of in sides]
    for row in rows:
        kinds = [GRADIENTS[dump.columns.gradient[int(of[row])]] for dump, of in sides]
        side = next((n for n, kind in enumerate(kinds) if kind == "accumulated"), -1)
        if side < 0:
            continue
        dump, of = sides[side]
        tensor = tensor_of(dump.columns, int(of[row]))
        name = compared[side].get(tensor.exact, "") if tensor is not None and tensor.exact is not None else ""
        if name:
            found[row] = Reason(Why.SUM_COMPARED, target=kinds[0], golden=kinds[1], name=name)
    return found


def lost_on_both_sides(comparison: Comparison) -> dict[int, Reason]:
    """Return the rows of forward calls of functions that neither side could collect, if a later forward call returns a
    tensor that is compared.

    A value inside a transformation, like a mask that is created under `vmap`, cannot be collected in any run.
    """
    rows = np.flatnonzero(comparison.causes == CAUSES.index(Cause.LOST_ON_BOTH_SIDES)).tolist()
    if not rows:
        return {}
    pairs, dump = comparison.pairs, comparison.target
    judged = (comparison.grades != GRADES.index("unjudged")) & ~comparison.is_input
    compared = (row for row in np.flatnonzero(judged).tolist() if pairs.are_tensors(row))
    calls = {int(pairs.target_calls[pairs.call_of[row]]) for row in compared}
    last = max((call for call in calls if dump.names[call].direction == "forward"), default=-1)
    found: dict[int, Reason] = {}
    for row in rows:
        call = int(pairs.target_calls[pairs.call_of[row]])
        name = dump.names[call]
        if name.kind == "api" and name.direction == "forward" and call < last:
            found[row] = Reason(Why.LOST_ON_BOTH_SIDES)
    return found


def _compared_gradients(comparison: Comparison, dump: Dump, rows: Ints) -> dict[Identity, str]:
    """Return the incoming gradients of a side that have a verdict, by their identity, with the names of their
    records."""
    found: dict[Identity, str] = {}
    columns = dump.columns
    judged = (comparison.grades != GRADES.index("unjudged")) & comparison.is_input & (rows >= 0)
    for row in np.flatnonzero(judged).tolist():
        at = int(rows[row])
        call = columns.call_of(at)
        if dump.names[call].direction != "backward" or columns.kind[at] != TENSOR:
            continue
        tensor = tensor_of(columns, at)
        if tensor is not None and tensor.exact is not None and columns.max[at] != columns.min[at]:
            found.setdefault(tensor.exact, columns.row_name(at, call))
    return found


def _half_null(comparison: Comparison) -> NDArray[np.bool_]:
    """Return the pairs of records that are a tensor on one side and None on the other, which is an error so far.

    A value that could not be collected is also null; such a pair is unjudged, and remains so.
    """
    sides = comparison.sides.values()
    both = np.logical_and.reduce([side.rows >= 0 for side in sides])
    t, g = (np.frombuffer(side.dump.columns.kind, np.uint8)[side.rows[both]] for side in sides)
    found = np.zeros(len(both), bool)
    found[both] = ((t == NULL) & (g == TENSOR)) | ((t == TENSOR) & (g == NULL))
    found &= comparison.grades == GRADES.index("error")
    return found


def unneeded_gradients(comparison: Comparison) -> dict[int, Reason]:
    """Return the rows of gradients that only one side has, and that nothing needs.

    A graph and PyNative omit different gradients that were not requested. A gradient that is all zeros is not needed,
    nor that of an argument that was computed from no parameter.
    """
    half = _half_null(comparison)
    if not half.any():
        return {}
    pairs, dumps = comparison.pairs, (comparison.target, comparison.golden)
    rows_of = pairs.target_rows, pairs.golden_rows
    ways: dict[int, _WaysBack] = {}
    found: dict[int, Reason] = {}
    for event in events(comparison.pairs):
        if not event.is_matched or event.direction != "backward":
            continue
        for row in filter(half.__getitem__, event.rows):
            side = 0 if dumps[0].columns.kind[rows_of[0][row]] == TENSOR else 1
            columns, at, here = dumps[side].columns, int(rows_of[side][row]), ("target", "golden")[side]
            if columns.max[at] == columns.min[at] == 0:
                found[row] = Reason(Why.ZEROS, here)
                continue
            if comparison.is_input[row]:
                continue
            # The other side's dump may have the sources of arguments that this one lacks.
            recorded_side = side if any(columns.source) else 1 - side
            forward = [pair for place in event.forwards for pair in pairs.rows(place)]
            arguments = [
                int(rows_of[recorded_side][pair])
                for pair in forward
                if (own := int(rows_of[side][pair])) >= 0
                and rows_of[recorded_side][pair] >= 0
                and columns.part[own] == INPUT
                and columns.kind[own] == TENSOR
                and columns.path[own] == columns.path[at]
            ]
            known = ways.setdefault(recorded_side, _WaysBack(dumps[recorded_side]))
            if arguments and not any(map(known.reach_a_parameter, arguments)):
                found[row] = Reason(Why.UNNEEDED, here)
    return found


class _WaysBack:
    """Follows gradients through one dump, from an argument to its origin.

    Results of operations that were not recorded are assumed to be computed from the parameters of the calls before.
    """

    def __init__(self, dump: Dump) -> None:
        self._graph = Graph(dump)

    def reach_a_parameter(self, row: int) -> bool:
        """Return whether an input was computed from a parameter, by calls whose gradients are neither None nor
        zeros."""
        graph, waiting, known = self._graph, [row], {row}
        while waiting:
            row = waiting.pop()
            source = graph.source(row)
            if source.origin == "parameter":
                return True
            if source.origin in ("code", "unknown") and graph.call_of[row] > self._first_trained:
                return True
            if (maker := graph.dump.place.get(source.call)) is None:
                continue
            if self._is_trained(maker):
                return True
            onwards = {at for at in graph.inputs(maker) if self._has_a_gradient(maker, at)}
            waiting += onwards - known
            known |= onwards
        return False

    def _is_trained(self, call: int) -> bool:
        """Return whether a call has parameters with gradients; any, in a dump without gradients of parameters."""
        if self._trained:
            return self._graph.names[call].stem in self._trained
        rows = self._graph.columns.rows(call)
        return PARAMETERS in self._graph.columns.part[rows.start : rows.stop]

    @cached_property
    def _trained(self) -> frozenset[str]:
        return frozenset(name.stem for name in self._graph.names if name.kind == "parameters_grad")

    @cached_property
    def _first_trained(self) -> int:
        """Return the first call with trained parameters, in the order in which calls end; the number of calls without
        one."""
        every = range(len(self._graph.names))
        return next(filter(self._is_trained, every), len(every))

    def _has_a_gradient(self, call: int, row: int) -> bool:
        """Return whether a gradient passes back through an argument of a call."""
        columns = self._graph.columns
        back = self._graph.dump.counterpart(call, "backward")
        return back >= 0 and any(
            columns.path[at] == columns.path[row] and not columns.max[at] == columns.min[at] == 0
            for at in self._graph.outputs(back)
        )
