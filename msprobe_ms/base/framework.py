"""Access to frameworks, tensors and models from code that imports no framework.

A framework that created a tensor is in `sys.modules`.
"""

import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from .errors import UsageError, reason
from .interrupts import must_propagate
from .log import log_once
from .statistic import Array

Item = TypeVar("Item")

Framework = Literal["mindspore", "pytorch"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)

# Values of a framework, in code for both. Backends use the class itself, `mindspore.Tensor` or `torch.Tensor`, which
# would not be possible with a Protocol: overriding methods must not narrow the type of an argument.

AnyTensor: TypeAlias = Any
"""A tensor, or a gradient, of one of the frameworks."""

AnyParameter: TypeAlias = Any
"""A parameter of one of the frameworks."""

AnyModule: TypeAlias = Any
"""A `mindspore.nn.Cell` or a `torch.nn.Module`."""

AnyModel: TypeAlias = Any
"""A module, or a list, tuple or dict of modules; None where a model is not needed."""

AnyOptimizer: TypeAlias = Any
"""An optimizer of one of the frameworks."""

_MODULES: dict[str, str] = {"mindspore": "mindspore", "pytorch": "torch"}
"""The modules with the class `Tensor` of each framework."""


def register_tensors(framework: str, module: str) -> None:
    """Recognize the tensors of another framework: objects of the class `Tensor` in a module."""
    _MODULES[framework] = module


def framework_of(value: object) -> Framework | None:
    """Return the framework of a tensor; None for other values."""
    for framework, module in _MODULES.items():
        kind = getattr(sys.modules.get(module), "Tensor", None)  # None also while the framework is being imported
        try:
            if isinstance(kind, type) and isinstance(value, kind):
                return framework  # type: ignore[return-value]  # also the name of a registered framework
        except BaseException as cause:  # `__class__` of the value may run user code
            if must_propagate(cause):
                raise
            continue
    return None


class _Capsule:
    """Wrapper that adds the DLPack methods that NumPy needs to a capsule."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU


def elements_of(capsule: Any) -> Array:
    """Return the elements of a DLPack capsule in CPU memory, without a copy."""
    return np.from_dlpack(_Capsule(capsule))


_DISTRIBUTED = ("torch.distributed.tensor", "torch.distributed._tensor")
"""The module of PyTorch's `DTensor`, from 2.5 on and before."""


def is_distributed(tensor: AnyTensor) -> bool:
    """Return whether a tensor is a `DTensor` of PyTorch, of which each rank holds a shard."""
    for name in _DISTRIBUTED:
        kind = getattr(sys.modules.get(name), "DTensor", None)
        if isinstance(kind, type):
            return isinstance(tensor, kind)
    return False


def local_part(tensor: AnyTensor) -> AnyTensor:
    """Return the elements that this rank holds of a distributed tensor, and any other tensor itself.

    Nothing is communicated, and no node is added to the autograd graph. The result of a collective that still runs is
    waited for, as by any other use.
    """
    if is_distributed(tensor):
        tensor = tensor._local_tensor
    return tensor.trigger_wait() if type(tensor).__name__ == "AsyncCollectiveTensor" else tensor


def array_of(tensor: AnyTensor) -> Array:
    """Return the elements of a tensor, possibly in shared memory: read them immediately, and do not change them.

    The dtype is that of the tensor if NumPy supports it. bfloat16 of MindSpore has the dtype that the framework
    registers with NumPy (see `statistic.widen`); other dtypes of PyTorch that NumPy does not support become float32 or
    complex64. Of a distributed tensor the elements of this rank are returned. Raises UsageError for a tensor that is
    not initialized, because reading it would run its initializer, and errors of the framework.
    """
    if framework_of(tensor) == "pytorch":
        torch = sys.modules["torch"]
        tensor = local_part(tensor).detach()
        if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
            tensor = tensor.float()
        elif tensor.dtype is torch.complex32:
            tensor = tensor.to(torch.complex64)
        is_readable = tensor.is_cpu and tensor.layout is torch.strided and not tensor._is_zerotensor()
        if is_readable and type(tensor) is torch.Tensor:
            # Not with `tensor.numpy()`, after which the storage can no longer be resized.
            to_dlpack, is_bool = torch.utils.dlpack.to_dlpack, tensor.dtype is torch.bool  # not supported by NumPy 1.24
            tensor = tensor.view(torch.uint8) if is_bool else tensor.resolve_conj().resolve_neg()
            array = elements_of(to_dlpack(tensor))
            return array.view(np.bool_) if is_bool else array
        return np.asarray(tensor.numpy(force=True))
    if tensor.has_init:
        raise UsageError("the tensor has no data yet, only an initializer; call its init_data() first")
    return np.asarray(tensor.asnumpy())


def synchronize(tensors: list[AnyTensor]) -> None:
    """Wait until MindSpore has computed the tensors, and raise errors of the training.

    MindSpore queues operations and raises their errors when a result is first read. These errors must reach the
    training: call this outside of code that catches errors of msprobe.
    """
    computed = [tensor for tensor in tensors if framework_of(tensor) == "mindspore"]
    if not computed:
        return
    mindspore = sys.modules["mindspore"]
    if hasattr(mindspore.Tensor, "_grad_node"):  # since 2.7.1 reading any tensor waits for all operations
        mindspore.Tensor(0.0).data_ptr()
    else:
        for tensor in computed:
            tensor.wait_pipeline()


def rank(first: Framework) -> int | None:
    """Return the rank of this process; None if communication is not initialized.

    The framework `first` is queried first, then the other one.
    """
    return _query_communication(first, {"mindspore": "get_rank", "pytorch": "get_rank"})


def size(first: Framework) -> int:
    """Return the number of processes of this run, by its framework or launcher; 1 if unknown."""
    found = _query_communication(first, {"mindspore": "get_group_size", "pytorch": "get_world_size"})
    if found is not None:
        return found
    variables = (os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM"))
    return max((int(number) for number in variables if number.isdecimal()), default=1)


def _query_communication(first: Framework, functions: dict[Framework, str]) -> int | None:
    """Call a function of the communication package of a framework, `first` first; None if none is initialized."""
    for framework in sorted(FRAMEWORKS, key=lambda each: each != first):
        if framework == "mindspore":
            library = sys.modules.get("mindspore.communication")
            is_ready = library is not None and library.GlobalComm.INITED
        else:
            library = sys.modules.get("torch.distributed")
            is_ready = library is not None and library.is_available() and library.is_initialized()
        if is_ready:
            return int(getattr(library, functions[framework])())
    return None


@dataclass(frozen=True)
class ModuleKind:
    """The module class of a framework.

    prefix : beginning of the names of calls.
    children : attribute with the child modules.
    public : name of the class.
    """

    prefix: str
    children: str
    public: str


CELLS = ModuleKind(prefix="Cell", children="_cells", public="mindspore.nn.Cell")
MODULES = ModuleKind(prefix="Module", children="_modules", public="torch.nn.Module")


def roots_of(model: AnyModel, kind: ModuleKind = CELLS) -> list[tuple[str, AnyModule]]:
    """Return the roots of a model with the prefix of names: `Cell`, or `Cell.0`, `Cell.actor` for several roots."""
    if not isinstance(model, (dict, list, tuple)):
        return [(kind.prefix, model)]
    pairs = model.items() if isinstance(model, dict) else enumerate(model)
    return [(f"{kind.prefix}.{key}", root) for key, root in pairs]


_SHARDED = ("torch.distributed.fsdp", "torch.distributed._composable.fsdp")
"""The module of `FSDPModule`, from 2.6 on and before."""


def class_name(cell: AnyModule) -> str:
    """Return the name of a cell's class as the training wrote it: FSDP2 replaces it by a subclass, `FSDPLinear`."""
    kind = type(cell)
    for name in _SHARDED:
        sharded = getattr(sys.modules.get(name), "FSDPModule", None)
        if sharded in kind.__bases__:
            return next((base.__name__ for base in kind.__bases__ if base is not sharded), kind.__name__)
    return kind.__name__


def named_cells(prefix: str, root: AnyModule, kind: ModuleKind = CELLS) -> list[tuple[str, AnyModule]]:
    """Return the descendants of a root, without the root, with their stems, each once under its first name."""
    found: list[tuple[str, Any]] = []
    _collect_descendants(prefix, root, attrgetter(kind.children), {id(root)}, found)
    return found


def _collect_descendants(
    prefix: str, cell: AnyModule, children: Callable[[Any], Any], seen: set[int], found: list[tuple[str, Any]]
) -> None:
    """Collect the same as the framework's `cells_and_names` in the same order, ten times as fast; called every step."""
    for name, child in children(cell).items():
        # MindSpore wraps a recomputed cell in other cells.
        if child is None or id(child) in seen or name == "_recompute_cell":
            continue
        seen.add(id(child))
        found.append((f"{prefix}.{name}.{class_name(child)}", child))
        if children(child):
            _collect_descendants(f"{prefix}.{name}", child, children, seen, found)


def check_model(model: AnyModel, cell: type, kind: ModuleKind = CELLS) -> None:
    """Raise UsageError if `model` is not a valid model; `cell` is the module class of the framework."""
    for key in model if isinstance(model, dict) else ():
        if not isinstance(key, str) or not key:
            raise UsageError(
                f"start(): the keys of a dict of models are their names, and {key!r} is not a string; use strings"
            )
    members = model.values() if isinstance(model, dict) else model if isinstance(model, (list, tuple)) else [model]
    for member in members:
        if not isinstance(member, cell):
            raise UsageError(
                f"start(): the model must be a {kind.public}, or a list, tuple or dict of them, "
                f"not {type(member).__name__}; pass the network itself"
            )
    if not members:
        raise UsageError("start(): the model is an empty list, tuple or dict; pass the network")


Roots = Sequence[tuple[str, Callable[[], Any]]]
"""Weak references to the roots of a model, with their prefixes."""


def weak_roots(model: AnyModel) -> Roots:
    """Return weak references to the roots of a model of any framework. Never raises."""
    return _list_or_empty(lambda: [(prefix, weakref.ref(root)) for prefix, root in roots_of(model)])


def frozen_parameters(roots: Roots) -> Sequence[str]:
    """Return the names of the parameters that are not trained, each the path of its cell and its name in the cell.

    A parameter that several cells share has several names. Empty for an object that is not a model. Never raises.
    """
    return _list_or_empty(lambda: [name for prefix, root in roots for name in _frozen(prefix, root())])


def _list_or_empty(found: Callable[[], list[Item]]) -> list[Item]:
    try:
        return found()
    except BaseException as err:  # a model may run user code
        if must_propagate(err):
            raise
        log_once("frozen parameters", f"frozen parameters cannot be detected: {reason(err)}", logging.DEBUG)
        return []


def _frozen(prefix: str, root: AnyModule) -> Iterator[str]:
    kind = MODULES if hasattr(root, MODULES.children) else CELLS
    if not hasattr(root, kind.children):
        return
    parameters_of = attrgetter("_parameters" if kind is MODULES else "_params")
    for stem, cell in [(f"{prefix}.", root), *named_cells(prefix, root, kind)]:
        for key, parameter in parameters_of(cell).items():
            if parameter is not None and parameter.requires_grad is False:
                yield ".".join((*stem.split(".")[1:-1], key))


def own_parameters(cell: AnyModule, /) -> list[tuple[str, AnyParameter]]:
    """Return the parameters of a cell with their names, without those of child cells."""
    return [(key, p) for key, p in cell._params.items() if p is not None]
