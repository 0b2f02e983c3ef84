"""Defaults of layers, functions and optimizers that differ between the frameworks, each as in its signature.

A test reads the signatures of the installed frameworks. `source` is the page of the public documentation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Framework = Literal["mindspore", "pytorch"]

_MINDSPORE = "https://www.mindspore.cn/docs/en/master/api_python/"
_PYTORCH = "https://docs.pytorch.org/docs/stable/generated/"


@dataclass(frozen=True, slots=True)
class Default:
    """The default of an argument of `owner`, for an operation by its name in `msprobe.replay.operations`.

    `position` is that of the argument in a call of a function, -1 if it is passed by name only, and for layers, whose
    arguments belong to their constructor. `source` documents it.
    """

    operation: str
    framework: Framework
    owner: str
    argument: str
    value: object
    source: str
    position: int = -1


def _mindspore(operation: str, owner: str, argument: str, value: object, position: int = -1) -> Default:
    page = {"nn": "nn", "mint": "mint", "ops": "ops", "experimental": "experimental/optim"}[owner.split(".")[1]]
    return Default(operation, "mindspore", owner, argument, value, f"{_MINDSPORE}{page}/{owner}.html", position)


def _pytorch(operation: str, owner: str, argument: str, value: object, position: int = -1) -> Default:
    return Default(operation, "pytorch", owner, argument, value, f"{_PYTORCH}{owner}.html", position)


DEFAULTS = (
    _mindspore("layer_norm", "mindspore.nn.LayerNorm", "epsilon", 1e-7),
    _mindspore("layer_norm", "mindspore.mint.nn.LayerNorm", "eps", 1e-5),
    _mindspore("layer_norm", "mindspore.ops.layer_norm", "eps", 1e-5, 4),
    _mindspore("layer_norm", "mindspore.mint.nn.functional.layer_norm", "eps", 1e-5, 4),
    _pytorch("layer_norm", "torch.nn.LayerNorm", "eps", 1e-5),
    _pytorch("layer_norm", "torch.nn.functional.layer_norm", "eps", 1e-5, 4),
    _mindspore("rms_norm", "mindspore.ops.rms_norm", "epsilon", 1e-6, 2),
    _pytorch("rms_norm", "torch.nn.RMSNorm", "eps", None),  # the epsilon of the dtype, 1.2e-07 of float32
    _pytorch("rms_norm", "torch.nn.functional.rms_norm", "eps", None, 3),
    _mindspore("gelu", "mindspore.nn.GELU", "approximate", True),  # the tanh form
    _mindspore("gelu", "mindspore.mint.nn.GELU", "approximate", "none"),
    _mindspore("gelu", "mindspore.ops.gelu", "approximate", "none", 1),
    _pytorch("gelu", "torch.nn.GELU", "approximate", "none"),
    _mindspore("batch_norm", "mindspore.nn.BatchNorm2d", "momentum", 0.9),  # the share of the old value
    _mindspore("batch_norm", "mindspore.mint.nn.BatchNorm2d", "momentum", 0.1),  # the share of the new value
    _pytorch("batch_norm", "torch.nn.BatchNorm2d", "momentum", 0.1),
    _mindspore("dropout", "mindspore.nn.Dropout", "keep_prob", 0.5),
    _pytorch("dropout", "torch.nn.Dropout", "p", 0.5),
    _mindspore("adam", "mindspore.nn.AdamWeightDecay", "eps", 1e-6),
    _mindspore("adam", "mindspore.nn.AdamWeightDecay", "weight_decay", 0.0),
    _mindspore("adam", "mindspore.mint.optim.AdamW", "eps", 1e-8),
    _mindspore("adam", "mindspore.mint.optim.AdamW", "weight_decay", 0.01),
    _pytorch("adam", "torch.optim.AdamW", "eps", 1e-8),
    _pytorch("adam", "torch.optim.AdamW", "weight_decay", 0.01),
    _pytorch("adam", "torch.optim.Adam", "weight_decay", 0),
    _mindspore("clip", "mindspore.ops.clip_by_global_norm", "clip_norm", 1.0),
)

NAMES = {"epsilon": "eps", "keep_prob": "p"}
"""Names of one argument in the other framework's terms."""


def defaults_of(operation: str, argument: str, framework: str) -> Iterator[Default]:
    """Yield the defaults of an argument of an operation in a framework; `mindtorch` counts as both."""
    for row in DEFAULTS:
        is_named = argument in (row.argument, NAMES.get(row.argument, row.argument))
        if row.operation == operation and is_named and framework in (row.framework, "mindtorch"):
            yield row


def argument_at(operation: str, position: int) -> str:
    """Return the name of the argument at a position in a call of an operation; empty if unknown."""
    rows = (row for row in DEFAULTS if row.operation == operation and row.position == position)
    found = {NAMES.get(row.argument, row.argument) for row in rows}
    return found.pop() if len(found) == 1 else ""
