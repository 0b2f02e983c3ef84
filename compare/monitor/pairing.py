"""Find the counterparts of targets in two monitors, and their common steps. This module does not measure.

| stage | pairs |
|---|---|
| exact | equal stage number and name |
| form | the same tensor by its name in another form: `fc.input` and `fc.input.0`, `fc.weight` and `fc.weight.exp_avg` |
| framework | MindSpore's names of parameters: `gamma`, `beta`, `embedding_table`, `moving_mean`, `moving_variance` |
| suffix | a name that was shortened at its start: `0.weight` and `layers.0.weight`, if only one matches |
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.store.monitor.table import Output, RankOutput, Table, Target

Array = np.ndarray[Any, Any]

TENSOR = re.compile(r"^(?:(.*)\.)?(?:grad_)?(input|output)(?:[._](\d+))?$")
"""The name of a module's tensor in either form: the module, the side, the number."""
_OTHER_PARAMETER_NAMES = {
    "gamma": "weight",
    "beta": "bias",
    "embedding_table": "weight",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
"""The names of parameters in MindSpore, and those in PyTorch."""
_ACTIVATIONS = ("actv", "actv_grad")
_GRADIENTS = ("grad_unreduced", "grad_reduced")
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Unmatched:
    """Contents of a kind that only one side has: `names` of targets, or `statistics`; without both the whole kind."""

    side: str
    rank: int
    kind: str
    names: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()


@dataclass(frozen=True)
class UncommonSteps:
    """Number of steps, or micro steps, of a kind on one side only."""

    side: str
    kind: str
    count: int
    is_micro: bool = False


@dataclass(frozen=True, eq=False)
class PairedTable:
    """One kind of one rank on both sides: `target` and `golden` are the row numbers of the tables by name."""

    rank: int
    kind: str
    a: Table
    b: Table
    names: tuple[str, ...]
    row_of_a: Array
    row_of_b: Array
    step: Array
    micro_step: Array
    column_of_a: Array
    column_of_b: Array


@dataclass(frozen=True, eq=False)
class Paired:
    """All counterparts, and the unmatched contents."""

    tables: tuple[PairedTable, ...]
    unmatched: tuple[Unmatched, ...]
    uncommon: tuple[UncommonSteps, ...]
    ranks: tuple[int, ...]
    lost_ranks: dict[str, tuple[int, ...]]


def form_free(kind: str, name: str) -> Hashable:
    """Return a name without the additions of the form of the file."""
    if kind in _ACTIVATIONS and (found := TENSOR.match(name)):
        return found[1] or "", found[2], int(found[3] or 0)
    if kind in _MOMENTS:
        return name.removesuffix(f".{kind}").removeprefix(f"{kind}.")
    return name.removesuffix(".grad") if kind in _GRADIENTS else name


def framework_free(kind: str, name: str) -> Hashable:
    """Return a name with PyTorch's names of parameters."""
    known = form_free(kind, name)
    if not isinstance(known, str):
        return known
    stem, dot, last = known.rpartition(".")
    return stem + dot + _OTHER_PARAMETER_NAMES.get(last, last)


def pair_targets(kind: str, a: Sequence[Target], b: Sequence[Target]) -> dict[int, int]:
    """Return by number of a target of `a` the number of the one of `b`; each at most once."""
    found: dict[int, int] = {}
    keys: tuple[Callable[[Target], Hashable], ...] = (
        lambda target: target.name,
        lambda target: form_free(kind, target.name),
        lambda target: framework_free(kind, target.name),
    )
    for key in keys:
        left, right = (
            _unique((n, (t.vpp_stage, key(t))) for n, t in enumerate(side) if n not in taken)
            for side, taken in ((a, found.keys()), (b, set(found.values())))
        )
        found.update((left[k], right[k]) for k in left.keys() & right.keys())
    _pair_cut(kind, a, b, found)
    return found


def _unique(items: Iterable[tuple[int, Hashable]]) -> dict[Hashable, int]:
    """Return the number by key, for keys that only one target has."""
    found: dict[Hashable, int | None] = {}
    for number, key in items:
        found[key] = None if key in found else number
    return {key: number for key, number in found.items() if number is not None}


def _pair_cut(kind: str, a: Sequence[Target], b: Sequence[Target], found: dict[int, int]) -> None:
    """Pair names one of which was shortened at its start: the longer ends with the shorter, and no other does."""
    rest_a = {n: _path(kind, t) for n, t in enumerate(a) if n not in found}
    taken = set(found.values())
    rest_b = {n: _path(kind, t) for n, t in enumerate(b) if n not in taken}
    for (shorter, longer), is_a in (((rest_a, rest_b), True), ((rest_b, rest_a), False)):
        by_end: dict[tuple[str, ...], list[int]] = {}
        for number, path in longer.items():
            for start in range(1, len(path)):
                by_end.setdefault(path[start:], []).append(number)
        chosen: dict[int, list[int]] = {}
        for number, path in shorter.items():
            if len(fitting := by_end.get(path, [])) == 1:
                chosen.setdefault(fitting[0], []).append(number)
        for long, shorts in chosen.items():
            if len(shorts) == 1:
                one, other = (shorts[0], long) if is_a else (long, shorts[0])
                if one not in found and other not in found.values():
                    found[one] = other


def _path(kind: str, target: Target) -> tuple[str, ...]:
    known = framework_free(kind, target.name)
    if isinstance(known, tuple):
        module, tensor, number = known
        return (str(target.vpp_stage), *str(module).split("."), f"{tensor}.{number}")[1:]
    return tuple(str(known).split("."))


def pair_outputs(a: Output, b: Output) -> Paired:
    """Pair the outputs of two monitors. Single processes of both sides are paired, with any numbers."""
    alone = len(a.ranks) == len(b.ranks) == 1
    ranks = [(ra, rb) for ra in a.ranks.values() for rb in b.ranks.values() if alone or ra.rank == rb.rank]
    tables: list[PairedTable] = []
    unmatched: list[Unmatched] = []
    uncommon: dict[tuple[str, str, bool], int] = {}
    for one, other in ranks:
        _pair_rank(one, other, tables, unmatched, uncommon)
    common = {ra.rank for ra, _ in ranks}, {rb.rank for _, rb in ranks}
    return Paired(
        tuple(tables),
        tuple(unmatched),
        tuple(UncommonSteps(side, kind, n, is_micro) for (side, kind, is_micro), n in uncommon.items() if n),
        tuple(sorted(common[0])),
        {"A": tuple(sorted({*a.ranks} - common[0])), "B": tuple(sorted({*b.ranks} - common[1]))},
    )


def _pair_rank(
    a: RankOutput,
    b: RankOutput,
    tables: list[PairedTable],
    unmatched: list[Unmatched],
    uncommon: dict[tuple[str, str, bool], int],
) -> None:
    for kind in (*a.tables, *(kind for kind in b.tables if kind not in a.tables)):
        one, other = a.tables.get(kind), b.tables.get(kind)
        if one is None or other is None:
            unmatched.append(Unmatched("A" if other is None else "B", a.rank, kind))
            continue
        paired = pair_targets(kind, one.targets, other.targets)
        for side, table, taken in (("A", one, {*paired}), ("B", other, {*paired.values()})):
            if rest := tuple(t.name for n, t in enumerate(table.targets) if n not in taken):
                unmatched.append(Unmatched(side, a.rank, kind, rest))
        columns = (("A", one, other), ("B", other, one))
        for side, table, of_other in columns:
            if lone := tuple(name for name in table.statistics if name not in of_other.statistics):
                unmatched.append(Unmatched(side, a.rank, kind, statistics=lone))
        aligned = _aligned(a.rank, kind, one, other, paired, uncommon)
        if aligned is not None:
            tables.append(aligned)


def _aligned(
    rank: int, kind: str, a: Table, b: Table, paired: dict[int, int], uncommon: dict[tuple[str, str, bool], int]
) -> PairedTable | None:
    """Return the common steps, by number; None if there are none."""
    wide = 1 + int(max(a.micro_step.max(initial=0), b.micro_step.max(initial=0)))
    (keys_a, of_a), (keys_b, of_b) = (_columns(table, wide) for table in (a, b))
    common = np.intersect1d(keys_a, keys_b, assume_unique=True)
    for side, keys in (("A", keys_a), ("B", keys_b)):
        rest = np.setdiff1d(keys, common, assume_unique=True)
        other_steps = np.setdiff1d(np.unique(rest // wide), common // wide)
        for is_micro, count in ((False, len(other_steps)), (True, int((~np.isin(rest // wide, other_steps)).sum()))):
            uncommon[side, kind, is_micro] = max(uncommon.get((side, kind, is_micro), 0), count)
    if not len(common) or not paired:
        return None
    # Rows of the golden are in its order of execution.
    order = sorted(paired.items(), key=lambda pair: pair[1])
    row_of_a = np.full(len(a.targets), -1)
    row_of_b = np.full(len(b.targets), -1)
    for row, (one, other) in enumerate(order):
        row_of_a[one], row_of_b[other] = row, row
    return PairedTable(
        rank,
        kind,
        a,
        b,
        tuple(b.targets[other].name for _, other in order),
        row_of_a,
        row_of_b,
        common // wide,
        common % wide,
        _places(keys_a, common)[of_a],
        _places(keys_b, common)[of_b],
    )


def _columns(table: Table, wide: int) -> tuple[Array, Array]:
    """Return the distinct pairs of step and micro step as sorted numbers, and the pair of each row."""
    keys = table.step * wide + table.micro_step
    change = np.diff(keys)
    if (change >= 0).all():  # in the order of the files: no sort of millions
        first = np.concatenate([[True], change > 0])[: len(keys)]
        return keys[first], np.cumsum(first) - 1
    distinct, of_row = np.unique(keys, return_inverse=True)
    return distinct, of_row


def _places(keys: Array, common: Array) -> Array:
    """Return the position of each key among the common ones; -1 for none."""
    at = np.searchsorted(common, keys)
    at[at == len(common)] = 0
    return np.where(common[at] == keys, at, -1)
