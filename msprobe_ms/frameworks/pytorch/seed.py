"""Reproducible trainings with PyTorch: seeds, deterministic operators, and no dropout.

PyTorch is imported when `seed_all` is called, because this package must also run without it.
"""

import os
import random
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from msprobe.base.lazy import require
from msprobe.base.patches import Patches
from msprobe.frameworks.seeding import check, patches_of


def seed_all(seed: int = 1234, mode: bool | None = False, rm_dropout: bool = True) -> None:
    """Seed Python, NumPy and PyTorch on all devices, select deterministic operators, and disable dropout.

    seed : from 0 to 2**32 - 1.
    mode : True or False switches PyTorch's deterministic operators and `HCCL_DETERMINISTIC` on or off. True also sets
        `CUBLAS_WORKSPACE_CONFIG`, and operators without a deterministic version raise. Both make cuDNN use
        deterministic operators without benchmarking, as in msprobe 8.1. None does not change any of these.
    rm_dropout : disable dropout in all dropout layers, including existing ones, in functions that are called through
        their module (`F.dropout`, `F.scaled_dot_product_attention`), and in recurrent layers that are created later.

    Raises `SettingsError` for invalid values.
    """
    check(seed, mode, rm_dropout)
    torch = require("torch", "msprobe.pytorch.seed_all")
    os.environ["PYTHONHASHSEED"] = str(seed)  # for child processes; this process has already read it
    random.seed(seed)
    np.random.seed(seed)  # the global generator
    torch.manual_seed(seed)  # of all devices
    if mode is not None:
        if mode:  # read when the first matrix product of a GPU is prepared
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        os.environ["HCCL_DETERMINISTIC"] = str(mode)  # collectives between NPUs
        torch.backends.cudnn.deterministic = True
        # Benchmarking selects the fastest operator, which may differ between runs.
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(mode)
    if rm_dropout:
        _dropout().install()


def restore_dropout() -> None:
    """Restore PyTorch's dropout; recurrent layers that were created in the meantime remain without dropout."""
    _dropout().remove()


@lru_cache(1)
def _dropout() -> Patches:
    return patches_of(_REPLACED)


def _function_without_dropout(original: Any) -> Any:
    """Return the function with training=False: it returns its input without drawing random numbers."""

    @wraps(original)
    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return original(input, p, False, inplace)

    return dropout


def _attention_without_dropout(original: Any) -> Any:
    """Return the attention function with dropout_p = 0."""

    @wraps(original)
    def attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kw: Any
    ) -> Any:
        return original(query, key, value, attn_mask, 0.0, *args, **kw)

    return attention


def _init_without_dropout(original: Callable[..., None]) -> Callable[..., None]:
    """Return the `__init__` of a recurrent layer with dropout = 0."""

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.dropout = 0.0

    return __init__


_FUNCTIONAL = "torch.nn.functional"

_REPLACED: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    *((_FUNCTIONAL, name, _function_without_dropout) for name in ("dropout", "dropout1d", "dropout2d", "dropout3d")),
    *((_FUNCTIONAL, name, _function_without_dropout) for name in ("alpha_dropout", "feature_alpha_dropout")),
    (_FUNCTIONAL, "scaled_dot_product_attention", _attention_without_dropout),
    ("torch.nn:RNNBase", "__init__", _init_without_dropout),
)
"""Layers look up functions in their module at every call, so this also disables dropout in existing layers."""
