"""PyTorch's functions: which are collected, and under which names.

Functions: which ones of the installed PyTorch are collected, and under which names.

The list is made from the framework itself: every public function of the namespaces below, and the methods and operators
of Tensor that take or give tensors. Only the outermost call is recorded. References to these functions that a user made
before are reached by `references.py`.

The functions are replaced in their namespaces while a collection is open, and not seen by a `TorchFunctionMode`: that
one is told `torch.Tensor.add` for `x + y`, one and the same object for `torch.conv2d` and `F.conv2d`, nothing of
collectives, and it is asked at every look at an attribute (`x.shape`) as well.
"""

from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

import torch
from torch import Tensor, distributed

from msprobe.base.patches import Patch, Patches
from msprobe.cell_dump import collective
from msprobe.cell_dump.alias_patching import Current, Stems, recorded, standing_at
from msprobe.cell_dump.backends.torch_names import COLLECTIVES, LEFT_OUT, MANAGING, OPERATORS
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


def plan_collectives(current: Callable[[], Any], patches: Patches) -> None:
    """Plan what is in place for collectives."""
    collective.plan(current, patches, handles=HANDLES, messages=_MESSAGES, peers=_PEERS)


NAMESPACES: tuple[tuple[str, ModuleType], ...] = (
    ("Functional", torch.nn.functional),  # first: `conv2d` and others stand in `torch` too, and are called from here
    ("Torch", torch),
    ("Torch", torch.linalg),  # as the other tool has it: `torch.linalg.norm` is `Torch.norm` too
    ("Torch", torch.fft),
    ("Torch", torch.special),
)
"""Prefix of the names and the module whose public functions they are."""

VF = ("gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell")
"""What the recurrent layers call, in `torch._VF`; its other functions are seen where users call them."""

NAMESAKES = ((torch.linalg, "cond"),)
"""Functions that have a name of `LEFT_OUT` and are none of it: this one gives the condition number of a matrix."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_METHODS = (*_FUNCTIONS, MethodDescriptorType, WrapperDescriptorType)


def functions() -> Iterator[tuple[Any, str, str]]:
    """What is collected: (owner of the attribute, its name, stem of the calls' names)."""
    for prefix, module in NAMESPACES:
        for name in sorted(vars(module)):
            public = not name.startswith(("_", *MANAGING)) and name not in LEFT_OUT
            if (public or (module, name) in NAMESAKES) and isinstance(vars(module)[name], _FUNCTIONS):
                yield module, name, f"{prefix}.{name}"
    for name in VF:
        if hasattr(torch._VF, name):
            yield torch._VF, name, f"VF.{name}"
    for name in COLLECTIVES if distributed.is_available() else ():
        if hasattr(distributed, name):
            yield distributed, name, f"Distributed.{name}"
    for name in sorted(set(dir(Tensor))):
        public = not name.startswith("_") and name not in LEFT_OUT
        if (public or name in OPERATORS) and isinstance(_static(Tensor, name), _METHODS):
            yield Tensor, name, f"Tensor.{name}"


def plan(current: Current, patches: Patches, wanted: Stems = None) -> list[Patch]:
    """Plan a patch for every function of the list whose stem is `wanted`; gives those of modules, not of Tensor."""
    planned = []
    if distributed.is_available():
        plan_collectives(current, patches)
    for owner, name, stem in functions():
        if wanted is None or stem in wanted:
            door = "call_collective" if owner is distributed else "call_api"
            make = partial(recorded, stem, current, door=door)
            patch = patches.add(owner, name, partial(standing_at, owner, name, make))
            if owner is not Tensor:
                planned.append(patch)
    return planned


def _static(owner: type, name: str) -> Any:
    """The attribute as it stands in the class or the base that has it, not bound, not computed."""
    for base in owner.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None
