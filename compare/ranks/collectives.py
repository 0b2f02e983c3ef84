"""Collective calls of one rank, and which calls of different ranks are one exchange.

Calls that communicate, with group, root and other rank from their arguments:

| functions of | named |
|---|---|
| torch.distributed, MindSpore's communication.comm_func, ops.communication | `Distributed.all_reduce.0.forward` |
| mindspore.mint.distributed | `MintDistributed.all_reduce.0.forward` |
| mindspore.ops, as an attribute of a cell | `Primitive.reduce.AllReduce.0.forward`, and its backward |

The backward of the others is recorded as passing a gradient on, so it exchanges nothing (how-to/comparing/ranks.md).

A rank's summary is made where the rank is compared, and sent to another process; so it is small, and contains only
plain values. The layer of an exchange is one more than the highest of earlier ones on its ranks: so a call that can
have influenced another call is never in a later layer than that.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msprobe.base import names
from msprobe.compare.core.buffers import BATCH, is_buffer
from msprobe.store.record import Call, Record

Traffic = Literal["all", "from_one", "to_one", "send", "receive"]
"""Direction of data: from all ranks to all, from the root, to the root, or from one rank to another."""

Group = tuple[int, ...] | str | None
"""The ranks of a group, its name if only that was recorded, None for the group of all."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call that communicates.

    `word` is equal on all ranks of the exchange. `peer` is the root of `from_one` and `to_one`, the other rank of
    `send` and `receive`, -1 if unknown (`recv` from any rank). `input_differs` and `result_differs`: input or result
    differs between target and golden.
    """

    name: str
    traffic: Traffic
    word: str
    group: Group = None
    peer: int = -1
    input_differs: bool = False
    result_differs: bool = False

    def gives(self, rank: int) -> bool:
        """Return whether a rank contributes data; otherwise its input is a buffer to be filled."""
        return self.traffic in ("all", "send", "to_one") or (self.traffic == "from_one" and self.peer == rank)

    def takes(self, rank: int) -> bool:
        """Return whether a rank receives data."""
        return self.traffic in ("all", "receive", "from_one") or (self.traffic == "to_one" and self.peer == rank)


@dataclass(frozen=True, slots=True)
class Node:
    """A call as it is reported: its values on the target's side with verdicts, the cells around it from the outermost
    on, the call itself, and its stack."""

    name: str
    data_info: Mapping[str, object]
    construct_info: tuple[str, ...]
    stack_info: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RankSummary:
    """One rank: its exchanges, and the first differing call before each of them and after the last, empty for none.

    So `between` has one entry more than `exchanges`. `nodes` are the calls that the search may report.
    """

    exchanges: tuple[Exchange, ...] = ()
    between: tuple[str, ...] = ("",)
    nodes: tuple[Node, ...] = ()


_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")

_WORLD = ("hccl_world_group", "nccl_world_group", "mccl_world_group", "gloo_world_group")
_REDUCTIONS = ("sum", "max", "min", "prod", "avg")
"""Strings among the arguments that are not names of groups."""


def traffic_of(word: str) -> Traffic:
    """Return the direction of data of an operation."""
    if any(whole in word for whole in _ALL):
        return "all"
    if "send" in word:
        return "send"
    if "recv" in word:
        return "receive"
    return "from_one" if "broadcast" in word or "scatter" in word else "to_one"


def exchanges_of(call: Call, word: str) -> tuple[Exchange, ...]:
    """Return the exchanges of one call: one, or for a batch one for each of its operations.

    The root is 0 by default, as in MindSpore. A primitive's backward exchanges in the opposite direction, which is from
    all ranks to all again.
    """
    inputs = [record for record in call.records if record.part == "input"]
    group = _group(inputs)
    if word == BATCH:
        return tuple(_batch(call.name, inputs, group))
    traffic = traffic_of(word)
    if traffic == "all":
        suffix = " backward" if names.parse(call.name).direction == "backward" else ""
        return (Exchange(call.name, traffic, word + suffix, group),)
    if traffic in ("send", "receive"):
        word = "objects" if "object" in word else "send"
    return (Exchange(call.name, traffic, word, group, _peer(inputs, group, -1 if traffic == "receive" else 0)),)


def fills(word: str, path: Sequence[str], inputs: Sequence[Record]) -> bool:
    """Return whether an input of a call is a buffer, whose value before the call is meaningless."""
    tensors = (record.path for record in inputs if record.part == "input" and record.kind == "tensor")
    beside = (*path[:-1], "op")
    operation = next((record.value for record in inputs if record.path == beside), None) if word == BATCH else None
    return is_buffer(word, path, tensors, operation)


def _batch(name: str, inputs: Sequence[Record], group: Group) -> Iterator[Exchange]:
    entry = {record.path: record.value for record in inputs if record.kind == "value"}
    for path, value in entry.items():
        if path[-1:] == ("op",) and isinstance(value, str):
            peer = entry.get((*path[:-1], "peer"))
            traffic: Traffic = "send" if "send" in value else "receive"
            yield Exchange(name, traffic, "send", group, peer if type(peer) is int else -1)


def _group(inputs: Sequence[Record]) -> Group:
    """Return the group among the arguments of a call; None without one, which means all ranks."""
    for record in inputs:
        is_named = record.path[:1] == ("group",)
        value = record.value
        if isinstance(value, list) and (is_named or "Group" in record.type) and all(type(n) is int for n in value):
            return tuple(value)
        if isinstance(value, str) and record.type == "str" and len(record.path) == 1:
            is_group = is_named or (record.path[0].isdigit() and value.lower() not in _REDUCTIONS)
            if is_group and value:
                return None if value in _WORLD else value
    return None


def _peer(inputs: Sequence[Record], group: Group, default: int) -> int:
    """Return the root or the other rank: from keywords for it, otherwise the first number among the arguments."""
    numbers = {r.path[0]: r.value for r in inputs if r.kind == "value" and type(r.value) is int and len(r.path) == 1}
    for key in ("src", "dst"):
        if key in numbers:
            return int(numbers[key])
        within = numbers.get(f"group_{key}")
        if within is not None and isinstance(group, tuple) and 0 <= within < len(group):
            return group[within]
    return next((int(value) for key, value in numbers.items() if key.isdigit()), default)


At = tuple[int, int]
"""A rank, and the position of an exchange in its summary."""


@dataclass(frozen=True)
class Connected:
    """The layer of every exchange, from 1 on; and its ranks, each with its position there.

    `partners` of a receiving exchange are its sender; an exchange without an entry has none.
    """

    summaries: Mapping[int, RankSummary]
    layers: Mapping[At, int]
    partners: Mapping[At, Sequence[At]]

    def sources(self, rank: int, n: int) -> list[At]:
        """Return where, on other ranks, the data that come out of an exchange were contributed."""
        others = [(r, m) for r, m in self.partners.get((rank, n), ()) if r != rank]
        return [(r, m) for r, m in others if self.summaries[r].exchanges[m].gives(r)]


def connect(summaries: Mapping[int, RankSummary]) -> Connected:
    """Join the exchanges of all ranks.

    The n-th call of one name within one group, with one root, is the same exchange on all its ranks; the n-th message
    from one rank to another is the n-th that is received there. An exchange without a counterpart remains alone.
    """
    every = {(rank, n): summary.exchanges[n] for rank, summary in sorted(summaries.items()) for n in _as_made(summary)}
    joined = _collectives(every, frozenset(summaries))
    sent = _messages(every, sorted(summaries))
    # One list for all members: hundreds of ranks have too many pairs to store.
    partners = {member: members for members in joined for member in members}
    unmatched = [[at] for at, exchange in every.items() if exchange.traffic in ("send", "receive")]
    layers = _layers([*joined, *unmatched], sent)
    return Connected(summaries, layers, partners | {receiver: [sender] for receiver, sender in sent.items()})


def _as_made(summary: RankSummary) -> Iterator[int]:
    """Yield the positions of a rank's exchanges, those of one function in the order of their calls.

    A dump has asynchronous calls in the order in which they were waited for, which may differ between ranks; their
    numbers have the order of the calls.
    """
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    parsed = [names.parse(exchange.name) for exchange in summary.exchanges]
    for n, name in enumerate(parsed):
        places[name.stem + name.direction].append((name.number, n))
    made = {stem: iter(sorted(found)) for stem, found in places.items()}
    for name in parsed:
        yield next(made[name.stem + name.direction])[1]


def _collectives(every: Mapping[At, Exchange], ranks: frozenset[int]) -> list[list[At]]:
    found: defaultdict[tuple[object, int], list[At]] = defaultdict(list)
    counts: Counter[tuple[object, ...]] = Counter()
    for at, exchange in every.items():
        if exchange.traffic in ("send", "receive"):
            continue
        group: object = exchange.group
        if isinstance(group, tuple):
            group = None if ranks <= frozenset(group) else frozenset(group)
        key = exchange.word, group, exchange.peer
        found[key, counts[at[0], key]].append(at)
        counts[at[0], key] += 1
    return list(found.values())


def _messages(every: Mapping[At, Exchange], ranks: Sequence[int]) -> dict[At, At]:
    """Return sender by receiver of every message that has both; a receiver from any rank takes a remaining one."""
    waiting: defaultdict[tuple[int, int, str], deque[At]] = defaultdict(deque)
    for at, exchange in every.items():
        if exchange.traffic == "send":
            waiting[at[0], exchange.peer, exchange.word].append(at)
    found: dict[At, At] = {}
    received = [(at, exchange) for at, exchange in every.items() if exchange.traffic == "receive"]
    for at, exchange in sorted(received, key=lambda one: one[1].peer < 0):
        senders = ranks if exchange.peer < 0 else [exchange.peer]
        lines = (waiting.get((sender, at[0], exchange.word)) for sender in senders)
        if line := next(filter(None, lines), None):
            found[at] = line.popleft()
    return found


def _layers(knots: Sequence[Sequence[At]], sent: Mapping[At, At]) -> Mapping[At, int]:
    """Return the layers of all exchanges, following all ranks in parallel.

    Contradictory orders (exchanges that wait for each other, because one of them was not recorded somewhere) are
    resolved: the first waiting exchange no longer waits.
    """
    knot_of = {at: number for number, members in enumerate(knots) for at in members}
    after: list[list[int]] = [[] for _ in knots]
    missing = [0] * len(knots)
    for number, members in enumerate(knots):
        before = [(rank, n - 1) for rank, n in members if n] + [sent[at] for at in members if at in sent]
        for at in before:
            after[knot_of[at]].append(number)
        missing[number] = len(before)
    lowest = [0] * len(knots)
    layers = [0] * len(knots)
    ready = deque(number for number, count in enumerate(missing) if not count)
    waiting = iter(sorted(range(len(knots)), key=lambda number: min((n, rank) for rank, n in knots[number])))
    while (number := ready.popleft() if ready else next((n for n in waiting if not layers[n]), -1)) >= 0:
        if layers[number]:
            continue
        layers[number] = lowest[number] + 1
        for later in after[number]:
            lowest[later] = max(lowest[later], layers[number])
            missing[later] -= 1
            if not missing[later]:
                ready.append(later)
    return {at: layers[number] for at, number in knot_of.items()}
