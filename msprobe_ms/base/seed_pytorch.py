"""Make a training with PyTorch repeatable: seeds, deterministic operators, and no dropout.

PyTorch is imported when `seed_all` is called, by its name: this package must also run without it.
"""

import os
import random
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from .lazy import needed
from .patches import Patches
from .seed import check, planned


def seed_all(seed: int = 1234, mode: bool | None = False, rm_dropout: bool = True) -> None:
    """Seed Python, numpy and PyTorch, on every device; choose deterministic operators; have dropout drop nothing.

    `mode` True or False switches PyTorch's deterministic operators on or off, and `HCCL_DETERMINISTIC` with them; True
    sets `CUBLAS_WORKSPACE_CONFIG` too, and an operator that has no deterministic version then raises. Either way cuDNN
    uses deterministic operators and does not benchmark, as in msprobe 8.1. None leaves all of these alone.
    `rm_dropout` acts on every dropout layer, also on one that exists; on functions that are called through their
    module, `F.dropout` and `F.scaled_dot_product_attention`; and on recurrent layers that are created afterwards.
    Raises `SettingsError` for a value that does not fit.
    """
    check(seed, mode, rm_dropout)
    torch = needed("torch", "msprobe.pytorch.seed_all")
    os.environ["PYTHONHASHSEED"] = str(seed)  # for processes started from here; this one read it long ago
    random.seed(seed)
    np.random.seed(seed)  # the generator that trainings use
    torch.manual_seed(seed)  # of every device
    if mode is not None:
        if mode:  # read when the first matrix product of a GPU is prepared
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        os.environ["HCCL_DETERMINISTIC"] = str(mode)  # collectives between NPUs
        torch.backends.cudnn.deterministic = True
        # Benchmarking chooses the fastest operator, which may be another one each time.
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(mode)
    if rm_dropout:
        _dropout().install()


def restore_dropout() -> None:
    """Put PyTorch's own dropout back; recurrent layers that were created in between keep dropping nothing."""
    _dropout().remove()


@lru_cache(1)
def _dropout() -> Patches:
    return planned(_REPLACED)


def _not_training(original: Any) -> Any:
    """The function as it is outside of training: it gives its input, and draws no random number."""

    @wraps(original)
    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return original(input, p, False, inplace)

    return dropout


def _attending_to_all(original: Any) -> Any:
    """The attention with `dropout_p` 0."""

    @wraps(original)
    def attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kw: Any
    ) -> Any:
        return original(query, key, value, attn_mask, 0.0, *args, **kw)

    return attention


def _created_without(original: Callable[..., None]) -> Callable[..., None]:
    """A recurrent layer whose `dropout` is 0."""

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.dropout = 0.0

    return __init__


_FUNCTIONAL = "torch.nn.functional"

_REPLACED: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    *((_FUNCTIONAL, name, _not_training) for name in ("dropout", "dropout1d", "dropout2d", "dropout3d")),
    *((_FUNCTIONAL, name, _not_training) for name in ("alpha_dropout", "feature_alpha_dropout")),
    (_FUNCTIONAL, "scaled_dot_product_attention", _attending_to_all),
    ("torch.nn:RNNBase", "__init__", _created_without),
)
"""A layer asks the module of functions at every call, so that layers that exist drop nothing either."""
