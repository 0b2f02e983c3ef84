"""Calls of one name whose results are another kind of number: no pairs, whatever else is alike.

Where one side makes its mask of booleans from the start, the other makes it of floats and casts them later:
`ones(n, n, dtype=bool)` and `ones((n, n)).astype(bool)`. Nothing of the two can be compared but what comes of them.
"""

from msprobe.base import names
from msprobe.compare.judge.standard import family
from msprobe.store.columns import PARTS, TENSOR
from msprobe.store.record import Dump

_KINDS = frozenset(["bool", "int", "float", "complex"])
_OUTPUT = PARTS.index("output")


def give_other_numbers(target: Dump, i: int, golden: Dump, j: int) -> bool:
    """Whether target call `i` and golden call `j` are forward calls of functions whose first results, both tensors, are
    of two families of dtypes."""
    for dump, call in ((target, i), (golden, j)):
        name = names.parse(dump.columns.names[call])
        if name.kind != "api" or name.direction != "forward":
            return False
    kinds = _first(target, i), _first(golden, j)
    return kinds[0] != kinds[1] and all(kind in _KINDS for kind in kinds)


def _first(dump: Dump, call: int) -> str:
    """The family of the dtype of a call's first result; empty where that is no tensor."""
    columns = dump.columns
    for row in range(columns.starts[call], columns.starts[call + 1]):
        if columns.part[row] == _OUTPUT:
            return family(columns.looks[columns.look[row]][1]) if columns.kind[row] == TENSOR else ""
    return ""
