"""Functional APIs: which functions of the installed framework are collected, and how their calls are seen.

The list is made from the framework itself: every public function of the namespaces below and the methods and
operators of Tensor that take or give tensors. Only the outermost call is recorded. References to these functions that
a user made before are reached by `references.py`.
"""

from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

from mindspore import Tensor, mint, ops
from mindspore.communication import comm_func
from mindspore.mint import distributed

from msprobe.base.patches import Patch, Patches
from msprobe.cell_dump.recorded import Current, Stems, recorded, standing_at

from . import collective

NAMESPACES: tuple[tuple[str, ModuleType], ...] = (
    ("Functional", ops),
    ("Mint", mint),
    ("MintFunctional", mint.nn.functional),
    ("Mint", mint.linalg),
    ("Mint", mint.special),
    ("MintDistributed", distributed),
    ("Distributed", comm_func),
    *((("Distributed", ops.communication),) if hasattr(ops, "communication") else ()),  # since MindSpore 2.7.1
)
"""Prefix of the names and the module whose public functions they are."""

FORGOTTEN: dict[str, tuple[str, ...]] = {
    "mindspore.mint": ("addcmul", "clip", "equal", "fix", "ge", "linspace", "ones", "trunc", "unique"),
    "mindspore.mint.nn.functional": (
        *("hardshrink", "hardsigmoid", "hardswish", "l1_loss", "mish", "selu", "smooth_l1_loss", "softplus"),
        "softshrink",
    ),
}
"""Functions that the documentation has and the module's `__all__` lacks. They are named here because nothing tells
them from the functions that such a module imports for its own use (`functional.clamp`, `mint.softmax_ext`)."""

COLLECTIVE = ("MintDistributed", "Distributed")
"""Prefixes of functions that exchange tensors between ranks; their calls are recorded in a way of their own."""

GROUPS = frozenset(
    [
        "destroy_process_group",
        "get_backend",
        "get_global_rank",
        "get_group_rank",
        "get_process_group_ranks",
        "get_rank",
        "get_world_size",
        "init_process_group",
        "is_available",
        "is_initialized",
        "new_group",
        "set_comm_ops_inplace",
    ]
)
"""Functions that manage groups of ranks. `barrier` is none of them: it has no tensors, so its calls drop out alone."""

DEFINERS = frozenset(
    [
        "add_flags",
        "constexpr",
        "custom_info_register",
        "get_vm_impl_fn",
        "kernel",
        "ms_kernel",
        "op_info_register",
        "prim_arg_register",
        "prim_attr_register",
    ]
)
"""Decorators and registers: they define operations, and run none."""

CALLERS = frozenset(
    [
        "derivative",
        "fori_loop",
        "get_grad",
        "grad",
        "jacfwd",
        "jacrev",
        "jet",
        "jvp",
        "scan",
        "stack_map",
        "value_and_grad",
        "vjp",
        "vmap",
        "while_loop",
        "checkpoint",
        "apply_",
        "map_",
        "register_hook",
    ]
)
"""Functions that run the user's functions: what those call is recorded, not the caller."""

NO_TENSORS = frozenset(
    [
        "asnumpy",
        "numpy",
        "item",
        "tolist",
        "dim",
        "ndimension",
        "size",
        "stride",
        "numel",
        "nelement",
        "is_contiguous",
        "data_ptr",
        "storage_offset",
        "itemset",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "element_size",
        "storage",
        "untyped_storage",
        "get_device",
        "has_init",
        "init_data",
        "flush_from_cache",
        "set_const_arg",
        "set_dtype",
        "from_numpy",
        "from_blob",
        "typeof",
        "is_tensor",
        "isinstance_",
        "print_",
        "tensor_dump",
        "shape",
        "rank",
        "assign_value",
        "assign_value_cpp",
        "offload",
        "offload_file_path",
        "set_cast_dtype",
        "wait_pipeline",
        "check_init",
        "backward",
        "get_bytes",
        "value",
        "type",
        "hooks",
        "remove_hook",
        "set_param_info",
        "set_init_flag",
        "set_device_address",
        "is_init",
        "is_pinned",
        "is_shared",
        "pin_memory",
        "data_sync",
        "to_dlpack",
        "requires_grad_",
        "set_",
        "to_coo",
        "to_csr",
    ]
)
"""Functions that tell about a tensor, or manage it: no computation."""

OPERATORS = tuple(
    f"__{name}__"
    for name in [
        "abs",
        "add",
        "and",
        "div",
        "eq",
        "floordiv",
        "ge",
        "getitem",
        "gt",
        "iadd",
        "iand",
        "ifloordiv",
        "imatmul",
        "imod",
        "imul",
        "invert",
        "ior",
        "ipow",
        "isub",
        "itruediv",
        "ixor",
        "le",
        "lt",
        "matmul",
        "mod",
        "mul",
        "ne",
        "neg",
        "or",
        "pos",
        "pow",
        "radd",
        "rand",
        "rdiv",
        "rfloordiv",
        "rmatmul",
        "rmod",
        "rmul",
        "ror",
        "rpow",
        "rsub",
        "rtruediv",
        "rxor",
        "setitem",
        "sub",
        "truediv",
        "xor",
        "lshift",
        "rshift",
    ]
)

_METHODS = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)


LEFT_OUT = CALLERS | NO_TENSORS | GROUPS | DEFINERS


def functions() -> Iterator[tuple[Any, str, str]]:
    """What is collected: (owner of the attribute, its name, stem of the calls' names)."""
    for prefix, module in NAMESPACES:
        public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for name in sorted({*public, *FORGOTTEN.get(module.__name__, ())}):
            function = vars(module).get(name)
            if _is_function(function) and name not in LEFT_OUT:
                is_exchange = function.__module__ == collective.functional.__name__  # `ops` has most of them too
                yield module, name, f"{'Distributed' if is_exchange else prefix}.{name}"
    for name in sorted(set(dir(Tensor))):
        public = not name.startswith("_") and name not in LEFT_OUT
        if (public or name in OPERATORS) and is_method(name):
            yield Tensor, name, f"Tensor.{name}"


def plan(current: Current, patches: Patches, wanted: Stems = None) -> list[Patch]:
    """Plan a patch for every function of the list whose stem is `wanted`; gives those of modules, not of Tensor."""
    planned = []
    collective.plan(current, patches)
    for owner, name, stem in functions():
        if wanted is None or stem in wanted:
            door = "call_collective" if stem.partition(".")[0] in COLLECTIVE else "call_api"
            make = partial(recorded, stem, current, door=door)
            patch = patches.add(owner, name, partial(standing_at, owner, name, make))
            if owner is not Tensor:
                planned.append(patch)
    return planned


def is_method(name: str) -> bool:
    """Whether Tensor has a function of this name, and no property."""
    return isinstance(_static(Tensor, name), _METHODS)


def _is_function(value: Any) -> bool:
    return isinstance(value, (FunctionType, BuiltinFunctionType))


def _static(owner: type, name: str) -> Any:
    """The attribute as it stands in the class or the base that has it, not bound, not computed."""
    for base in owner.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None
