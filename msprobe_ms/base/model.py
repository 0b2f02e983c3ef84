"""A model as its roots and named cells. What a cell is the framework knows: here it is something with `_cells`."""

from typing import Any

from .errors import UsageError


def roots_of(model: Any) -> list[tuple[str, Any]]:
    """The roots of a model with the prefix of their cells' names: `Cell`, or `Cell.0`, `Cell.actor` of several."""
    if not isinstance(model, (dict, list, tuple)):
        return [("Cell", model)]
    pairs = model.items() if isinstance(model, dict) else enumerate(model)
    return [(f"Cell.{key}", root) for key, root in pairs]


def named_cells(prefix: str, root: Any) -> list[tuple[str, Any]]:
    """The descendants of a root (the root itself is not collected) by their stems, each under the first name found."""
    found: list[tuple[str, Any]] = []
    _descend(prefix, root, {id(root)}, found)
    return found


def _descend(prefix: str, cell: Any, seen: set[int], found: list[tuple[str, Any]]) -> None:
    """What the framework's `cells_and_names` gives, in its order, at a tenth of its cost: it is asked every step."""
    for name, child in cell._cells.items():
        # a recomputed cell is wrapped by the framework in cells of its own
        if child is None or id(child) in seen or name == "_recompute_cell":
            continue
        seen.add(id(child))
        found.append((f"{prefix}.{name}.{type(child).__name__}", child))
        if child._cells:
            _descend(f"{prefix}.{name}", child, seen, found)


def check_model(model: Any, cell: type) -> None:
    """Refuse, before anything runs, what is no model; `cell` is the framework's class of cells."""
    for key in model if isinstance(model, dict) else ():
        if not isinstance(key, str) or not key:
            raise UsageError(f"start(): models of a dict are named by its keys, and {key!r} is not a text; use texts")
    members = model.values() if isinstance(model, dict) else model if isinstance(model, (list, tuple)) else [model]
    for member in members:
        if not isinstance(member, cell):
            raise UsageError(
                "start(): the model must be a mindspore.nn.Cell, or a list, tuple or dict of them, "
                f"not {type(member).__name__}; pass the network itself"
            )
    if not members:
        raise UsageError("start(): the model is an empty list, tuple or dict; pass the network")


def own_parameters(cell: Any) -> list[tuple[str, Any]]:
    """A cell's own parameters, not those of the cells inside, with their names in the cell."""
    return [(key, p) for key, p in cell._params.items() if p is not None]
