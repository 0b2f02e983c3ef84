"""What callbacks find out about a training by `mindspore.train.Model`, from the parameters that it hands to them.

No framework is imported here; the cells come from the training.
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
    """The number of the step that comes next, from 0: as many as there were before this training."""
    return int(parameters.cur_step_num or (parameters.cur_epoch_num - 1) * parameters.batch_num)


def cell_of(network: Any, name: str, callback: str) -> Any:
    """The cell of a network with a dotted name, the network for no name. UsageError where it has none."""
    if not name:
        return network
    cells = {own: cell for own, cell in network.cells_and_names() if own}
    if name in cells:
        return cells[name]
    near = nearest(name, tuple(cells))
    hint = f"did you mean {quoted(near)}?" if near else f"it has {quoted_list(tuple(network.name_cells()))}"
    raise UsageError(f'argument "network" of {callback}: the trained network has no cell {quoted(name)}; {hint}')


def optimizer_of(parameters: Any) -> Any:
    """The optimizer that `Model` has, or that the trained network holds; None where there is none or more than one."""
    given = parameters.get("optimizer")
    if given is not None:
        return given
    found = [cell for cell in _cells(parameters) if _is_optimizer(cell)]
    return found[0] if len(found) == 1 else None


def model_of(parameters: Any) -> Any:
    """The network whose parameters are trained: without the wrappers that hold its loss function and its optimizer."""
    network = parameters.get("network")
    if any(_is_optimizer(cell) for _, cell in network.cells_and_names()):
        network = getattr(network, "network", network)
    return getattr(network, "backbone_network", network)


def loss_cell_of(parameters: Any) -> Any:
    """The cell whose output is the loss; None where no wrapper tells it."""
    return getattr(parameters.get("train_network"), "network", None)


def _cells(parameters: Any) -> Iterator[Any]:
    return (cell for _, cell in (parameters.get("train_network") or parameters.get("network")).cells_and_names())


def _is_optimizer(cell: Any) -> bool:
    return any((base.__module__, base.__name__) in _OPTIMIZERS for base in type(cell).__mro__)
