"""Exemptions: gradients that only one side computes and nothing needs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.dataflow.events import Event, Sources, events, parent_of, upwards
from msprobe.compare.judge.judged import UNKNOWN, Comparison
from msprobe.compare.judge.verdict import CAUSES, GRADES, Cause
from msprobe.compare.match.pairs import call_of_row
from msprobe.store.record import NULL, PARTS, TENSOR, Dump


def trained_alone(comparison: Comparison, events: Sequence[Event]) -> set[int]:
    """The places of gradients of parameters whose layer has a partner with none: there it is frozen, or detached.

    Not where one side collected no such gradients at all, nor of a weight that several layers share: its gradient may
    stand under any of them.
    """
    lonely = [event for event in events if event.kind == "parameters_grad" and not event.is_matched]
    if not lonely:
        return set()
    pairs = comparison.pairs
    paired = (pairs.target_calls >= 0) & (pairs.golden_calls >= 0)
    both = list(zip(pairs.target_calls[paired].tolist(), pairs.golden_calls[paired].tolist(), strict=True))
    stems = [[names.parse(name).stem for name in dump.columns.names] for dump in (pairs.target, pairs.golden)]
    unclear = [_sharing(dump) for dump in (pairs.target, pairs.golden)]
    known = {(stems[0][t], stems[1][g]) for t, g in both if t not in unclear[0] and g not in unclear[1]}
    # A layer without parameters of its own is not frozen: the parameter is another layer's there.
    owners = [
        {stems[side][at] for _, at in _parameters(dump)} for side, dump in enumerate((pairs.target, pairs.golden))
    ]
    layers = {
        "target": {mine for mine, theirs in known if theirs in owners[1]},
        "golden": {theirs for mine, theirs in known if mine in owners[0]},
    }
    collects = {
        side: any(names.parse(name).kind == "parameters_grad" for name in dump.columns.names)
        for side, dump in (("golden", pairs.target), ("target", pairs.golden))  # by the side that is alone
    }
    return {e.place for e in lonely if collects[e.side] and names.parse(e.called).stem in layers[e.side]}


def _sharing(dump: Dump) -> set[int]:
    """The calls of cells one of whose parameters another cell has too, as far as values tell; a tensor all of whose
    elements are equal tells nothing."""
    owners: dict[tuple[object, ...], list[int]] = {}
    for mark, call in _parameters(dump):
        owners.setdefault(mark, []).append(call)
    shared = (calls for calls in owners.values() if len({names.parse(dump.columns.names[at]).stem for at in calls}) > 1)
    return {call for calls in shared for call in calls}


def _parameters(dump: Dump) -> Iterator[tuple[tuple[object, ...], int]]:
    """What every parameter looks like, with the call that was given it."""
    columns = dump.columns
    for row, part in enumerate(columns.part):
        if part == _PARAMETERS and columns.kind[row] == TENSOR and (columns.max[row] != columns.min[row]):
            values = columns.max[row], columns.min[row], columns.mean[row], columns.norm[row]
            yield (columns.look[row], columns.digest[row], *values), call_of_row(dump, row)


_DIFFER = {GRADES.index("warning"), GRADES.index("error")}
_INPUT, _OUTPUT, _PARAMETERS = (PARTS.index(part) for part in ("input", "output", "parameters"))


def without_unneeded(comparison: Comparison) -> Comparison:
    """The comparison in which gradients that one side alone has, and that nobody needs, are exempt.

    A graph and PyNative leave out others of the gradients that nobody asked for. Nobody needs one that is all zeros,
    nor that of an argument which was computed from no parameter.
    """
    found = _unneeded(comparison) if _half_null(comparison).any() else {}
    if not found:
        return comparison
    rows = list(found)
    grades, causes, equal = comparison.grades.copy(), comparison.causes.copy(), comparison.equal.copy()
    grades[rows] = GRADES.index("unjudged")
    causes[rows] = CAUSES.index(Cause.UNNEEDED_GRADIENT)
    equal[rows] = UNKNOWN
    reasons = {**comparison.reasons, **{row: (reason,) for row, reason in found.items()}}
    return replace(comparison, grades=grades, causes=causes, equal=equal, reasons=reasons)


def _half_null(comparison: Comparison) -> NDArray[np.bool_]:
    """Which pairs of records are a tensor on one side and None on the other, which is an error so far.

    Where a value could not be collected it is null too; such a pair is unjudged, and stays so.
    """
    pairs = comparison.pairs
    both = (pairs.target_rows >= 0) & (pairs.golden_rows >= 0)
    kinds = [
        np.frombuffer(columns.kind, np.uint8)[rows[both]]
        for columns, rows in ((pairs.target.columns, pairs.target_rows), (pairs.golden.columns, pairs.golden_rows))
    ]
    found = np.zeros(len(both), bool)
    found[both] = ((kinds[0] == NULL) & (kinds[1] == TENSOR)) | ((kinds[0] == TENSOR) & (kinds[1] == NULL))
    found &= comparison.grades == GRADES.index("error")
    return found


def _unneeded(comparison: Comparison) -> dict[int, Reason]:
    """By row: why the gradient is of no use that one side of a backward call has and the other has not."""
    pairs, half = comparison.pairs, _half_null(comparison)
    dumps = pairs.target, pairs.golden
    ways: dict[int, _WaysBack] = {}
    found: dict[int, Reason] = {}
    for event in events(comparison):
        if not event.is_matched or event.direction != "backward" or not half[event.rows.start : event.rows.stop].any():
            continue
        for row in event.rows:
            if not half[row]:
                continue
            t, g = int(pairs.target_rows[row]), int(pairs.golden_rows[row])
            side = 0 if dumps[0].columns.kind[t] == TENSOR else 1
            columns, at, here = dumps[side].columns, (t, g)[side], ("target", "golden")[side]
            if columns.max[at] == columns.min[at] == 0:
                found[row] = Reason(Why.ZEROS, here)
                continue
            if comparison.is_given[row]:
                continue
            # The other side's dump may tell what an argument was computed from where this one does not.
            teller = side if any(columns.source) else 1 - side
            given = _argument(comparison, event, (t, g)[side], is_golden=side == 1, told_by=teller)
            known = ways.setdefault(teller, _WaysBack(dumps[teller]))
            if given and not any(map(known.reach_a_parameter, given)):
                found[row] = Reason(Why.UNNEEDED, here)
    return found


def _argument(comparison: Comparison, event: Event, row: int, *, is_golden: bool, told_by: int) -> list[int]:
    """The rows of the argument whose gradient stands at a row of a backward call of one side, as the target (0) or the
    golden (1) has it: `told_by`."""
    pairs = comparison.pairs
    dump, rows = (pairs.golden, pairs.golden_rows) if is_golden else (pairs.target, pairs.target_rows)
    columns = dump.columns
    forward = [at for place in event.forwards for at in range(pairs.starts[place], pairs.starts[place + 1])]
    of_side = (pairs.target_rows, pairs.golden_rows)[told_by]
    return [
        int(of_side[number])
        for number in forward
        if (at := int(rows[number])) >= 0
        and of_side[number] >= 0
        and columns.part[at] == _INPUT
        and columns.kind[at] == TENSOR
        and columns.path[at] == columns.path[row]
    ]


class _WaysBack:
    """Follows gradients through one dump, from an argument to what it was computed from.

    What came out of operations that were not recorded was computed from the parameters of the calls before it, as far
    as anybody knows.
    """

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._sources = Sources(dump)

    @cached_property
    def _calls(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self._dump.columns.names)}

    def reach_a_parameter(self, row: int) -> bool:
        """Whether a given was computed from a parameter, by calls whose gradients are neither None nor zeros."""
        columns, waiting, known = self._dump.columns, [row], {row}
        while waiting:
            row = waiting.pop()
            call = call_of_row(self._dump, row)
            parents = upwards(parent_of(self._dump, call), self._dump.construct)
            source = self._sources.of(row, columns.names[call], parents)
            if source.origin == "parameter":
                return True
            if source.origin in ("code", "unknown") and call > self._first_trained:
                return True
            if (maker := self._calls.get(source.call)) is None:
                continue
            rows = range(columns.starts[maker], columns.starts[maker + 1])
            if self._is_trained(maker):
                return True
            onwards = {at for at in rows if columns.part[at] == _INPUT and self._has_a_gradient(maker, at)}
            waiting += onwards - known
            known |= onwards
        return False

    def _is_trained(self, call: int) -> bool:
        """Whether a call has parameters with gradients; any, in a dump that tells of no gradients of parameters."""
        if self._trained:
            return names.parse(self._dump.columns.names[call]).stem in self._trained
        columns = self._dump.columns
        return _PARAMETERS in columns.part[columns.starts[call] : columns.starts[call + 1]]

    @cached_property
    def _trained(self) -> frozenset[str]:
        parsed = map(names.parse, self._dump.columns.names)
        return frozenset(name.stem for name in parsed if name.kind == "parameters_grad")

    @cached_property
    def _first_trained(self) -> int:
        """The first call with trained parameters, in the order in which calls end; the number of calls without one."""
        every = range(len(self._dump.columns.names))
        return next(filter(self._is_trained, every), len(every))

    def _has_a_gradient(self, call: int, row: int) -> bool:
        """Whether something goes back through an argument of a call."""
        columns = self._dump.columns
        back = self._calls.get(names.counterpart(columns.names[call], "backward"))
        return columns.kind[row] == TENSOR and any(
            columns.kind[at] == TENSOR and not columns.max[at] == columns.min[at] == 0
            for at in (range(columns.starts[back], columns.starts[back + 1]) if back is not None else ())
            if columns.part[at] == _OUTPUT and columns.path[at] == columns.path[row]
        )
