"""The tensors, generators and rank of this process, whichever frameworks it uses; imports only what it has imported."""

import os
import sys
from collections.abc import Iterator, Sequence

from msprobe.base.framework import AnyTensor, framework_of
from msprobe.base.statistic import Array

from . import registry
from .registry import Framework, framework
from .torch_names import torch_on_mindspore


def of_tensor(tensor: object) -> Framework | None:
    """Return the framework of a tensor; None for other values."""
    name = framework_of(tensor)
    return None if name is None else framework(name)


def array_to_save(tensor: AnyTensor) -> Array:
    """Return the elements of a tensor, see `Tensors.array_to_save`; NumPy arrays are returned as they are."""
    found = of_tensor(tensor)
    return tensor if found is None else found.tensors.array_to_save(tensor)


def settle(values: Sequence[object]) -> None:
    """Wait until the tensors among some values are computed, and raise errors of the training.

    A framework may queue operations, and raise their errors when a result is first read. These errors must reach the
    training: call this outside of code that catches errors of msprobe.
    """
    names = dict.fromkeys(name for value in values if (name := framework_of(value)) is not None)
    for name in names:
        framework(name).tensors.settle([value for value in values if framework_of(value) == name])


def imported(first: str = "") -> Iterator[Framework]:
    """Yield the frameworks that this process has imported, `first` before others."""
    hidden = "pytorch" if torch_on_mindspore() else "mindtorch"
    names = dict.fromkeys([first, *registry.PACKAGES])
    for name in names:
        package = registry.PYTHON_PACKAGES.get(name) or registry.PACKAGES.get(name)
        if package in sys.modules and name != hidden:
            yield framework(name)


def rank(first: str = "") -> int | None:
    """Return the rank of this process; None if communication is not initialized.

    The framework `first` is queried first, then the others.
    """
    found = _communicating(first)
    return None if found is None else found.distributed.rank()


def size(first: str = "") -> int:
    """Return the number of processes of this run, by its framework or launcher; 1 if unknown."""
    found = _communicating(first)
    if found is not None:
        return found.distributed.size()
    variables = (os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM"))
    return max((int(number) for number in variables if number.isdecimal()), default=1)


def _communicating(first: str) -> Framework | None:
    """Return the first framework whose communication is initialized."""
    for each in imported(first):
        if each.offers("distributed") and each.distributed.is_initialized():
            return each
    return None
