"""Pair the kernels of two graphs by their inputs.

Kernels that do not depend on each other run in an order that differs between compilations of a program, so the order
does not identify a kernel. The number in a kernel's name does not depend on the order; it changes if a program has more
or fewer kernels of its scope. The inputs of a kernel identify it in both cases.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from msprobe.base.names import KERNEL, PARAMETER
from msprobe.compare.core.tensor import Source, source_of

from .call_keys import Side


@dataclass(frozen=True, slots=True)
class _Made:
    """A result of a call of a dump: the index of the call, and the path of the result."""

    by: int
    path: tuple[str, ...]


_Given = tuple[Source | _Made | None, ...]
"""By record of a kernel: its producer; None for a result of a call without a pair."""


def pair_nodes(target: Side, golden: Side, known: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of kernels and of parameters, in addition to `known` ones (golden call by target call); no other
    calls.

    The two of a pair have one scope, the same shapes and arguments, and as inputs the same parameters and results of
    kernels that are a pair. Of several, the one with the same name is used, otherwise none. If inputs are results of
    kernels without a pair, only the whole name decides. An alignment pairs the others.
    """
    mine, theirs = _nodes(target), _nodes(golden)
    if not mine or not theirs:
        return
    golden_of, target_of = dict(known), {j: i for i, j in known.items()}
    given = {j: _given(golden, j) for j in theirs}
    looks = {j: _look(golden, j) for j in theirs}
    with_name = {(looks[j], golden.names[j].text): j for j in theirs}
    alike: defaultdict[Hashable, list[int]] = defaultdict(list)
    for j in theirs:
        alike[looks[j], given[j]].append(j)
    for i in mine:
        look, wanted = _look(target, i), _translated(_given(target, i), golden_of)
        same = [j for j in alike.get((look, wanted), ()) if j not in target_of]
        named = with_name.get((look, target.names[i].text), -1)
        if named >= 0 and named not in target_of and _may_be_given(wanted, given[named], target_of):
            same = [named]
        if i not in golden_of and len(same) == 1:
            golden_of[i], target_of[same[0]] = same[0], i
            yield i, same[0]


def _nodes(side: Side) -> list[int]:
    """Return the kernels and parameters of a graph, in the order of the dump: producers come first."""
    prefixes = f"{KERNEL}.", f"{PARAMETER}."
    return [at for at, name in enumerate(side.dump.columns.names) if name.startswith(prefixes)]


def _look(side: Side, i: int) -> Hashable:
    return side.stem(i), side.parent_name(i), side.again[i], side.contents(i)


def _given(side: Side, i: int) -> _Given:
    columns, place = side.dump.columns, side.dump.place
    given: list[Source | _Made] = []
    for row in columns.rows(i):
        source = source_of(columns.source[row])
        by = place.get(source.call, -1) if source.origin == "call" else -1
        given.append(_Made(by, (source.part, *source.path)) if by >= 0 else source)
    return tuple(given)


def _translated(given: _Given, golden_of: Mapping[int, int]) -> _Given:
    """Return the inputs of a call of the target as the golden has them."""
    return tuple(
        [
            one if not isinstance(one, _Made) else _Made(golden_of[one.by], one.path) if one.by in golden_of else None
            for one in given
        ]
    )


def _may_be_given(mine: _Given, theirs: _Given, target_of: Mapping[int, int]) -> bool:
    """Return whether the known inputs of two calls are the same: results without a pair may be anything."""
    return all(
        a == b if a is not None else isinstance(b, _Made) and b.by not in target_of
        for a, b in zip(mine, theirs, strict=True)
    )
