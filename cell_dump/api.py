"""Functional APIs: which functions of the installed framework are collected, and how their calls are seen.

The list is made from the framework itself: every public function of the namespaces below and the methods and
operators of Tensor that take or give tensors. Only the outermost call is recorded.
"""

from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

from mindspore import Tensor, mint, ops

from .patches import Patches
from .session import Session

NAMESPACES: tuple[tuple[str, ModuleType], ...] = (
    ("Functional", ops),
    ("Mint", mint),
    ("MintFunctional", mint.nn.functional),
    ("Mint", mint.linalg),
    ("Mint", mint.special),
)
"""Prefix of the names and the module whose public functions they are."""

CALLERS = frozenset(
    [
        "cond",
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


def functions() -> Iterator[tuple[Any, str, str]]:
    """What is collected: (owner of the attribute, its name, stem of the calls' names)."""
    for prefix, module in NAMESPACES:
        public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for name in sorted(set(public)):
            value = vars(module).get(name)
            if _is_function(value) and name not in CALLERS and name not in NO_TENSORS:
                yield module, name, f"{prefix}.{name}"
    for name in sorted(set(dir(Tensor))):
        public = not name.startswith("_") and name not in CALLERS and name not in NO_TENSORS
        if (public or name in OPERATORS) and isinstance(_static(Tensor, name), _METHODS):
            yield Tensor, name, f"Tensor.{name}"


def plan(current: Callable[[], Session | None], patches: Patches) -> None:
    """Plan a patch for every function of the list; `current` gives the session that records."""
    for owner, name, stem in functions():
        patches.add(owner, name, partial(_recorded, stem, current))


def _recorded(stem: str, current: Callable[[], Session | None], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or not session.listens():
            return original(*args, **kwargs)
        return session.call_api(stem, original, args, kwargs)

    return recorded


def _is_function(value: Any) -> bool:
    return isinstance(value, (FunctionType, BuiltinFunctionType))


def _static(owner: type, name: str) -> Any:
    """The attribute as it stands in the class or the base that has it, not bound, not computed."""
    for base in owner.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None
