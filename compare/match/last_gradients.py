"""The gradients of a layer's parameters where one side keeps those of the last micro-batch only.

msprobe writes them under one name for a whole step, msprobe-ms once per micro-batch: `parameters_grad`,
`parameters_grad.1`. So the last of these are the counterpart, and those before them have none.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msprobe.base import names
from msprobe.compare.reason import Reason, Why
from msprobe.store.record import Dump


def last_gradients(target: Dump, golden: Dump, calls: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Target and golden call for each pair of cells among `calls` whose gradients are told once on msprobe's side and
    several times on the other."""
    mine, theirs = _gradients(target), _gradients(golden)
    sides = ((target, mine), (golden, theirs))
    pairs = {(names.parse(target.columns.names[i]).stem, names.parse(golden.columns.names[j]).stem) for i, j in calls}
    for ours, other in sorted(pairs):
        lists = mine.get(ours, []), theirs.get(other, [])
        few, many = sorted((0, 1), key=lambda side: len(lists[side]))
        if len(lists[few]) == 1 < len(lists[many]) and not sides[few][0].format_version:
            yield lists[0][-1], lists[1][-1]


def earlier_gradients(
    calls: Sequence[tuple[int, int]], target: Dump, golden: Dump, last: Sequence[tuple[int, int]]
) -> dict[int, Reason]:
    """By place in `calls`: why the gradients of micro-batches before the `last` stand alone."""
    found: dict[int, Reason] = {}
    for side, dump in enumerate((target, golden)):
        known = {names.parse(dump.columns.names[pair[side]]).stem for pair in last}
        lists = _gradients(dump) if known else {}
        earlier = {call for stem in known for call in lists[stem]}
        alone = [n for n, pair in enumerate(calls) if pair[side] in earlier and pair[1 - side] < 0]
        found |= dict.fromkeys(alone, Reason(Why.LAST_ONLY))
    return found


def _gradients(dump: Dump) -> dict[str, list[int]]:
    """By stem of a cell: the calls that are gradients of its parameters, in order."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at, text in enumerate(dump.columns.names):
        name = names.parse(text)
        if name.kind == "parameters_grad":
            found[name.stem].append(at)
    return found
