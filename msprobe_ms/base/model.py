"""A model as its roots and named modules. What a module is the framework knows; here it is something of a `Kind`."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from .errors import UsageError


@dataclass(frozen=True)
class Kind:
    """A framework's modules: what their names begin with, where they keep those inside, what the class is called."""

    prefix: str
    children: str
    public: str


CELLS = Kind(prefix="Cell", children="_cells", public="mindspore.nn.Cell")
MODULES = Kind(prefix="Module", children="_modules", public="torch.nn.Module")


def roots_of(model: Any, kind: Kind = CELLS) -> list[tuple[str, Any]]:
    """The roots of a model with the prefix of their cells' names: `Cell`, or `Cell.0`, `Cell.actor` of several."""
    if not isinstance(model, (dict, list, tuple)):
        return [(kind.prefix, model)]
    pairs = model.items() if isinstance(model, dict) else enumerate(model)
    return [(f"{kind.prefix}.{key}", root) for key, root in pairs]


def named_cells(prefix: str, root: Any, kind: Kind = CELLS) -> list[tuple[str, Any]]:
    """The descendants of a root (the root itself is not collected) by their stems, each under the first name found."""
    found: list[tuple[str, Any]] = []
    _descend(prefix, root, attrgetter(kind.children), {id(root)}, found)
    return found


def _descend(
    prefix: str, cell: Any, children: Callable[[Any], Any], seen: set[int], found: list[tuple[str, Any]]
) -> None:
    """What the framework's `cells_and_names` gives, in its order, at a tenth of its cost: it is asked every step."""
    for name, child in children(cell).items():
        # a recomputed cell of MindSpore is wrapped by the framework in cells of its own
        if child is None or id(child) in seen or name == "_recompute_cell":
            continue
        seen.add(id(child))
        found.append((f"{prefix}.{name}.{type(child).__name__}", child))
        if children(child):
            _descend(f"{prefix}.{name}", child, children, seen, found)


def check_model(model: Any, cell: type, kind: Kind = CELLS) -> None:
    """Refuse, before anything runs, what is no model; `cell` is the framework's class of cells."""
    for key in model if isinstance(model, dict) else ():
        if not isinstance(key, str) or not key:
            raise UsageError(f"start(): models of a dict are named by its keys, and {key!r} is not a text; use texts")
    members = model.values() if isinstance(model, dict) else model if isinstance(model, (list, tuple)) else [model]
    for member in members:
        if not isinstance(member, cell):
            raise UsageError(
                f"start(): the model must be a {kind.public}, or a list, tuple or dict of them, "
                f"not {type(member).__name__}; pass the network itself"
            )
    if not members:
        raise UsageError("start(): the model is an empty list, tuple or dict; pass the network")


def own_parameters(cell: Any) -> list[tuple[str, Any]]:
    """A cell's own parameters, not those of the cells inside, with their names in the cell."""
    return [(key, p) for key, p in cell._params.items() if p is not None]
