"""Which framework a model is of, and its backend; none is imported before it is needed."""

from importlib import import_module
from types import ModuleType
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel
from msprobe.cell_dump.backends.torch_api import COLLECTIVES, torch_on_mindspore

from .backend import Backend

_CELL, _MODULE = ("mindspore.nn.cell", "Cell"), ("torch.nn.modules.module", "Module")

_COMM_FUNC = frozenset(
    str.split("""
    all_gather_into_tensor all_reduce all_to_all_single_with_output_shape all_to_all_with_output_shape barrier
    batch_isend_irecv broadcast gather_into_tensor irecv isend recv reduce reduce_scatter_tensor scatter_tensor send
    """)
)


def backend_of(model: AnyModel) -> Backend:
    """The backend of a model, or of the first of a list. UsageError for what is no model."""
    models = models_of(model)
    if not models:
        raise UsageError("set_monitor(): the model is an empty list; pass the network")
    classes = {(base.__module__, base.__name__) for base in type(models[0]).__mro__}
    if _CELL in classes and not torch_on_mindspore():
        name = "mindspore"
    elif any(place[0].startswith("torch.nn") and place[1] == "Module" for place in classes) or _MODULE in classes:
        name = "mindtorch" if torch_on_mindspore() else "pytorch"
    elif torch_on_mindspore():
        name = "mindtorch" if _is_torch_module(models[0]) else "mindspore"
    else:
        raise UsageError(
            f"set_monitor(): the model is a {type(models[0]).__name__}; pass a mindspore.nn.Cell or a torch.nn.Module, "
            "or a list of them"
        )
    backend: Backend = import_module(f"msprobe.monitor.backends.{name}").BACKEND()
    return backend


def _is_torch_module(model: AnyModel) -> bool:
    return isinstance(model, import_module("torch.nn").Module)


def models_of(model: AnyModel) -> list[Any]:
    """The chunks of a virtual pipeline, or the one model."""
    return list(model) if isinstance(model, (list, tuple)) else [model]


def collectives_of(backend: Backend) -> tuple[tuple[ModuleType, ...], frozenset[str]]:
    """The modules and names of the functions that exchange tensors."""
    if backend.framework.kind.public.startswith("torch"):
        return (import_module("torch.distributed"),), frozenset(COLLECTIVES)
    modules = [import_module("mindspore.communication.comm_func"), import_module("mindspore.mint.distributed")]
    return tuple(modules), _COMM_FUNC | frozenset(COLLECTIVES)
