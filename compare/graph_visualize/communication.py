"""The calls of several ranks that are one exchange: the links of a node to other ranks.

Exchanges are joined as in a comparison of ranks (`compare.ranks.collectives`): by group, function, order. For a root,
links lead to all ranks; for every other rank, only the link to the root is drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msprobe.compare.core.exchanges import word_of
from msprobe.compare.ranks.collectives import At, Connected, Exchange, RankSummary, connect, exchanges_of
from msprobe.store.record import Dump

Links = list[dict[str, object]]


@dataclass(frozen=True)
class Ends:
    """The exchanges of one rank, and by node the text that other ranks display: its number, or its level."""

    exchanges: tuple[Exchange, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)


UNKNOWN = "Nan"
"""The state of a node that has neither a number nor a level, in the plugin's term."""


def communicates(call: str) -> bool:
    """Return whether a call exchanges something with other ranks."""
    return bool(word_of(call))


def ends_of(dump: Dump, states: Mapping[str, str]) -> Ends:
    """Return the exchanges of a rank."""
    found = [(at, word) for at, name in enumerate(dump.columns.names) if (word := word_of(name))]
    exchanges = [exchange for at, word in found for exchange in exchanges_of(dump.calls[at], word)]
    return Ends(
        tuple(exchanges), {dump.columns.names[at]: states.get(dump.columns.names[at], UNKNOWN) for at, _ in found}
    )


def links_of(ends: Mapping[int, Ends]) -> Iterator[tuple[int, str, Links]]:
    """Yield rank, node and links of every call that has a counterpart on another rank; `ends` are of the ranks of one
    step."""
    connected = connect(
        {rank: RankSummary(each.exchanges, ("",) * (len(each.exchanges) + 1)) for rank, each in ends.items()}
    )
    receivers = {senders[0]: at for at, senders in connected.partners.items() if _is_message(connected, at)}
    for rank, each in sorted(ends.items()):
        found: dict[str, Links] = {}
        for n, exchange in enumerate(each.exchanges):
            others = connected.partners.get((rank, n), ())
            if (rank, n) in receivers:
                others = [receivers[rank, n]]
            if nodes := dict(_nodes(connected, ends, rank, exchange, others)):
                link: dict[str, object] = {"communications_type": _role(exchange, rank), "nodes_info": nodes}
                found.setdefault(exchange.name, []).append(link)
        for name, links in found.items():
            yield rank, name, links


def _is_message(connected: Connected, at: At) -> bool:
    rank, n = at
    return connected.summaries[rank].exchanges[n].traffic == "receive"


def _nodes(
    connected: Connected, ends: Mapping[int, Ends], rank: int, exchange: Exchange, others: Sequence[At]
) -> Iterator[tuple[str, list[str]]]:
    is_rooted = exchange.traffic in ("from_one", "to_one")
    for other, n in others:
        if other == rank or (is_rooted and exchange.peer not in (-1, rank, other)):
            continue
        name = connected.summaries[other].exchanges[n].name
        yield str(other), [ends[other].states.get(name, UNKNOWN), name]


def _role(exchange: Exchange, rank: int) -> str:
    """Return the role of a rank in an exchange, in the plugin's terms."""
    if exchange.traffic == "all":
        return "send_receive"
    if exchange.traffic in ("send", "receive"):
        return exchange.traffic
    return "send" if (exchange.peer == rank) == (exchange.traffic == "from_one") else "receive"
