"""The losses, parameters and gradients of a dump by their rows, and what identifies the tensor of a row."""

from collections.abc import Sequence
from math import prod
from typing import Any

from numpy.typing import NDArray

from msprobe.base.names import is_running_statistic
from msprobe.compare.core.standard import family
from msprobe.compare.parallel.shards import Shard, shard_of
from msprobe.store.reader import load_tensor
from msprobe.store.record import OUTPUT, PARAMETERS, PARAMETERS_GRAD, TENSOR, Dump

Fingerprint = tuple[object, ...]


def fingerprint(dump: Dump, row: int) -> Fingerprint:
    """Return the common properties of two records of one tensor: shape, dtype, and digest, or the four statistics."""
    columns = dump.columns
    values = columns.digest[row] or tuple(repr(number) for number in columns.numbers_of(row))
    return columns.shape(row), columns.dtype(row), values


def shard(dump: Dump, row: int) -> Shard | None:
    """Return the shard of a row; None for a tensor that is not distributed."""
    recorded, shape = dump.columns.shards.get(row), dump.columns.shape(row)
    return None if recorded is None or shape is None else shard_of({"shape": list(shape), "shard": recorded}, 0)


def is_constant(dump: Dump, row: int) -> bool:
    """Return whether all elements are equal, like those of most biases and norms at the start."""
    high, low, *_ = dump.columns.numbers_of(row)
    return high == low


def parameters(dump: Dump, *, running: bool = False) -> dict[str, int]:
    """Return the row of each parameter at the start of a step, by its full name; `running`: also running statistics.

    Of a distributed parameter it is the shard of the rank, not what was gathered of it for a call.
    """
    found: dict[str, int] = {}
    columns = dump.columns
    for row, part in enumerate(columns.part):
        if columns.kind[row] != TENSOR:
            continue
        if part == PARAMETERS and row in columns.shards:
            name = dump.parameter_name(row)
            if found.get(name) not in columns.shards:
                found[name] = row
        elif part == PARAMETERS:
            found.setdefault(dump.parameter_name(row), row)
        elif columns.source[row].startswith("parameter "):
            found.setdefault(columns.source[row].removeprefix("parameter "), row)
    return {name: row for name, row in found.items() if running or not is_running_statistic(name)}


def gradients(dump: Dump) -> dict[str, int]:
    """Return the row of each parameter's gradient, by its full name; of several the last."""
    columns = dump.columns
    return {
        dump.parameter_name(row): row
        for row, part in enumerate(columns.part)
        if part == PARAMETERS_GRAD and columns.kind[row] == TENSOR
    }


def loss_rows(dump: Dump) -> list[int]:
    """Return the rows of the losses of a step: scalars of forward calls that have a backward, and that no later
    recorded forward call takes. Without any, the last scalar of a forward call, as where no backward was recorded."""
    columns = dump.columns
    received = {source for source in columns.source if source.startswith("call ")}
    losses: list[int] = []
    last: list[int] = []
    for call, name in enumerate(dump.names):
        if name.direction != "forward":
            continue
        for row in columns.tensors(call, OUTPUT):
            is_scalar = prod(columns.shape(row) or ()) == 1 and family(columns.dtype(row)) == "float"
            if not is_scalar or f"call {columns.row_name(row, call)}" in received:
                continue
            last = [row]
            if dump.counterpart(call, "backward") >= 0 and name.kind != "cell":
                losses.append(row)
    return losses or last


def loss_of(dump: Dump) -> float | None:
    """Return the sum of the losses of a step, which `loss_rows` has; None without any."""
    losses = [dump.columns.max[row] for row in loss_rows(dump)]
    return sum(losses) if losses else None


def gradient_rows(dump: Dump) -> dict[str, list[int]]:
    """Return the rows with the gradient of each parameter: one for each micro batch of the step."""
    columns = dump.columns
    found: dict[str, list[int]] = {}
    for row, part in enumerate(columns.part):
        if part == PARAMETERS_GRAD and columns.kind[row] == TENSOR:
            found.setdefault(dump.parameter_name(row), []).append(row)
    return found


def gradient(dump: Dump, rows: Sequence[int]) -> NDArray[Any] | None:
    """Return the sum of a parameter's gradients of a step; None if the elements of one were not saved."""
    columns = dump.columns
    total: NDArray[Any] | None = None
    for row in rows:
        if not columns.file[row]:
            return None
        array = load_tensor(dump, columns.record(row, columns.call_of(row)))
        is_whole = total is None or columns.gradient[row]  # accumulated: it includes the earlier ones
        total = array if is_whole else total + array
    return total


GRADIENT_NOISE_OF_OTHER_CALLS = {"float32": 1e-4, "float64": 1e-4, "float16": 1e-2, "bfloat16": 0.05}
"""Relative error of a parameter's gradient in the first step that is noise, by the dtype. Measured for float32, over
three steps: at most 7.5e-6, of other orders of sums, `torch.compile` and split batches (benchmarks/gate/RESULTS.md)."""

GRADIENT_NOISE = {**GRADIENT_NOISE_OF_OTHER_CALLS, "float32": 2e-5, "float64": 2e-5}
"""The same if the calls of the two runs can be compared: less is accepted then."""

GRADIENT_DRIFT = 3.0
"""Growth of that error from one step to the next."""

CANCELLED = 3e-4
"""A gradient of which both runs have less than this share of most cancels out, so that rounding is left: those of
the bias of an attention's keys, and of a bias before a batch norm. Measured (benchmarks/gate): up to 1e-4."""

ROUNDED = 1e-3
"""An element of a gradient that is so much smaller than the gradient is rounding: an optimizer that divides by the size
of the gradient, such as Adam, moves its parameter in an arbitrary direction. The keys' part of the bias of a fused
projection to queries, keys and values has such a gradient, because a softmax does not depend on it."""

UPDATE_NOISE = 1e-2
"""Relative error of an update that is noise, as the root mean square over the elements whose gradient is not rounding.
Measured: at most 6e-4."""
