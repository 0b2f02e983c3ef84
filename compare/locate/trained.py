"""Across frameworks: gradients of parameters that one side alone computes, of layers that both have."""

from collections.abc import Iterator, Sequence

from msprobe.base import names
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.match.pairs import call_of_row
from msprobe.store.columns import PARTS, TENSOR
from msprobe.store.record import Dump

from .events import Event

_PARAMETERS = PARTS.index("parameters")


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
