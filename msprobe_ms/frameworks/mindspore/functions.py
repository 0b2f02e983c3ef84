"""MindSpore's functions and primitives: which are collected, and how their calls are seen.

The list of functions is made from the framework itself: every public function of the namespaces below, and the methods
and operators of Tensor that take or return tensors. Only the outermost call is recorded.

Primitives are objects that cells hold, `self.matmul = ops.MatMul()`. Many layers compute with such objects and never
call a function of `mindspore.ops`. Their calls are recorded as `Primitive.matmul.MatMul.0.forward`; all objects with
the same attribute name and class share one number. `__call__` of their classes is replaced while a collection is open.
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial, wraps
from inspect import getattr_static
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any
from weakref import finalize, ref

from mindspore import Tensor, mint, ops
from mindspore.communication import comm_func
from mindspore.mint import distributed

from msprobe.base.patches import Patches
from msprobe.cell_dump.call_sites import Users
from msprobe.cell_dump.collective import Collectives
from msprobe.cell_dump.functions import FunctionCalls
from msprobe.cell_dump.wrappers import Current, Stems

from . import jit

try:
    from mindspore.ops.function import comm_func as functional
except ImportError:  # before 2.7.1
    functional = comm_func

COLLECTIVES = Collectives(
    message_type="mindspore.mint.distributed.P2POp",
    handles=tuple(dict.fromkeys((comm_func.CommHandle, functional.CommHandle))),
    messages=tuple(dict.fromkeys((distributed.P2POp, functional.P2POp, comm_func.P2POp))),
)

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
"""Functions that the documentation has and the module's `__all__` lacks. They are named here because nothing
distinguishes them from the functions that such a module imports for its own use (`functional.clamp`,
`mint.softmax_ext`)."""

GROUPS = frozenset(
    str.split("""
    destroy_process_group get_backend get_global_rank get_group_rank get_process_group_ranks get_rank get_world_size
    init_process_group is_available is_initialized new_group set_comm_ops_inplace
    """)
)
"""Functions that manage groups of ranks. `barrier` is none of them: it has no tensors, so its calls drop out anyway."""

DEFINERS = frozenset(
    str.split("""
    add_flags constexpr custom_info_register get_vm_impl_fn kernel ms_kernel op_info_register prim_arg_register
    prim_attr_register
    """)
)
"""Decorators and registers: they define operations, and run none."""

CALLERS = frozenset(
    str.split("""
    derivative fori_loop get_grad grad jacfwd jacrev jet jvp scan stack_map value_and_grad vjp vmap while_loop
    checkpoint apply_ map_ register_hook
    """)
)
"""Functions that run the user's functions: what those call is recorded, not the caller."""

NO_TENSORS = frozenset(
    str.split("""
    asnumpy numpy item tolist dim ndimension size stride numel nelement is_contiguous data_ptr storage_offset
    itemset is_complex is_floating_point is_signed element_size storage untyped_storage get_device has_init
    init_data flush_from_cache set_const_arg set_dtype from_numpy from_blob typeof is_tensor isinstance_ print_
    tensor_dump shape rank assign_value assign_value_cpp offload offload_file_path set_cast_dtype wait_pipeline
    check_init backward get_bytes value type hooks remove_hook set_param_info set_init_flag set_device_address
    is_init is_pinned is_shared pin_memory data_sync to_dlpack requires_grad_ set_ to_coo to_csr
    """)
)
"""Functions that describe a tensor, or manage it: no computation."""

OPERATORS = tuple(
    f"__{name}__"
    for name in str.split("""
    abs add and div eq floordiv ge getitem gt iadd iand ifloordiv imatmul imod imul invert ior ipow isub itruediv
    ixor le lt matmul mod mul ne neg or pos pow radd rand rdiv rfloordiv rmatmul rmod rmul ror rpow rsub rtruediv
    rxor setitem sub truediv xor lshift rshift
    """)
)

LEFT_OUT = CALLERS | NO_TENSORS | GROUPS | DEFINERS

_METHODS = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)


def functions() -> Iterator[tuple[Any, str, str]]:
    """Yield the recorded functions: owner of the attribute, its name, stem of the names of calls."""
    for prefix, module in NAMESPACES:
        public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        for name in sorted({*public, *FORGOTTEN.get(module.__name__, ())}):
            function = vars(module).get(name)
            if isinstance(function, (FunctionType, BuiltinFunctionType)) and name not in LEFT_OUT:
                is_exchange = function.__module__ == functional.__name__  # `ops` has most of them too
                yield module, name, f"{'Distributed' if is_exchange else prefix}.{name}"
    for name in sorted(set(dir(Tensor))):
        public = not name.startswith("_") and name not in LEFT_OUT
        if (public or name in OPERATORS) and is_method(name):
            yield Tensor, name, f"Tensor.{name}"


def is_method(name: str) -> bool:
    """Return whether the attribute of Tensor with this name is a function, not a property."""
    return isinstance(getattr_static(Tensor, name, None), _METHODS)


_RANDOM = re.compile(
    r"(?:rand\w*|random\w*|\w*dropout\w*|\w*candidate_sampler|standard_\w+|fractional_max_pool\w+|"
    r"bernoulli|cauchy|choice_with_mask|exponential|gamma|geometric|gumbel_softmax|laplace|log_normal|"
    r"multi_head_attention_forward|multinomial|multinomial_with_replacement|normal|poisson|rrelu|shuffle|"
    r"truncated_normal|uniform)(?:_ext)?_?"
)
"""Functions that draw random numbers, or call one that does.

Random numbers that a kernel draws by a separate seed cannot be restored, so such functions are excluded by name. Those
of the default generator are excluded too, except attention, whose dropout may be off; its state is restored.
"""


class Functions:
    """The functions of MindSpore."""

    @cached_property
    def _by_stem(self) -> dict[str, Callable[..., Any]]:
        return {stem: getattr(owner, name) for owner, name, stem in self.apis()}

    def apis(self) -> Iterator[tuple[Any, str, str]]:
        return functions()

    def by_stem(self, stem: str) -> Callable[..., Any] | None:
        """For a primitive, an object of its class with the defaults."""
        if stem.startswith("Primitive."):
            owner = getattr(ops, stem.rpartition(".")[2], None)
            is_primitive = isinstance(owner, type) and issubclass(owner, ops.Primitive)
            return owner() if is_primitive else None  # type: ignore[misc]  # checked above
        return self._by_stem.get(stem)

    def public_name(self, owner: Any, name: str, stem: str) -> str:
        return f"mindspore.Tensor.{name}" if owner is Tensor else f"{owner.__name__}.{name}"

    def is_random(self, owner: Any, name: str) -> bool:
        return _RANDOM.fullmatch(name) is not None


CAPABILITY = Functions()


class PrimitiveCalls:
    """Sees the calls of the primitives of models while its patches are installed."""

    def __init__(self, current: Current) -> None:
        self._current = current
        self._stems: dict[int, str] = {}
        self._owners: set[type] = set()
        self._models: list[ref[Any]] = []

    def add(self, roots: list[Any], patches: Patches, wanted: Stems = None) -> None:
        """Take in the primitives of models, also of their roots, whose stem is `wanted`.

        Each model is examined once, and not kept alive. An object in several cells is named by the first attribute.
        """
        self._models = [known for known in self._models if known() is not None]
        for root in roots:
            if any(known() is root for known in self._models):
                continue
            self._models.append(ref(root))
            for _, cell in root.cells_and_names():
                for attribute, primitive in cell._primitives.items():
                    stem = f"Primitive.{attribute}.{type(primitive).__name__}"
                    if primitive is not None and (wanted is None or stem in wanted):
                        self._add(stem, primitive, patches)

    def _add(self, stem: str, primitive: Any, patches: Patches) -> None:
        if id(primitive) in self._stems:
            return
        self._stems[id(primitive)] = stem
        finalize(primitive, self._stems.pop, id(primitive), None).atexit = False
        owner = next(c for c in type(primitive).__mro__ if "__call__" in vars(c))
        if owner not in self._owners:
            self._owners.add(owner)
            patches.add(owner, "__call__", self._wrap)

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        stems, current = self._stems, self._current

        @wraps(original)
        def __call__(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            stem = stems.get(id(primitive))
            if stem is None or (session := current()) is None or not session.listens():
                return original(primitive, *args, **kwargs)
            return session.call_api(stem, partial(original, primitive), args, kwargs)

        return __call__


class Calls(FunctionCalls):
    """MindSpore's functions, primitives and `@jit` code."""

    users = Users(
        layers=("mindspore.nn.", "mindspore.mint.nn.layer."),
        aliases=("mindspore.ops.functional", "mindspore.mint.nn"),  # the first is another name of `mindspore.ops`
        second="mindspore.mint",
    )
    tensor = Tensor
    collectives = COLLECTIVES
    other_stems = ("Primitive.", "Jit.")
    golden = "MindSpore"
    functions = staticmethod(functions)

    def __init__(self, current: Current, patches: Patches) -> None:
        super().__init__(current, patches)
        self._primitives = PrimitiveCalls(current)

    def _plan_functions(self) -> None:
        super()._plan_functions()
        jit.plan_calls(self._current, self._patches, self._wanted)

    def _take_in(self, roots: list[Any]) -> None:
        self._primitives.add(roots, self._patches, self._wanted)
