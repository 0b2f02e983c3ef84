"""Make a training with MindSpore repeatable: seeds, deterministic operators, and no dropout.

MindSpore is imported when `seed_all` is called, by its name: this package must also run without it.
"""

import os
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from .errors import SettingsError
from .lazy import needed
from .patches import Patches

LARGEST_SEED = 2**32 - 1


def seed_all(seed: int = 1234, mode: bool | None = False, rm_dropout: bool = True) -> None:
    """Seed Python, numpy and MindSpore; choose deterministic operators; replace dropout by versions that drop nothing.

    `mode` True or False switches MindSpore's deterministic operators and `HCCL_DETERMINISTIC` on or off, None leaves
    both alone. `rm_dropout` acts on what is created, or called through its module, afterwards: a layer that exists and
    a function that was imported by name stay as they are. Shuffling of data sets stays on. Raises `SettingsError` for
    a value that does not fit.
    """
    check(seed, mode, rm_dropout)
    mindspore = needed("mindspore", "msprobe.mindspore.seed_all")
    os.environ["PYTHONHASHSEED"] = str(seed)  # for processes started from here; this one read it long ago
    random.seed(seed)
    mindspore.set_seed(seed)  # initializers, operators, data sets, and numpy
    mindspore.manual_seed(seed)  # the generator behind mint.rand and its like, which set_seed does not reach
    if mode is not None:
        # Our own earlier value would make set_context warn about a contradiction.
        os.environ.pop("HCCL_DETERMINISTIC", None)
        # set_deterministic, which is to succeed set_context, can be called only once in a process.
        mindspore.set_context(deterministic="ON" if mode else "OFF")
        os.environ["HCCL_DETERMINISTIC"] = str(mode)
    if rm_dropout:
        _dropout().install()


def check(seed: int, mode: bool | None, rm_dropout: bool) -> None:
    """Refuse what cannot be meant, with `SettingsError`."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise SettingsError(f"seed_all: seed is {seed!r}; pass an integer from 0 to {LARGEST_SEED}")
    if mode is not None and not isinstance(mode, bool):
        raise SettingsError(f"seed_all: mode is {mode!r}; choose True, False, or None to leave determinism unchanged")
    if not isinstance(rm_dropout, bool):
        raise SettingsError(f"seed_all: rm_dropout is {rm_dropout!r}; choose True or False")


def planned(rows: "Sequence[tuple[str, str, Callable[[Any], Any]]]") -> Patches:
    """Attributes to replace: the owner (a module, or `module:class`), the attribute, and what makes the replacement of
    the original. Those that this version of the framework lacks are left out.
    """
    patches = Patches()
    for name, attribute, replace in rows:
        module, _, inner = name.partition(":")
        owner = getattr(import_module(module), inner) if inner else import_module(module)
        if hasattr(owner, attribute):
            patches.add(owner, attribute, replace)
    return patches


def restore_dropout() -> None:
    """Put MindSpore's own dropout back; what was created in between keeps dropping nothing."""
    _dropout().remove()


@lru_cache(1)
def _dropout() -> Patches:
    return planned(_REPLACED)


def _keeping_all(original: Any) -> Any:
    """The primitive with keep_prob 1.0. The name stays: MindSpore finds the kernel by it, and dumps show it."""

    def __init__(self: Any, keep_prob: float = 1.0, *args: Any, **kwargs: Any) -> None:
        original.__init__(self, 1.0, *args, **kwargs)

    return _renamed_as(original, __init__)


def _dropping_none(original: Any) -> Any:
    """The cell with p 0."""

    def __init__(self: Any, p: float = 0.0, *args: Any, **kwargs: Any) -> None:
        original.__init__(self, 0.0, *args, **kwargs)

    return _renamed_as(original, __init__)


def _renamed_as(original: Any, initialise: Callable[..., None]) -> Any:
    names = {"__init__": initialise, "__module__": original.__module__, "__doc__": original.__doc__}
    return type(original.__name__, (original,), names)


def _identity(original: Any) -> Any:
    """The function that returns its input. No `__wrapped__`: the graph compiler would read the original through it."""

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return input

    dropout.__name__ = dropout.__qualname__ = original.__name__
    return dropout


_REPLACED: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    *(("mindspore.ops", name, _keeping_all) for name in ("Dropout", "Dropout2D", "Dropout3D")),
    *(("mindspore.ops.operations", name, _keeping_all) for name in ("Dropout", "Dropout2D", "Dropout3D")),
    # ops.dropout2d and ops.dropout3d look here.
    *(("mindspore.ops.operations.nn_ops", name, _keeping_all) for name in ("Dropout2D", "Dropout3D")),
    *(("mindspore.mint.nn", name, _dropping_none) for name in ("Dropout", "Dropout2d")),
    *(("mindspore.mint.nn.functional", name, _identity) for name in ("dropout", "dropout2d")),
)
