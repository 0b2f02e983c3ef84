"""What MindSpore's collectives give and take besides tensors: handles to wait for, and messages between two ranks."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from mindspore.communication import comm_func
from mindspore.mint import distributed

from msprobe.base.patches import Patches
from msprobe.cell_dump import collective
from msprobe.cell_dump.collective import Message, group_id
from msprobe.cell_dump.describer import Bare

try:
    from mindspore.ops.function import comm_func as functional
except ImportError:  # before 2.7.1
    functional = comm_func

HANDLES = tuple(dict.fromkeys((comm_func.CommHandle, functional.CommHandle)))
"""What asynchronous calls give."""

_MESSAGES = tuple(dict.fromkeys((distributed.P2POp, functional.P2POp, comm_func.P2POp)))
_PEERS = (distributed.isend, distributed.irecv, functional.isend, functional.irecv)

_MESSAGE = "mindspore.mint.distributed.P2POp"


def handles(result: Any) -> list[Any]:
    """The handles among what a call gave."""
    return collective.handles_in(result, HANDLES)


def messages(value: Any) -> Any:
    """`value` with each `P2POp` replaced by what it says."""
    return collective.with_messages(value, _MESSAGES, _said)


def _said(message: Any) -> Message:
    op = message.op.__name__ if isinstance(message.op, FunctionType) else message.op
    peer, tag, group = message.peer, message.tag, group_id(message.group)
    return Message(Bare(_MESSAGE), message.tensor, Bare(op), Bare(peer), Bare(tag), Bare(group))


def plan(current: Callable[[], Any], patches: Patches) -> None:
    """Plan what is in place for collectives."""
    collective.plan(current, patches, handles=HANDLES, messages=_MESSAGES, peers=_PEERS)
