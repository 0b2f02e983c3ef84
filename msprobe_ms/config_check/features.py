"""Statistics of the inputs of a model and of its parameters, as in a pack."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msprobe.base.errors import reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.nested import is_tensor, tree_of_value
from msprobe.base.statistic import statistic
from msprobe.frameworks.process import array_to_save

NO_STATISTIC = ""
"""Written for values that are not tensors, and for tensors without statistics."""


def of_inputs(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a call: the statistics of each tensor at its place, nothing of other values."""
    return {"args": _of_node(_tree(list(args)), "args"), "kwargs": _of_node(_tree(dict(kwargs)), "kwargs")}


def of_parameters(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the statistics of parameters by name."""
    return {name: _of_tensor(parameter, name) for name, parameter in named}


def _tree(value: Any) -> Any:
    return tree_of_value(value).values[0]


def _of_node(node: Any, place: str) -> Any:
    if type(node) in (list, dict):
        members = enumerate(node) if type(node) is list else node.items()
        return {str(key): _of_node(member, f"{place}.{key}") for key, member in members}
    return _of_tensor(node, place) if is_tensor(node) else NO_STATISTIC


def _of_tensor(tensor: Any, place: str) -> Any:
    try:
        found = statistic(array_to_save(tensor))
    except BaseException as err:  # a failure of this tool does not stop the training
        if must_propagate(err):
            raise
        log_once(
            f"config_check {type(err)}",
            f"config_check: the statistics of {place} could not be computed ({reason(err)}); they are left empty",
        )
        return NO_STATISTIC
    if found.max is None:
        return NO_STATISTIC
    is_counted = found.mean is None  # of bool: the number of true elements instead of the mean
    mean = found.true_count if is_counted else found.mean
    return {"max": found.max, "min": found.min, "mean": mean, "norm": mean if is_counted else found.norm}
