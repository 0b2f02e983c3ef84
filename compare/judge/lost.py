"""Nulls of a dump that stand for values which could not be collected, and not for None."""

from collections.abc import Iterator

from msprobe.store.columns import NULL, PARTS, Calls, Columns
from msprobe.store.record import Dump

_INPUT, _PARAMETERS_GRAD, _DEBUG = (PARTS.index(part) for part in ("input", "parameters_grad", "debug"))


def lost_rows(dump: Dump) -> frozenset[int]:
    """The rows that are null, and that the dump names, with a cause, as what could not be collected of their call.

    Only the calls are looked at of which the dump says so. A part that is named covers all that is inside it.
    """
    calls, columns = dump.calls, dump.columns
    told = calls.lost if isinstance(calls, Calls) else {at: call.lost for at, call in enumerate(calls) if call.lost}
    return frozenset(
        row
        for at, parts in told.items()
        for row in range(columns.starts[at], columns.starts[at + 1])
        if columns.kind[row] == NULL and not set(parts).isdisjoint(_places(columns, row))
    )


def _places(columns: Columns, row: int) -> Iterator[str]:
    """What a dump may call the place of a row, or one around it: `input.1.0`, `input.1` and `input`."""
    part, path = columns.part[row], columns.paths[columns.path[row]]
    stems: tuple[tuple[str, ...], ...] = ((PARTS[part],),)
    if part == _INPUT:
        stems = ("input",), ("kwargs",)
    elif part in (_PARAMETERS_GRAD, _DEBUG):  # they are named after their path alone
        stems = ((),)
    for stem in stems:
        yield from (".".join((*stem, *path[:length])) for length in range(len(path) + 1))
