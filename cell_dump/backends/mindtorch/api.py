"""Functions of PyTorch's API on MindSpore: which are collected, under which names, and where they are replaced.

The list is made from the layer itself: every public function of the namespaces below, and the methods and operators of
Tensor that take or return tensors, less what manages and what the layer only uses itself. The names are those of
PyTorch. Only the outermost call is recorded.

Such a layer is a package of another name, which an import hook shows as `torch`. A function then stands in two modules:
that of the layer, which the layer's own code reads, and the one that users import, which makes its attributes when they
are asked for, and may keep what it made. So both are replaced, and each attribute is asked for once before, that no
replacement of ours is what is kept.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
import torch.distributed as distributed
from mindspore import Tensor

from msprobe.cell_dump.alias_patching import Users
from msprobe.cell_dump.backends.mindspore import api as mindspore_api
from msprobe.cell_dump.backends.mindspore import jit
from msprobe.cell_dump.backends.torch_api import COLLECTIVES, LEFT_OUT, MANAGING, OPERATORS
from msprobe.cell_dump.collective import Collectives, group_id
from msprobe.cell_dump.functions import FunctionCalls


def namespace(name: str) -> ModuleType | None:
    """The module that holds what `name` (`torch.nn.functional`) shows; None where the layer has none."""
    try:
        shown = import_module(name)
    except Exception:  # a part of a layer that does not import here, whatever it raises, has no functions here
        return None
    return sys.modules.get(getattr(vars(shown).get("__loader__"), "target_name", ""), shown)


def _classes(*names: str) -> tuple[type, ...]:
    found = (getattr(distributed, name, None) for name in names)
    return tuple(dict.fromkeys(kind for kind in found if isinstance(kind, type)))


GROUPS = _classes("ProcessGroup")


def group_record(group: Any) -> dict[str, Any]:
    """A group of ranks as records say it, in the words of the other tool."""
    ranks = [int(rank) for rank in distributed.get_process_group_ranks(group)]
    return {"type": "mindspore.ProcessGroup", "group_ranks": ranks, "group_id": group_id(ranks)}


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


def functions() -> Iterator[tuple[Any, str, str]]:
    """What is collected: (owner of the attribute, its name, stem of the calls' names)."""
    for prefix, _, module in _modules():
        for name in sorted(vars(module)):
            public = not name.startswith(("_", *MANAGING)) and name not in LEFT_OUT and name not in OF_THE_LAYER
            is_collected = name in COLLECTIVES if prefix == "Distributed" else public
            if is_collected and isinstance(vars(module)[name], (FunctionType, BuiltinFunctionType)):
                yield module, name, f"{prefix}.{name}"
    left_out = LEFT_OUT | mindspore_api.LEFT_OUT
    for name in sorted(set(dir(Tensor))):
        if (name in OPERATORS or not (name.startswith("_") or name in left_out)) and mindspore_api.is_method(name):
            yield Tensor, name, f"Tensor.{name}"


def _modules() -> Iterator[tuple[str, str, ModuleType]]:
    """Prefix, name and module of every namespace that is there, each module once."""
    known = set[int]()
    for prefix, name in NAMESPACES:
        module = namespace(name) if name not in ON_REQUEST or name in sys.modules else None
        if module is not None and id(module) not in known:
            known.add(id(module))
            yield prefix, name, module


def _torch_modules(root: Any) -> Iterator[Any]:
    if isinstance(root, torch.nn.Module):
        yield from root.modules()


class Calls(FunctionCalls):
    """The layer's functions, and MindSpore's `@jit` code."""

    users = Users(
        modules_of=_torch_modules, layers=("msadapter.nn.modules.", "mindtorch.nn.modules.", "torch.nn.modules.")
    )
    tensor = Tensor
    collectives = Collectives(
        message_type="torch.distributed.P2POp",
        handles=(*_classes("Work"), *mindspore_api.COLLECTIVES.handles),
        messages=_classes("P2POp"),
        peers=tuple(getattr(distributed, name) for name in ("isend", "irecv") if hasattr(distributed, name)),
    )
    other_stems = ("Jit.",)
    golden = "PyTorch, or of its API on MindSpore"
    functions = staticmethod(functions)

    def _plan_functions(self) -> None:
        shown = ((module, sys.modules.get(name)) for _, name, module in _modules())
        self._shown = {id(module): other for module, other in shown if other is not module}
        super()._plan_functions()
        jit.plan_calls(self._current, self._patches, self._wanted)

    def _plan_function(self, owner: Any, name: str, stem: str) -> None:
        """As the base, wherever users see the function; references are followed to the module that holds it."""
        shown = self._shown.get(id(owner))
        if shown is not None and hasattr(shown, name):
            self._replace(shown, name, stem)
        super()._plan_function(owner, name, stem)
