"""What the layer's collectives give and take besides tensors: handles, messages between two ranks, groups of ranks."""

from collections.abc import Callable
from typing import Any

import torch.distributed as distributed

from msprobe.base.patches import Patches
from msprobe.cell_dump import collective
from msprobe.cell_dump.collective import Message, group_id
from msprobe.cell_dump.describer import Bare
from msprobe.cell_dump.mindspore_side import collective as mindspore_collective


def _classes(*names: str) -> tuple[type, ...]:
    found = (getattr(distributed, name, None) for name in names)
    return tuple(dict.fromkeys(kind for kind in found if isinstance(kind, type)))


HANDLES = (*_classes("Work"), *mindspore_collective.HANDLES)
"""What asynchronous calls give: the layer's own handles, and those of MindSpore."""

GROUPS = _classes("ProcessGroup")

_MESSAGES = _classes("P2POp")
_PEERS = tuple(peer for name in ("isend", "irecv") if (peer := getattr(distributed, name, None)) is not None)

_MESSAGE = "torch.distributed.P2POp"


def handles(result: Any) -> list[Any]:
    """The handles among what a call gave."""
    return collective.handles_in(result, HANDLES)


def messages(value: Any) -> Any:
    """`value` with each `P2POp` replaced by what it says."""
    return collective.with_messages(value, _MESSAGES, _said)


def _said(message: Any) -> Message:
    op = message.op if isinstance(message.op, str) else message.op.__name__
    group = message.group if isinstance(message.group, str) else getattr(message.group, "group_name", None)
    tag = getattr(message, "tag", 0)
    return Message(Bare(_MESSAGE), message.tensor, Bare(op), Bare(message.peer), Bare(tag), Bare(group_id(group)))


def group_record(group: Any) -> dict[str, Any]:
    """A group of ranks as records say it, in the words of the other tool."""
    ranks = [int(rank) for rank in distributed.get_process_group_ranks(group)]
    return {"type": "mindspore.ProcessGroup", "group_ranks": ranks, "group_id": group_id(ranks)}


def plan(current: Callable[[], Any], patches: Patches) -> None:
    """Plan what is in place for collectives."""
    collective.plan(current, patches, handles=HANDLES, messages=_MESSAGES, peers=_PEERS)
