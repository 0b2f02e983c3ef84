"""Functions of PyTorch's API on MindSpore: which are collected, under which names, and where they are replaced.

The namespaces of `torch` where it is a layer on MindSpore, and where in them a function has to be replaced.

Such a layer is a package of another name, which an import hook shows as `torch`. A function then stands in two modules:
that of the layer, which the layer's own code reads, and the one that users import, which makes its attributes when they
are asked for, and may keep what it made. So both are replaced, and each attribute is asked for once before, that no
replacement of ours is what is kept.

Functions: which ones of the installed layer are collected, and under which names, those of PyTorch.

The list is made from the layer itself: every public function of the namespaces below, and the methods and operators of
Tensor that take or give tensors, less what manages and what the layer only uses itself. Only the outermost call is
recorded. References to these functions that a user made before are reached by `references.py`.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch.distributed as distributed
from mindspore import Tensor

from msprobe.base.patches import Patch, Patches
from msprobe.cell_dump import collective
from msprobe.cell_dump.alias_patching import Current, Stems, recorded, standing_at
from msprobe.cell_dump.backends.mindspore import api as mindspore_api
from msprobe.cell_dump.backends.mindspore import api as mindspore_collective
from msprobe.cell_dump.backends.torch_names import COLLECTIVES, LEFT_OUT, MANAGING, OPERATORS
from msprobe.cell_dump.collective import Message, group_id
from msprobe.cell_dump.describer import Bare


def namespace(name: str) -> ModuleType | None:
    """The module that holds what `name` (`torch.nn.functional`) shows; None where the layer has none."""
    try:
        shown = import_module(name)
    except Exception:  # a part of a layer that does not import here, whatever it raises, has no functions here
        return None
    return sys.modules.get(_target(shown), shown)


def shown_as(name: str, module: ModuleType) -> ModuleType | None:
    """The module that users import by this name, where it is another one than `module`, which holds the functions."""
    shown = sys.modules.get(name)
    return None if shown is module else shown


def asked(shown: ModuleType, name: str) -> bool:
    """Ask for an attribute that is made when it is asked for; whether it is there."""
    return hasattr(shown, name)


def _target(shown: ModuleType) -> Any:
    return getattr(vars(shown).get("__loader__"), "target_name", "")


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


def plan_collectives(current: Callable[[], Any], patches: Patches) -> None:
    """Plan what is in place for collectives."""
    collective.plan(current, patches, handles=HANDLES, messages=_MESSAGES, peers=_PEERS)


NAMESPACES = (
    ("Functional", "torch.nn.functional"),
    ("Torch", "torch"),
    ("Torch", "torch.linalg"),
    ("Torch", "torch.fft"),
    ("Torch", "torch.special"),
    ("NPU", "torch_npu"),
    ("Distributed", "torch.distributed"),
)
"""Prefix of the names and the module whose public functions they are."""

ON_REQUEST = ("torch_npu",)
"""Namespaces that count only where the training has imported them."""

OF_THE_LAYER = frozenset(
    [
        *("are_deterministic_algorithms_enabled", "assign", "contains", "dim_list_to_bitset", "dtype_to_nptype"),
        *("dtype_to_pytype", "einsum_label_to_index", "enable_torch_proxy", "finfo", "get_py_obj_dtype", "getitem"),
        *("get_device_module", "iinfo", "initialize", "inplace_apply_func", "load_library", "manual_expand"),
        *("maybe_wrap_dim", "on_orange_pi", "pytype_to_dtype", "run_backward", "setitem", "sumproduct_pair"),
        *("use_pyboost", "call_ms_func"),
    ]
)
"""Functions that stand in a layer's namespaces for its own use, or for the process."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType)


def functions() -> Iterator[tuple[Any, str, str]]:
    """What is collected: (owner of the attribute, its name, stem of the calls' names)."""
    for prefix, _, module in _modules():
        for function in sorted(vars(module)):
            if _is_collected(prefix, function) and isinstance(vars(module)[function], _FUNCTIONS):
                yield module, function, f"{prefix}.{function}"
    left_out = LEFT_OUT | mindspore_api.LEFT_OUT
    for name in sorted(set(dir(Tensor))):
        if (name in OPERATORS or not (name.startswith("_") or name in left_out)) and mindspore_api.is_method(name):
            yield Tensor, name, f"Tensor.{name}"


def plan(current: Current, patches: Patches, wanted: Stems = None) -> list[Patch]:
    """Plan a patch for every function of the list whose stem is `wanted`, wherever users see it; gives those that
    replace a function where it is held, in its module.
    """
    shown = {id(module): shown_as(name, module) for _, name, module in _modules()}
    held = []
    for owner, name, stem in functions():
        if wanted is not None and stem not in wanted:
            continue
        door = "call_collective" if stem.startswith("Distributed.") else "call_api"
        make = partial(recorded, stem, current, door=door)
        seen = shown.get(id(owner))
        if seen is not None and asked(seen, name):
            patches.add(seen, name, partial(standing_at, seen, name, make))
        patch = patches.add(owner, name, partial(standing_at, owner, name, make))
        if owner is not Tensor:
            held.append(patch)
    return held


def _modules() -> Iterator[tuple[str, str, ModuleType]]:
    """Prefix, name and module of every namespace that is there, each module once."""
    known = set[int]()
    for prefix, name in NAMESPACES:
        module = _imported(name) if name in ON_REQUEST else namespace(name)
        if module is not None and id(module) not in known:
            known.add(id(module))
            yield prefix, name, module


def _imported(name: str) -> ModuleType | None:
    return namespace(name) if name in sys.modules else None


def _is_collected(prefix: str, name: str) -> bool:
    if prefix == "Distributed":
        return name in COLLECTIVES
    return not name.startswith(("_", *MANAGING)) and name not in LEFT_OUT and name not in OF_THE_LAYER
