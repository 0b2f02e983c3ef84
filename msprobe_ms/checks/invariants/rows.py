"""The rows of parameters and their gradients in a dump, and what identifies the tensor of a row."""

from msprobe.compare.parallel.shards import Shard, shard_of
from msprobe.store.record import PARAMETERS, PARAMETERS_GRAD, TENSOR, Dump

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


RUNNING = ("moving_mean", "moving_variance", "running_mean", "running_var", "num_batches_tracked")


def parameters(dump: Dump) -> dict[str, int]:
    """Return the row of each parameter at the start of a step, by its full name; without running statistics.

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
    return {name: row for name, row in found.items() if name.rpartition(".")[2] not in RUNNING}


def gradients(dump: Dump) -> dict[str, int]:
    """Return the row of each parameter's gradient, by its full name; of several the last."""
    columns = dump.columns
    return {
        dump.parameter_name(row): row
        for row, part in enumerate(columns.part)
        if part == PARAMETERS_GRAD and columns.kind[row] == TENSOR
    }
