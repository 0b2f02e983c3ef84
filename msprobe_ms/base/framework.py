"""Access to frameworks, tensors and models from code that imports no framework.

A framework that created a tensor is in `sys.modules`.
"""

import logging
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

TITLES: dict[str, str] = {"mindspore": "MindSpore", "pytorch": "PyTorch"}
"""The names of the frameworks in text."""

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
