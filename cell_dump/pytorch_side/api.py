"""Functions: which ones of the installed PyTorch are collected, and under which names.

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
from msprobe.cell_dump.recorded import Current, Stems, recorded

from . import collective

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

COLLECTIVES = (
    *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce"),
    *("all_reduce_coalesced", "all_to_all", "all_to_all_single", "batch_isend_irecv", "broadcast", "gather", "irecv"),
    *("isend", "recv", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "send"),
)
"""Functions that exchange tensors between ranks; their calls are recorded in a way of their own."""

CALLERS = frozenset(
    [
        *("apply_", "backward", "boolean_dispatch", "compile", "cond", "fork", "handle_torch_function", "map2_"),
        *("map_", "module_load", "register_hook", "register_post_accumulate_grad_hook", "vmap", "wait", "while_loop"),
    ]
)
"""Functions that run the user's functions: what those call is recorded, not the caller."""

NO_TENSORS = frozenset(
    [
        *("as_subclass", "assert_int_or_pair", "broadcast_shapes", "can_cast", "classproperty", "clear_autocast_cache"),
        *("compiled_with_cxx11_abi", "cudnn_is_acceptable", "data_ptr", "dense_dim", "dim", "dim_order"),
        *("element_size", "from_blob", "from_dlpack", "from_file", "from_numpy", "frombuffer", "get_device"),
        *("get_file_path", "get_num_interop_threads", "get_num_threads", "get_rng_state", "import_ir_module"),
        *("import_ir_module_from_buffer", "init_num_threads", "initial_seed", "is_complex", "is_conj"),
        *("is_contiguous", "is_floating_point", "is_inference", "is_neg", "is_pinned", "is_same_size"),
        *("is_set_to", "is_shared", "is_signed", "is_storage", "is_tensor", "item", "load", "manual_seed"),
        *("merge_type_from_type_comment", "ndimension", "nelement", "numel", "numpy", "parse_ir", "parse_schema"),
        *("parse_type_comment", "pin_memory", "prepare_multiprocessing_environment", "promote_types", "q_scale"),
        *("q_zero_point", "qscheme", "record_stream", "refine_names", "rename", "rename_", "requires_grad_"),
        *("result_type", "retain_grad", "save", "seed", "set_", "share_memory_", "size", "sparse_dim", "storage"),
        *("storage_offset", "storage_type", "stride", "sym_constrain_range", "sym_constrain_range_for_size"),
        *("sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"),
        *("thread_safe_generator", "to_dlpack", "tolist", "typename", "unify_type_list", "untyped_storage"),
        *("use_deterministic_algorithms", "align_as", "align_to", "has_names", "names"),
    ]
)
"""Functions that tell about a tensor, or manage it or the process: no computation."""

ARBITRARY = frozenset(
    [
        *("empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "new_empty"),
        "new_empty_strided",
    ]
)
"""What their results hold nobody has written."""

_MANAGING = (
    *("are_", "autocast_", "get_autocast", "get_default", "get_deterministic", "get_float32", "has_torch_", "is_"),
    *("profiler_", "set_"),
)
"""Beginnings of names of the same kind, in the modules."""

LEFT_OUT = CALLERS | NO_TENSORS | ARBITRARY

NAMESAKES = ((torch.linalg, "cond"),)
"""Functions that have a name of `LEFT_OUT` and are none of it: this one gives the condition number of a matrix."""

OPERATORS = tuple(
    f"__{name}__"
    for name in [
        *("abs", "add", "and", "div", "eq", "floordiv", "ge", "getitem", "gt", "iadd", "iand", "idiv", "ifloordiv"),
        *("ilshift", "imatmul", "imod", "imul", "invert", "ior", "ipow", "irshift", "isub", "itruediv", "ixor", "le"),
        *("lshift", "lt", "matmul", "mod", "mul", "ne", "neg", "or", "pos", "pow", "radd", "rand", "rdiv"),
        *("rfloordiv", "rlshift", "rmatmul", "rmod", "rmul", "ror", "rpow", "rrshift", "rshift", "rsub", "rtruediv"),
        *("rxor", "setitem", "sub", "truediv", "xor"),
    ]
)

_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_METHODS = (*_FUNCTIONS, MethodDescriptorType, WrapperDescriptorType)


def functions() -> Iterator[tuple[Any, str, str]]:
    """What is collected: (owner of the attribute, its name, stem of the calls' names)."""
    for prefix, module in NAMESPACES:
        for name in sorted(vars(module)):
            public = not name.startswith(("_", *_MANAGING)) and name not in LEFT_OUT
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
        collective.plan(current, patches)
    for owner, name, stem in functions():
        if wanted is None or stem in wanted:
            door = "call_collective" if owner is distributed else "call_api"
            patch = patches.add(owner, name, partial(_standing_at, owner, name, stem, current, door))
            if owner is not Tensor:
                planned.append(patch)
    return planned


def _standing_at(
    owner: Any, name: str, stem: str, current: Current, door: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    """`recorded`, saying where it stands: a model that refers to a function may be pickled meanwhile, by `torch.save`.

    The original of `F.gelu` says `torch._C._nn`, where pickle would find another one than ours, and raise.
    """
    call = recorded(stem, current, original, door=door)
    if owner is not Tensor:
        call.__module__, call.__qualname__ = owner.__name__, name
    return call


def _static(owner: type, name: str) -> Any:
    """The attribute as it stands in the class or the base that has it, not bound, not computed."""
    for base in owner.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None
