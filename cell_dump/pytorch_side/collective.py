"""What PyTorch's collectives give and take besides tensors: handles to wait for, and messages between two ranks."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from zlib import crc32

from torch import distributed

from msprobe.base.patches import Patches
from msprobe.cell_dump import collective
from msprobe.cell_dump.collective import Message
from msprobe.cell_dump.nested import Bare

_IS_THERE = distributed.is_available()

HANDLES: tuple[type, ...] = (distributed.Work,) if _IS_THERE else ()
"""What asynchronous calls give."""

_MESSAGES: tuple[type, ...] = (distributed.P2POp,) if _IS_THERE else ()
_PEERS = (distributed.isend, distributed.irecv) if _IS_THERE else ()

_MESSAGE = "torch.distributed.P2POp"


def handles(result: Any) -> list[Any]:
    """The handles among what a call gave."""
    if isinstance(result, HANDLES):
        return [result]
    return [handle for each in result for handle in handles(each)] if isinstance(result, (list, tuple)) else []


def messages(value: Any) -> Any:
    """`value` with each `P2POp`, which is no container, replaced by what it says."""
    if isinstance(value, _MESSAGES):
        group = None if value.group is None else f"{crc32(str(value.group.group_name).encode()):08x}"
        return Message(
            Bare(_MESSAGE), value.tensor, Bare(value.op.__name__), Bare(value.peer), Bare(value.tag), Bare(group)
        )
    if type(value) in (list, tuple):
        return type(value)([messages(each) for each in value])
    return {k: messages(v) for k, v in value.items()} if type(value) is dict else value


def plan(current: Callable[[], Any], patches: Patches) -> None:
    """Plan to tell the session of every `wait`, and to let `P2POp` see the framework's `isend`: it takes no other."""
    collective.plan(current, patches, HANDLES)
    for message in _MESSAGES:
        patches.add(message, "__new__", _made_of_plain)
        patches.add(message, "__init__", _of_plain)


def _made_of_plain(original: Any) -> Any:
    return staticmethod(_of_plain(getattr(original, "__func__", original)))


def _of_plain(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def made(self: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        plain = getattr(op, "__wrapped__", None)
        return original(self, plain if plain in _PEERS else op, *args, **kwargs)

    return made
