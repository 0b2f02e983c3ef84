"""Functions of PyTorch's API on MindSpore: which are collected, and under which names.

The list is made from the layer itself: every public function of the namespaces below, and the methods and operators of
Tensor that take or return tensors, less what manages and what the layer only uses itself. The names are those of
PyTorch. Only the outermost call is recorded.

Such a layer is a package with another name, which an import hook presents as `torch`. A function is in two modules:
that of the layer, which the layer's own code reads, and the one that users import, which makes its attributes when they
are accessed. Both have the same object, which is changed in place.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch.distributed as distributed
from mindspore import Tensor

from msprobe.cell_dump.call_sites import Users
from msprobe.cell_dump.collective import Collectives, group_id
from msprobe.cell_dump.functions import FunctionCalls
from msprobe.frameworks.mindspore import functions as base
from msprobe.frameworks.mindspore import jit
from msprobe.frameworks.torch_names import COLLECTIVES, LEFT_OUT, MANAGING, OPERATORS


def namespace(name: str) -> ModuleType | None:
    """Return the module that holds what `name` (`torch.nn.functional`) shows; None where the layer has none."""
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
    """Return the record of a group of ranks, in the notation of mindstudio-probe."""
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
"""Functions in the namespaces of a layer for internal use, or for the process."""


def functions() -> Iterator[tuple[Any, str, str]]:
    """Yield the recorded functions: owner of the attribute, its name, stem of the names of calls."""
    for prefix, _, module in _modules():
        for name in sorted(vars(module)):
            public = not name.startswith(("_", *MANAGING)) and name not in LEFT_OUT and name not in OF_THE_LAYER
            is_collected = name in COLLECTIVES if prefix == "Distributed" else public
            if is_collected and isinstance(vars(module)[name], (FunctionType, BuiltinFunctionType)):
                yield module, name, f"{prefix}.{name}"
    left_out = LEFT_OUT | base.LEFT_OUT
    for name in sorted(set(dir(Tensor))):
        if (name in OPERATORS or not (name.startswith("_") or name in left_out)) and base.is_method(name):
            yield Tensor, name, f"Tensor.{name}"


_SPACES = {"Functional": "torch.nn.functional", "Tensor": "torch.Tensor", "NPU": "torch_npu"}


class Functions(base.Functions):
    """The functions of the layer, by PyTorch's names."""

    def apis(self) -> Iterator[tuple[Any, str, str]]:
        return functions()

    def public_name(self, owner: Any, name: str, stem: str) -> str:
        prefix = stem.partition(".")[0]
        if owner is Tensor or prefix in _SPACES:
            return f"{_SPACES.get(prefix, 'torch.Tensor')}.{name}"
        inner = getattr(owner, "__name__", "").rpartition(".")[2]
        return f"torch.{inner}.{name}" if inner in ("linalg", "fft", "special") else f"torch.{name}"


CAPABILITY = Functions()


def _modules() -> Iterator[tuple[str, str, ModuleType]]:
    """Prefix, name and module of every namespace that is there, each module once."""
    known = set[int]()
    for prefix, name in NAMESPACES:
        module = namespace(name) if name not in ON_REQUEST or name in sys.modules else None
        if module is not None and id(module) not in known:
            known.add(id(module))
            yield prefix, name, module


class Calls(FunctionCalls):
    """The layer's functions, and MindSpore's `@jit` code."""

    users = Users(layers=("msadapter.nn.modules.", "mindtorch.nn.modules.", "torch.nn.modules."))
    tensor = Tensor
    collectives = Collectives(
        message_type="torch.distributed.P2POp",
        handles=(*_classes("Work"), *base.COLLECTIVES.handles),
        messages=_classes("P2POp"),
    )
    other_stems = ("Jit.",)
    golden = "PyTorch, or of its API on MindSpore"
    functions = staticmethod(functions)

    def _plan_functions(self) -> None:
        super()._plan_functions()
        jit.plan_calls(self._current, self._patches, self._wanted)
        self._name_as_shown()

    def _name_as_shown(self) -> None:
        """Let a call by the module that users import have the name that the function has in the layer's."""
        shown = ((module, sys.modules.get(name)) for _, name, module in _modules())
        other_of = {id(module): other for module, other in shown if other is not None and other is not module}
        for owner, name, stem in functions():
            other = other_of.get(id(owner))
            if other is not None and getattr(other, name, None) is vars(owner)[name]:
                self._in_place.add(other, name, stem if self._wants(owner, name, stem) else None)
