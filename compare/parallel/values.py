"""The record of a whole tensor, from those of its parts; records are as dump.json has them.

| statistic of a concatenation | |
|---|---|
| Max, Min | the largest, the smallest of the parts; NaN if a part has one |
| Mean | the mean of the parts' means, weighted by their numbers of elements |
| Norm | the root of the sum of the parts' squared norms |
| counts of true, NaN and infinite elements | their sums |

This does not depend on the axis of the concatenation. There is no such rule for a sum over ranks.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msprobe.base.schema import COUNTS, DIGEST, KEYS, LAYOUT, NUMBERS, OPTIONAL, SHARES, Merge

Record = dict[str, Any]
Shape = tuple[int, ...]

_COUNTS = tuple(each.key for each in COUNTS)
_EXACT = tuple(each.key for each in (*NUMBERS, *COUNTS) if each.rule in ("extreme", "equal"))
_OF_ONE_RANK = (DIGEST.key, "data_name", "from", "shard", *[each.key for each in LAYOUT])
"""Members about the tensor of one rank, or with names of its calls."""


def is_tensor(node: object) -> bool:
    """Return whether a node of an entry is the record of a tensor."""
    return (
        isinstance(node, dict)
        and isinstance(node.get("type"), str)
        and "value" not in node
        and isinstance(node.get("shape"), list)
        and all(type(n) is int and n >= 0 for n in node["shape"])
    )


def shape_of(record: Record) -> Shape:
    return tuple(record["shape"])


def signature(record: Record) -> tuple[str, ...]:
    """Return a key that is equal for records of equal tensors of any shapes; a NaN equals itself."""
    return tuple(repr(record.get(key)) for key in (*KEYS, *_COUNTS))


def are_alike(records: Sequence[Record]) -> bool:
    """Return whether all are records of one tensor, by their statistics or digests."""
    first = records[0]
    known = [(shape_of(r), r.get("dtype"), r.get("md5"), signature(r)) for r in records]
    return "tensor_stat_index" not in first and all(each == known[0] for each in known[1:])


def different_ones(records: Sequence[Record]) -> list[int]:
    """Return the positions of records of different tensors: of equal ones the first."""
    firsts: dict[object, int] = {}
    for n, record in enumerate(records):
        firsts.setdefault((shape_of(record), record.get("md5"), signature(record)), n)
    return list(firsts.values())


def odd_ones(records: Sequence[Record]) -> tuple[int, ...]:
    """Return the positions of the copies that differ from most; if two halves differ, the later one."""
    prints = [(shape_of(r), r.get("md5"), signature(r)) for r in records]
    most = max(prints, key=prints.count)
    return tuple(n for n, each in enumerate(prints) if each != most)


def described(record: Record, shape: Shape) -> Record:
    """Return a record of this shape without members that apply to one rank only."""
    return {key: value for key, value in record.items() if key not in _OF_ONE_RANK} | {"shape": list(shape)}


def without_statistics(record: Record, shape: Shape) -> Record:
    """Return a record with only the type of the tensor."""
    return {key: value for key, value in described(record, shape).items() if key not in (*KEYS, *_COUNTS, *OPTIONAL)}


def concatenated(records: Sequence[Record], shape: Shape) -> Record:
    """Return the record of the parts as one tensor of this shape."""
    made = described(records[0], shape)
    sizes = [math.prod(record["shape"]) for record in records]
    filled = [record for record, size in zip(records, sizes, strict=True) if size]
    sizes = [size for size in sizes if size]
    for each in (*NUMBERS, *SHARES):
        if each.key in made:
            made[each.key] = _MERGES[each.merge]([record.get(each.key) for record in filled], sizes)
    for key in _COUNTS:
        if counts := [record[key] for record in records if type(record.get(key)) is int]:
            made[key] = sum(counts)
    return made


def _combined(numbers: Sequence[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the combined number; None if there is none, or one part lacks it."""
    return combine(numbers) if numbers and all(type(n) in (int, float, bool) for n in numbers) else None


def _extreme(numbers: Sequence[Any], take: Callable[[Iterable[Any]], Any]) -> Any:
    nan = next((n for n in numbers if n != n), None)
    return nan if nan is not None else _combined(numbers, take)


def _mean(means: Sequence[Any], sizes: Sequence[int]) -> Any:
    def weighted(known: Sequence[Any]) -> float:
        parts = [mean * size for mean, size in zip(known, sizes, strict=True)]
        return (math.fsum(parts) if all(map(math.isfinite, parts)) else sum(parts)) / sum(sizes)

    return _combined(means, weighted)


_MERGES: dict[Merge, Callable[[Sequence[Any], Sequence[int]], Any]] = {
    "max": lambda numbers, _: _extreme(numbers, max),
    "min": lambda numbers, _: _extreme(numbers, min),
    "mean": _mean,
    "norm": lambda norms, _: _combined(norms, lambda known: math.hypot(*known)),
}
"""The number of the whole, from those of the parts that have elements and the numbers of their elements."""


_ROUNDING = 1e-11, 4e-6
"""Maximum error of mean and norm of the combined parts, relative to the root mean square: for statistics accumulated in
float64, as in dumps of this tool, and in float32."""


def settled(record: Record, whole: Record, *, is_ours: bool) -> Record:
    """Return a concatenation with the mean and norm of the same tensor in one piece, if they differ only by the
    rounding of the parts' statistics: `Max` and `Min`, which are exact, are equal."""
    numbers: list[Any] = [each.get(key) for each in (record, whole) for key in KEYS]
    if not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
        return record
    if any(record.get(key) != whole.get(key) for key in ("shape", "dtype", *_EXACT)):
        return record
    size = math.sqrt(math.prod(record["shape"]))
    off = max(abs(record["Mean"] - whole["Mean"]) * size, abs(record["Norm"] - whole["Norm"]))
    if off > _ROUNDING[not is_ours] * whole["Norm"]:
        return record
    return {**record, "Mean": whole["Mean"], "Norm": whole["Norm"]}


def distance(record: Record, other: Record) -> float:
    """Return the largest difference of two records, relative to the larger norm; infinity if one lacks a number."""
    pairs: list[tuple[Any, Any]] = [(record.get(key), other.get(key)) for key in KEYS]
    known = [(a, b) for a, b in pairs if type(a) in (int, float) and type(b) in (int, float)]
    if signature(record) == signature(other):
        return 0.0
    if not known or not all(math.isfinite(a) and math.isfinite(b) for a, b in known):
        return math.inf
    scale = max(abs(n) for pair in known for n in pair)
    return max(abs(a - b) for a, b in known) / scale if scale else 0.0
