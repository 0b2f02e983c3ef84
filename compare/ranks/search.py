"""Search the first differing call among all ranks, and write it as `-da` does.

Every call has a place (layer, number): calls before the first exchange are in layer 0, an exchange opens its layer with
number 0, the differing calls after it continue with 1. So calls that differ before any communication come first, then
those between exchanges, and last those after the last exchange of the longest chain.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.base.files import replace_atomically
from msprobe.base.schema import KEYS
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.dataflow.events import Event, events
from msprobe.compare.judge.judged import Comparison, Judged, JudgedCall, calls_with
from msprobe.compare.judge.pairs import UNINITIALISED
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.find import Located
from msprobe.compare.tables.cells import number
from msprobe.compare.tables.columns import columns_of
from msprobe.compare.tables.rows import rows

from .collectives import Connected, Exchange, Node, RankSummary, connect, exchanges_of, fills


def node_of(comparison: Comparison, event: Event) -> Node:
    """Return the node of a call of a comparison; a backward call has the stack of its forward."""
    call = comparison.calls[event.place].calls.call
    stack = call.stack
    for place in event.forwards if not stack else ():
        stack = stack or comparison.calls[place].calls.call.stack
    return Node(call.name, _data(comparison.calls[event.place], event), (*reversed(event.parents), call.name), stack)


def _data(call: JudgedCall, event: Event) -> dict[str, object]:
    """Return the values of a call, under the keys of its entry in dump.json; nested ones are flat, with their path."""
    is_backward = event.direction == "backward"
    args: list[object] = []
    kwargs: dict[str, list[object]] = {}
    rest: dict[str, list[object]] = {}
    for judged in call.judged:
        record = judged.pair.record
        if record.part != "input":
            rest.setdefault(record.part, []).append(_item(judged))
        elif is_backward or not record.path or record.path[0].isdigit():
            args.append(_item(judged))
        else:
            kwargs.setdefault(record.path[0], []).append(_item(judged))
    output: object = rest.pop("output", [])
    if is_backward:
        return {"input": args, "output": output, **rest}
    return {"input_args": args, "input_kwargs": kwargs, "output": output, **rest}


def _item(judged: Judged) -> dict[str, object]:
    """Return a value of the target, or of the golden if the target has none."""
    record = judged.pair.record
    item: dict[str, object] = {"full_op_name": record.name, "type": record.type}
    if record.kind == "tensor":
        item |= {"dtype": record.dtype, "shape": None if record.shape is None else list(record.shape)}
        if s := record.statistics:
            item |= {key: number(value) for key, value in zip(KEYS, s.numbers, strict=True)}
    elif record.kind == "value":
        item["value"] = number(record.value) if isinstance(record.value, float) else record.value
    item |= {key: text for key, text in (("md5", record.digest), ("data_name", record.file)) if text}
    item["verdict"] = judged.grade
    if judged.verdict.reason:
        item["reason"] = judged.verdict.reason
    return item


Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class First:
    """A call that differs first, on its rank; `place` is (layer, number)."""

    rank: int
    place: Place
    node: Node


def first_over_ranks(summaries: Mapping[int, RankSummary], connected: Connected | None = None) -> list[First]:
    """Return the calls that differ first, by rank: one, or several whose place is the same.

    `connected` is the join of the exchanges of these ranks, if that is known: it does not depend on differences.

    Data that a rank received through an exchange are never reported: an exchange whose result differs is reported only
    if no contributed data differ, on any rank for which that is known. An exchange with differing input is reported
    only if no earlier call on that rank differs: the input then comes from unrecorded code.
    """
    connected = connected or connect(summaries)
    found = {rank: entry for rank in sorted(summaries) if (entry := _first(rank, summaries, connected))}
    lowest = min((place for place, _ in found.values()), default=None)
    nodes = {(rank, node.name): node for rank in found for node in summaries[rank].nodes[::-1]}  # the first of a name
    return [First(rank, place, nodes[rank, name]) for rank, (place, name) in found.items() if place == lowest]


def _first(rank: int, summaries: Mapping[int, RankSummary], connected: Connected) -> tuple[Place, str] | None:
    """Return the place and name of the first call of one rank that differs by itself."""
    summary, layer = summaries[rank], 0
    for n, exchange in enumerate(summary.exchanges):
        if summary.between[n]:
            return (layer, 1), summary.between[n]
        layer = connected.layers[rank, n]
        if exchange.input_differs and exchange.gives(rank):
            return (layer, 0), exchange.name
        if exchange.result_differs and exchange.takes(rank):
            is_received = any(summaries[r].exchanges[m].input_differs for r, m in connected.sources(rank, n))
            return None if is_received else ((layer, 0), exchange.name)
    return ((layer, 1), summary.between[-1]) if summary.between[-1] else None


_IGNORED = (*UNINITIALISED, "fill", "fill_", "__setitem__")
"""Calls that are never reported: their result was in memory before, or is written into it."""


def summarize(comparison: Comparison, located: Located) -> RankSummary:
    """Return the data of one rank for the search over ranks.

    A call differs if one of its outputs is an error, or if it is a divergence (`locate`). An input or output of an
    exchange differs if it is an error, or if a difference originates or is propagated there.
    """
    flags = _Flags(comparison, located)
    if not flags.any:
        return _clean(comparison)
    exchanges: list[Exchange] = []
    between = [""]
    values: list[Event] = []  # calls that the search may report: all up to where it ends on this rank
    is_sure = False
    for event in events(comparison.pairs):
        word = word_of(event.called) if comparison.pairs.target_calls[event.place] >= 0 else ""
        if word:
            made = tuple(flags.marked(event, word))
            exchanges += made
            between += [""] * len(made)
            differs = any(exchange.input_differs or exchange.result_differs for exchange in made)
            sure = any(map(_ends_search, made))
        else:
            differs = sure = not between[-1] and flags.differs(event)
            if differs:
                between[-1] = event.called
        if differs and not is_sure:
            values.append(event)
            is_sure = sure
    return RankSummary(tuple(exchanges), tuple(between), tuple(node_of(comparison, event) for event in values))


def _clean(comparison: Comparison) -> RankSummary:
    """Return the summary of a rank without differences; the summaries of other ranks are compared with it."""
    dump = comparison.target
    communicating = ((at, word) for at, name in enumerate(dump.columns.names) if (word := word_of(name)))
    exchanges = tuple(exchange for at, word in communicating for exchange in exchanges_of(dump.calls[at], word))
    return RankSummary(exchanges, ("",) * (len(exchanges) + 1))


def _ends_search(exchange: Exchange) -> bool:
    """Return whether no call after an exchange will be reported on this rank, for any rank."""
    is_input = exchange.input_differs and exchange.traffic in ("all", "send", "to_one")
    return is_input or (exchange.result_differs and exchange.traffic in ("all", "receive", "from_one"))


class _Flags:
    """Which calls of a comparison differ."""

    def __init__(self, comparison: Comparison, located: Located) -> None:
        self._pairs, self._calls = comparison.pairs, comparison.calls
        in_error = comparison.grades == GRADES.index("error")
        marked, starts = np.zeros_like(in_error), np.zeros_like(in_error)
        marked[list(located.roles)] = True
        starts[[row for row, role in located.roles.items() if role == "begins"]] = True
        is_input = comparison.is_input
        self._inputs: NDArray[np.bool_] = is_input & (in_error | marked)
        self._outputs = calls_with(comparison, ~is_input & (in_error | marked)) > 0
        self._own = calls_with(comparison, (~is_input & in_error) | starts) > 0
        self._found = {finding.name for finding in located.findings}
        self.any = bool(self._found or in_error.any() or located.roles)
        """Whether anything differs at all."""

    def differs(self, event: Event) -> bool:
        """Return whether a call that does not communicate differs."""
        if not (self._own[event.place] or event.name in self._found):
            return False
        return names.parse(event.called).stem.rsplit(".", 1)[-1] not in _IGNORED

    def marked(self, event: Event, word: str) -> Iterator[Exchange]:
        """Yield the exchanges of a call, with the parts of it that differ."""
        call = self._calls[event.place].calls.target
        assert call is not None  # requested only for those of the target
        differing = (self._pairs.pair(row).record.path for row in event.rows if self._inputs[row])
        inputs = any(not fills(word, path, call.records) for path in differing)
        for exchange in exchanges_of(call, word):
            yield replace(exchange, input_differs=inputs, result_differs=bool(self._outputs[event.place]))


def as_objects(found: Iterable[First], step: int | None = None) -> dict[str, list[object]]:
    """Return `{"rank_1": [{"op_name", "data_info", "construct_info", "stack_info"}]}`, as msprobe 26 writes it."""
    ranks: dict[str, list[object]] = {}
    for first in found:
        node = first.node
        entry: dict[str, object] = {
            "op_name": node.name,
            "data_info": dict(node.data_info),
            "construct_info": list(node.construct_info),
            "stack_info": list(node.stack_info),
        }
        ranks.setdefault(f"rank_{first.rank}", []).append(entry if step is None else entry | {"step": step})
    return ranks


def write_calls(path: Path, comparison: Comparison, located: Located) -> None:
    """Write `{call: {"is_same": bool, "op_items": [rows by heading]}}`, call by call as the rows are created.

    A call is the same if none of its results is an error. A golden-only call whose name the target also has is written
    as `golden {name}`.
    """
    titles = [column.title for column in columns_of(comparison, False)]
    call_of = comparison.pairs.call_of.tolist()
    is_wrong = ((comparison.grades == GRADES.index("error")) & ~comparison.is_input).tolist()
    met: set[str] = set()
    with replace_atomically(path) as file:
        file.write(b"{")
        made = enumerate(rows(comparison, located, with_stack=False))
        for place, found in groupby(made, lambda numbered: call_of[numbered[0]]):
            numbered = list(found)
            name = comparison.pairs.name(place)
            if name in met:
                name = f"golden {name}"
            values = {
                "is_same": not any(is_wrong[row] for row, _ in numbered),
                "op_items": [dict(zip(titles, row, strict=True)) for _, row in numbered],
            }
            entry = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(values, ensure_ascii=False)}"
            file.write((",\n " if met else "\n ").encode() + entry.encode("utf-8", "replace"))
            met.add(name)
        file.write(b"\n}\n")
