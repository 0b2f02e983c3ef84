"""Functions: which ones of the installed layer are collected, and under which names, those of PyTorch.

The list is made from the layer itself: every public function of the namespaces below, and the methods and operators of
Tensor that take or give tensors, less what manages and what the layer only uses itself. Only the outermost call is
recorded. References to these functions that a user made before are reached by `references.py`.
"""

import sys
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from mindspore import Tensor

from msprobe.base.patches import Patch, Patches
from msprobe.cell_dump.mindspore_side import api as mindspore_api
from msprobe.cell_dump.recorded import Current, Stems, recorded, standing_at
from msprobe.cell_dump.torch_names import COLLECTIVES, LEFT_OUT, MANAGING, OPERATORS

from .namespaces import asked, namespace, shown_as

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
