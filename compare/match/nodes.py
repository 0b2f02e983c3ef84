"""Pair the kernels of two graphs by what they are given.

Kernels that do not depend on each other run in an order that differs from one compilation of a program to the next, so
it says nothing of which kernel is which. The number in a kernel's name does not depend on the order; it changes where
a program has more or fewer kernels of its scope. What a kernel is given says which one it is in both cases.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from msprobe.base.names import KERNEL, PARAMETER
from msprobe.compare.core.tensor import Source, source_of

from .call_keys import Side


@dataclass(frozen=True, slots=True)
class _Made:
    """What a call of a dump made: the call's index, and the path of the result."""

    by: int
    path: tuple[str, ...]


_Given = tuple[Source | _Made | None, ...]
"""By record of a kernel: what gave it; None for what a call without a pair made."""


def pair_nodes(target: Side, golden: Side, known: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of kernels and of parameters, besides those that are known (golden call by target call); no other
    calls.

    The two of a pair have one scope, the same shapes and arguments, and are given the same parameters and results of
    kernels that are a pair. Of several the one of the same name is taken, else none. Where results of kernels without a
    pair are given, only the whole name says which one is meant. What is not told by this is left to an alignment.
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
    """What a call of the target is given, as the golden would say it."""
    return tuple(
        [
            one if not isinstance(one, _Made) else _Made(golden_of[one.by], one.path) if one.by in golden_of else None
            for one in given
        ]
    )


def _may_be_given(mine: _Given, theirs: _Given, target_of: Mapping[int, int]) -> bool:
    """Return whether what two calls are given is the same as far as it is known: results without a pair may be
    anything."""
    return all(
        a == b if a is not None else isinstance(b, _Made) and b.by not in target_of
        for a, b in zip(mine, theirs, strict=True)
    )
