"""Frameworks, tensors and models as seen from code that imports no framework.

The code that made a tensor has imported its framework, so `sys.modules` has it; a framework that is
not there made nothing.
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
from .interrupts import passes
from .log import once
from .statistic import Array

Item = TypeVar("Item")

Framework = Literal["mindspore", "pytorch"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)

# Values of a framework, in code of both. Backends name the class instead: `mindspore.Tensor`, `torch.Tensor`. With a
# Protocol in their place they could not: a method may not ask more of an argument than the one that it overrides.

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

_MODULES: dict[Framework, str] = {"mindspore": "mindspore", "pytorch": "torch"}


def maker(value: object) -> Framework | None:
    """The framework whose tensor this value is; None for everything else."""
    for framework, module in _MODULES.items():
        kind = getattr(sys.modules.get(module), "Tensor", None)  # None also while the framework is being imported
        try:
            if isinstance(kind, type) and isinstance(value, kind):
                return framework
        except BaseException as cause:  # a value's own `__class__` may be foreign code
            if passes(cause):
                raise
            continue
    return None


class _Capsule:
    """A capsule with the methods of the protocol that numpy needs."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU


def elements_of(capsule: Any) -> Array:
    """The elements behind a DLPack capsule of this processor's memory, not copied."""
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
    """The elements of a framework's tensor, perhaps in the tensor's own memory: read them at once, and change nothing.

    The dtype is the tensor's where numpy has it. bfloat16 of MindSpore has the dtype that the framework registers with
    numpy (`statistic.widen` reads it); other dtypes of PyTorch that numpy lacks become float32 or complex64. Of a
    distributed tensor the elements are those of this rank. Raises UsageError for a tensor that has no data yet, since
    reading it would draw its numbers, and otherwise whatever the framework raises.
    """
    if maker(tensor) == "pytorch":
        torch = sys.modules["torch"]
        tensor = local_part(tensor).detach()
        if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
            tensor = tensor.float()
        elif tensor.dtype is torch.complex32:
            tensor = tensor.to(torch.complex64)
        is_readable = tensor.is_cpu and tensor.layout is torch.strided and not tensor._is_zerotensor()
        if is_readable and type(tensor) is torch.Tensor:
            # Not by `tensor.numpy()`, which forbids the training to resize this storage from then on.
            to_dlpack, is_bool = torch.utils.dlpack.to_dlpack, tensor.dtype is torch.bool  # numpy 1.24 lacks bools here
            tensor = tensor.view(torch.uint8) if is_bool else tensor.resolve_conj().resolve_neg()
            array = elements_of(to_dlpack(tensor))
            return array.view(np.bool_) if is_bool else array
        return np.asarray(tensor.numpy(force=True))
    if tensor.has_init:
        raise UsageError("the tensor has no data yet, only an initializer; call its init_data() first")
    return np.asarray(tensor.asnumpy())


def settle(tensors: list[AnyTensor]) -> None:
    """Wait until MindSpore has computed the tensors, and let errors of the training pass.

    It queues operations, and raises the error of one when any result is first read. Where we read it the error must
    still reach the training: call this outside of whatever keeps our own errors from the training.
    """
    computed = [tensor for tensor in tensors if maker(tensor) == "mindspore"]
    if not computed:
        return
    mindspore = sys.modules["mindspore"]
    if hasattr(mindspore.Tensor, "_grad_node"):  # since 2.7.1 reading any tensor waits for all that is queued
        mindspore.Tensor(0.0).data_ptr()
    else:
        for tensor in computed:
            tensor.wait_pipeline()


def rank(first: Framework) -> int | None:
    """This process's rank as its framework knows it; None where no communication is initialised.

    The framework `first` is asked first, then the other one.
    """
    return _communication_says(first, {"mindspore": "get_rank", "pytorch": "get_rank"})


def size(first: Framework) -> int:
    """How many processes this run has, as its framework or its launcher says; 1 where neither does."""
    found = _communication_says(first, {"mindspore": "get_group_size", "pytorch": "get_world_size"})
    if found is not None:
        return found
    variables = (os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM"))
    return max((int(number) for number in variables if number.isdecimal()), default=1)


def _communication_says(first: Framework, functions: dict[Framework, str]) -> int | None:
    """What the communication of a framework answers, if one is initialised; `first` is asked first."""
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
class Kind:
    """A framework's modules: what their names begin with, where they keep those inside, what the class is called."""

    prefix: str
    children: str
    public: str


CELLS = Kind(prefix="Cell", children="_cells", public="mindspore.nn.Cell")
MODULES = Kind(prefix="Module", children="_modules", public="torch.nn.Module")


def roots_of(model: AnyModel, kind: Kind = CELLS) -> list[tuple[str, AnyModule]]:
    """The roots of a model with the prefix of their cells' names: `Cell`, or `Cell.0`, `Cell.actor` of several."""
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


def named_cells(prefix: str, root: AnyModule, kind: Kind = CELLS) -> list[tuple[str, AnyModule]]:
    """The descendants of a root (the root itself is not collected) by their stems, each under the first name found."""
    found: list[tuple[str, Any]] = []
    _descend(prefix, root, attrgetter(kind.children), {id(root)}, found)
    return found


def _descend(
    prefix: str, cell: AnyModule, children: Callable[[Any], Any], seen: set[int], found: list[tuple[str, Any]]
) -> None:
    """What the framework's `cells_and_names` gives, in its order, at a tenth of its cost: it is asked every step."""
    for name, child in children(cell).items():
        # a recomputed cell of MindSpore is wrapped by the framework in cells of its own
        if child is None or id(child) in seen or name == "_recompute_cell":
            continue
        seen.add(id(child))
        found.append((f"{prefix}.{name}.{class_name(child)}", child))
        if children(child):
            _descend(f"{prefix}.{name}", child, children, seen, found)


def check_model(model: AnyModel, cell: type, kind: Kind = CELLS) -> None:
    """Refuse, before anything runs, what is no model; `cell` is the framework's class of cells."""
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
"""Roots of a model with their prefixes, which live as long as the training keeps them."""


def weak_roots(model: AnyModel) -> Roots:
    """The roots of a model of any framework, without keeping them alive; never raises."""
    return _of_foreign(lambda: [(prefix, weakref.ref(root)) for prefix, root in roots_of(model)])


def frozen_parameters(roots: Roots) -> Sequence[str]:
    """The parameters of a model of any framework that are not trained, each by the path of its cell and its name there.

    A parameter that several cells share has several names. Empty for what is no model, or has names of its own for what
    a framework has; never raises.
    """
    return _of_foreign(lambda: [name for prefix, root in roots for name in _frozen(prefix, root())])


def _of_foreign(found: Callable[[], list[Item]]) -> list[Item]:
    try:
        return found()
    except BaseException as err:  # a model may be foreign code
        if passes(err):
            raise
        once("frozen parameters", f"frozen parameters cannot be detected: {reason(err)}", logging.DEBUG)
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
    """A cell's own parameters, not those of the cells inside, with their names in the cell."""
    return [(key, p) for key, p in cell._params.items() if p is not None]
