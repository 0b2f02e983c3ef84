"""Reproducible trainings with MindSpore: seeds, deterministic operators, and no dropout.

MindSpore is imported when `seed_all` is called, because this package must also run without it.
"""

import os
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msprobe.base.lazy import require
from msprobe.base.patches import Patches
from msprobe.frameworks.seeding import check, patches_of


def seed_all(seed: int = 1234, mode: bool | None = False, rm_dropout: bool = True) -> None:
    """Seed Python, NumPy and MindSpore, select deterministic operators, and disable dropout.

    seed : from 0 to 2**32 - 1.
    mode : True or False switches MindSpore's deterministic operators and `HCCL_DETERMINISTIC` on or off; None does not
        change them.
    rm_dropout : disable dropout in layers that are created later, and in functions that are called through their
        module. Existing layers, and functions that were imported by name, are not changed.

    Data sets are still shuffled. Raises `SettingsError` for invalid values.
    """
    check(seed, mode, rm_dropout)
    mindspore = require("mindspore", "msprobe.mindspore.seed_all")
    os.environ["PYTHONHASHSEED"] = str(seed)  # for child processes; this process has already read it
    random.seed(seed)
    mindspore.set_seed(seed)  # initializers, operators, data sets, and numpy
    mindspore.manual_seed(seed)  # the generator of mint.rand, which set_seed does not seed
    if mode is not None:
        # A value from an earlier call would make set_context warn about a contradiction.
        os.environ.pop("HCCL_DETERMINISTIC", None)
        # set_deterministic, the successor of set_context, can be called only once in a process.
        mindspore.set_context(deterministic="ON" if mode else "OFF")
        os.environ["HCCL_DETERMINISTIC"] = str(mode)
    if rm_dropout:
        _dropout().install()


def restore_dropout() -> None:
    """Restore MindSpore's dropout; layers that were created in the meantime remain without dropout."""
    _dropout().remove()


@lru_cache(1)
def _dropout() -> Patches:
    return patches_of(_REPLACED)


def _primitive_without_dropout(original: Any) -> Any:
    """Return a subclass of a primitive with keep_prob 1.0 and the same name, by which MindSpore finds the kernel."""

    def __init__(self: Any, keep_prob: float = 1.0, *args: Any, **kwargs: Any) -> None:
        original.__init__(self, 1.0, *args, **kwargs)

    return _subclass_like(original, __init__)


def _cell_without_dropout(original: Any) -> Any:
    """Return a subclass of a cell with p = 0."""

    def __init__(self: Any, p: float = 0.0, *args: Any, **kwargs: Any) -> None:
        original.__init__(self, 0.0, *args, **kwargs)

    return _subclass_like(original, __init__)


def _subclass_like(original: Any, initialize: Callable[..., None]) -> Any:
    names = {"__init__": initialize, "__module__": original.__module__, "__doc__": original.__doc__}
    return type(original.__name__, (original,), names)


def _function_without_dropout(original: Any) -> Any:
    """Return a function that returns its input, without `__wrapped__`, which the graph compiler would follow."""

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return input

    dropout.__name__ = dropout.__qualname__ = original.__name__
    return dropout


_REPLACED: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    *(("mindspore.ops", name, _primitive_without_dropout) for name in ("Dropout", "Dropout2D", "Dropout3D")),
    *(("mindspore.ops.operations", name, _primitive_without_dropout) for name in ("Dropout", "Dropout2D", "Dropout3D")),
    # used by ops.dropout2d and ops.dropout3d
    *(("mindspore.ops.operations.nn_ops", name, _primitive_without_dropout) for name in ("Dropout2D", "Dropout3D")),
    *(("mindspore.mint.nn", name, _cell_without_dropout) for name in ("Dropout", "Dropout2d")),
    *(("mindspore.mint.nn.functional", name, _function_without_dropout) for name in ("dropout", "dropout2d")),
)
