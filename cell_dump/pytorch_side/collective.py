"""What PyTorch's collectives give and take besides tensors: handles to wait for, and messages between two ranks."""

from collections.abc import Callable
from typing import Any

from torch import distributed

from msprobe.base.patches import Patches
from msprobe.cell_dump import collective
from msprobe.cell_dump.collective import Message, group_id
from msprobe.cell_dump.describer import Bare

_IS_THERE = distributed.is_available()

HANDLES: tuple[type, ...] = (distributed.Work,) if _IS_THERE else ()
"""What asynchronous calls give."""

_MESSAGES: tuple[type, ...] = (distributed.P2POp,) if _IS_THERE else ()
_PEERS = (distributed.isend, distributed.irecv) if _IS_THERE else ()

_MESSAGE = "torch.distributed.P2POp"


def handles(result: Any) -> list[Any]:
    """The handles among what a call gave."""
    return collective.handles_in(result, HANDLES)


def messages(value: Any) -> Any:
    """`value` with each `P2POp` replaced by what it says."""
    return collective.with_messages(value, _MESSAGES, _said)


def _said(message: Any) -> Message:
    group = None if message.group is None else message.group.group_name
    op, peer, tag = message.op.__name__, message.peer, message.tag
    return Message(Bare(_MESSAGE), message.tensor, Bare(op), Bare(peer), Bare(tag), Bare(group_id(group)))


def plan(current: Callable[[], Any], patches: Patches) -> None:
    """Plan what is in place for collectives."""
    collective.plan(current, patches, handles=HANDLES, messages=_MESSAGES, peers=_PEERS)
