"""Exchanges among the ranks that have one copy of the model: the whole model does not have them.

They show the role of a value on the tensor parallel ranks: the input of an all-reduce is a part of a sum, and its
result is the value that the whole model has there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.base import names
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.ranks.collectives import traffic_of

from .dumps import RankDump
from .values import Record, is_tensor, signature

Signature = tuple[tuple[str, ...], ...]
"""The signatures of one value on all tensor parallel ranks."""

_ADDING = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True)
class Exchanges:
    """The exchanges of one stage, or of all: their calls, and the results of those that add up, by their inputs.

    `internal` are the calls that the framework makes to distribute the model, exchanges among them.
    """

    calls: frozenset[str]
    sums: Mapping[Signature, Sequence[Record]] = field(default_factory=dict, repr=False)
    internal: frozenset[str] = frozenset()

    def sum_of(self, records: Sequence[Record]) -> Sequence[Record] | None:
        """Return the results of the exchange that adds up the values of all ranks; None if there is none."""
        return self.sums.get(tuple(map(signature, records)))


def exchanges_of(ranks: Sequence[RankDump], model: frozenset[int], *, has_stages: bool, is_alone: bool) -> Exchanges:
    """Return the exchanges of the tensor parallel ranks of a stage inside the ranks of the `model`, by the names of the
    first rank.

    `is_alone`: all ranks of the run have one copy of the model together. If the group of an exchange was not recorded,
    and there are other copies, it is inside the model if a cell makes it: gradients of copies are exchanged outside.
    """
    calls: list[str] = []
    sums: dict[Signature, Sequence[Record]] = {}
    first = ranks[0]
    for name in dict.fromkeys((*first.construct, *first.entries)):
        twin = names.counterpart(name, "forward")
        word = word_of(name) or word_of(twin)
        if not word:
            continue
        is_message = word == "batch_isend_irecv" or traffic_of(word) in ("send", "receive")
        if is_message:
            is_inside = has_stages
        else:
            group = _group(first.entries.get(twin))
            is_inside = is_alone or (group <= model if group else first.construct.get(name) is not None)
        if not is_inside:
            continue
        calls.append(name)
        if len(ranks) > 1 and any(adding in word for adding in _ADDING):
            sums |= _sums([rank.entries.get(name) for rank in ranks])
    return Exchanges(frozenset(calls), sums, internal_calls(first))


_INTERNAL = re.compile(r"File (.*?/torch/)distributed/(?:fsdp|_composable|tensor)/")
"""Code that gathers, scatters and reduces the parameters of a distributed model in PyTorch; before it, the folder of
PyTorch."""


def internal_calls(rank: RankDump) -> frozenset[str]:
    """Return the calls that PyTorch makes to distribute the model, and their backward calls.

    Between such a call and the code that distributes there are only frames of PyTorch, and none of a layer.
    """
    found = {name for name, frames in rank.stacks.items() if is_internal(frames)}
    backward = {name for name in rank.entries if names.counterpart(name, "forward") in found}
    return frozenset(found | backward)


def is_internal(frames: Sequence[str]) -> bool:
    """Return whether the stack of a call, innermost frame first, is one of the code that distributes a model."""
    for at, frame in enumerate(frames):
        if inside := _INTERNAL.match(frame):
            beginning = f"File {inside[1]}"
            return all(each.startswith(beginning) and "/torch/nn/modules/" not in each for each in frames[:at])
    return False


def _group(entry: Any) -> frozenset[int]:
    """Return the ranks of the group among the arguments of a call; empty if they were not recorded."""
    for node in _nodes(entry):
        ranks = node.get("group_ranks")
        if isinstance(ranks, list) and ranks and all(type(n) is int for n in ranks):
            return frozenset(ranks)
    return frozenset()


def _sums(entries: Sequence[Any]) -> dict[Signature, Sequence[Record]]:
    inputs = [[node for node in _nodes(_inputs(entry)) if is_tensor(node)] for entry in entries]
    made = [next((n for n in _nodes(entry.get("output")) if is_tensor(n)), None) for entry in entries if entry]
    if None in made or len(made) < len(entries) or len({len(each) for each in inputs}) > 1:
        return {}
    found: dict[Signature, Sequence[Record]] = {}
    for records in zip(*inputs, strict=True):
        what = tuple(map(signature, records))
        if len({*what}) > 1:  # buffers, and values that are equal everywhere, are not evidence
            found[what] = [record for record in made if record is not None]
    return found


def _inputs(entry: Any) -> list[Any]:
    return [entry.get(key) for key in ("input_args", "input_kwargs", "input")] if isinstance(entry, dict) else []


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Return all objects in a tree, the outer ones first."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    for child in tree if isinstance(tree, list) else ():
        yield from _nodes(child)
