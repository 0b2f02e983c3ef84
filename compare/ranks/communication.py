"""Which calls communicate, and what their arguments say of it: the group, the root, the other rank.

| functions of | named |
|---|---|
| torch.distributed, MindSpore's communication.comm_func, ops.communication | `Distributed.all_reduce.0.forward` |
| mindspore.mint.distributed | `MintDistributed.all_reduce.0.forward` |
| mindspore.ops, held by a cell | `Primitive.reduce.AllReduce.0.forward`, and its backward |

The backward of the others is recorded as passing a gradient on, so it exchanges nothing (docs/ranks.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msprobe.base import names
from msprobe.store.record import Call, Record

from .story import Exchange, Group, Traffic

PREFIXES = ("Distributed.", "MintDistributed.", "communication.comm_func.")

_MAY = (*PREFIXES, "Primitive.")

_WORDS = ("send", "recv", "broadcast", "reduce", "gather", "scatter", "all_to_all")
"""What a function that communicates has in its name: `all_reduce`, `isend`, `_all_gather_base`..."""

_PRIMITIVES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AlltoAll": "all_to_all",
    "AlltoAllV": "all_to_all",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "CollectiveScatter": "scatter",
    "CollectiveGather": "gather",
    "Send": "send",
    "Receive": "recv",
}
_ONLY_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""The primitives of which something is known without their attributes: no dump has the root or the other rank."""

_BATCH = "batch_isend_irecv"
_WORLD = ("hccl_world_group", "nccl_world_group", "mccl_world_group", "gloo_world_group")
_REDUCTIONS = ("sum", "max", "min", "prod", "avg")
"""Texts that stand among the arguments and are no names of groups."""

_FILLED = ("all_gather", "reduce_scatter", "all_to_all")
"""Where two tensors are given, the first is the one that is written into (torch.distributed, mint.distributed)."""


def word_of(call: str) -> str:
    """What a call does, `all_reduce`, where it communicates; else an empty text."""
    if not call.startswith(_MAY):
        return ""
    name = names.parse(call)
    if name.kind != "api":
        return ""
    last = name.stem.rsplit(".", 1)[-1]
    if name.stem.startswith("Primitive."):
        word = _PRIMITIVES.get(last, "")
        return word if word in _ONLY_ALL else ""
    is_one = name.stem.startswith(PREFIXES) and name.direction == "forward" and any(word in last for word in _WORDS)
    return last if is_one else ""


def traffic_of(word: str) -> Traffic:
    """Whose data reach whom."""
    if any(whole in word for whole in _ONLY_ALL):
        return "all"
    if "send" in word:
        return "send"
    if "recv" in word:
        return "receive"
    return "from_one" if "broadcast" in word or "scatter" in word else "to_one"


def exchanges_of(call: Call, word: str) -> tuple[Exchange, ...]:
    """The exchanges of one call: one, or of a batch one for each of its operations.

    The root is 0 where the call does not say, as in MindSpore. A primitive's backward exchanges the other way round,
    which again is from everyone to everyone.
    """
    given = [record for record in call.records if record.part == "input"]
    group = _group(given)
    if word == _BATCH:
        return tuple(_batch(call.name, given, group))
    traffic = traffic_of(word)
    if traffic == "all":
        suffix = " backward" if names.parse(call.name).direction == "backward" else ""
        return (Exchange(call.name, traffic, word + suffix, group),)
    is_pair = traffic in ("send", "receive")
    exchange = Exchange(call.name, traffic, _pair_word(word) if is_pair else word, group)
    return (replace(exchange, peer=_peer(given, group, default=-1 if traffic == "receive" else 0)),)


def is_buffer(word: str, path: Sequence[str], given: Sequence[Record]) -> bool:
    """Whether a value that was handed over is there to be written into, so that what it held says nothing."""
    if not path or not any(filled in word for filled in _FILLED):
        return False
    if path[0].startswith("output"):
        return True
    return path[0] == "0" and any(record.kind == "tensor" and record.path[:1] == ("1",) for record in given)


def _pair_word(word: str) -> str:
    return "objects" if "object" in word else "send"


def _batch(name: str, given: Sequence[Record], group: Group) -> Iterator[Exchange]:
    told = {record.path: record.value for record in given if record.kind == "value"}
    for path, value in told.items():
        if path[-1:] == ("op",) and isinstance(value, str):
            peer = told.get((*path[:-1], "peer"))
            traffic: Traffic = "send" if "send" in value else "receive"
            yield Exchange(name, traffic, "send", group, peer if type(peer) is int else -1)


def _group(given: Sequence[Record]) -> Group:
    """The group that a call was given; None where it was given none, which means all ranks."""
    for record in given:
        is_named = record.path[:1] == ("group",)
        value = record.value
        if isinstance(value, list) and (is_named or "Group" in record.type) and all(type(n) is int for n in value):
            return tuple(value)
        if isinstance(value, str) and record.type == "str" and len(record.path) == 1:
            is_group = is_named or (record.path[0].isdigit() and value.lower() not in _REDUCTIONS)
            if is_group and value:
                return None if value in _WORLD else value
    return None


def _peer(given: Sequence[Record], group: Group, default: int) -> int:
    """The root or the other rank: of the keywords that name one, else the first number among the arguments."""
    numbers = {r.path[0]: r.value for r in given if r.kind == "value" and type(r.value) is int and len(r.path) == 1}
    for key in ("src", "dst"):
        if key in numbers:
            return int(numbers[key])
        within = numbers.get(f"group_{key}")
        if within is not None and isinstance(group, tuple) and 0 <= within < len(group):
            return group[within]
    return next((int(value) for key, value in numbers.items() if key.isdigit()), default)
