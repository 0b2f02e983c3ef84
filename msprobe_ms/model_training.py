"""Information about a training with `mindspore.train.Model`, from the parameters that it passes to callbacks.

Imports no framework.
"""

from collections.abc import Iterator
from typing import Any

from msprobe.base.checks import nearest, quoted, quoted_list
from msprobe.base.errors import UsageError

_OPTIMIZERS = {
    ("mindspore.nn.optim.optimizer", "Optimizer"),
    ("mindspore.experimental.optim.optimizer", "Optimizer"),
}


def next_step(parameters: Any) -> int:
    """Return the number of the next step, from 0, which is the number of steps before this training."""
    return int(parameters.cur_step_num or (parameters.cur_epoch_num - 1) * parameters.batch_num)


def cell_of(network: Any, name: str, callback: str) -> Any:
    """Return the cell of a network with a dotted name; the network for "". UsageError if there is no such cell."""
    if not name:
        return network
    cells = {own: cell for own, cell in network.cells_and_names() if own}
    if name in cells:
        return cells[name]
    near = nearest(name, tuple(cells))
    hint = f"did you mean {quoted(near)}?" if near else f"it has {quoted_list(tuple(network.name_cells()))}"
    raise UsageError(f'argument "network" of {callback}: the trained network has no cell {quoted(name)}; {hint}')


def optimizer_of(parameters: Any) -> Any:
    """Return the optimizer of the `Model` or in the trained network; None if there is none, or more than one."""
    given = parameters.get("optimizer")
    if given is not None:
        return given
    found = [cell for cell in _cells(parameters) if _is_optimizer(cell)]
    return found[0] if len(found) == 1 else None


def model_of(parameters: Any) -> Any:
    """Return the trained network without the wrappers with its loss function and its optimizer."""
    network = parameters.get("network")
    if any(_is_optimizer(cell) for _, cell in network.cells_and_names()):
        network = getattr(network, "network", network)
    return getattr(network, "backbone_network", network)


def loss_cell_of(parameters: Any) -> Any:
    """Return the cell whose output is the loss; None without a wrapper."""
    return getattr(parameters.get("train_network"), "network", None)


def _cells(parameters: Any) -> Iterator[Any]:
    return (cell for _, cell in (parameters.get("train_network") or parameters.get("network")).cells_and_names())


def _is_optimizer(cell: Any) -> bool:
    return any((base.__module__, base.__name__) in _OPTIMIZERS for base in type(cell).__mro__)
