"""Calls by what takes their results, where no module says to which layer they belong.

With a layer more on one side, the first steps of the layer behind it are given what the first steps of the new layer
are given elsewhere, and give the same values. Which layer they belong to is told by the weights further on. The last
steps of the layer before are no such calls: they bring together (add) what several layers gave, or feed what does.
"""

import math
from collections.abc import Callable

from .flow import Flow
from .kinship import STRANGERS
from .roles import Roles
from .score import Evidence
from .side import NONE, Side


def retied(
    evidence: Evidence, roles: tuple[Roles, Roles], calls: list[int], is_weak: Callable[[int], bool]
) -> list[tuple[int, int]]:
    """Calls of the target, the last first, with the golden call that gives to the partners of their takers.

    NONE where several do, or it is taken: the pair that there was is none then. `is_weak` says which may be touched.
    """
    movable = _first_steps(evidence.target, evidence.flows[0], roles[0])
    found = []
    now: dict[int, int] = {}
    freed: set[int] = set()
    given: set[int] = set()
    for a in reversed(calls):
        b = evidence.golden_of[a]
        if evidence.target.names[a].kind != "api" or a not in movable or (b != NONE and not is_weak(a)):
            continue
        givers = _givers(evidence, roles, a, now)
        if not givers or b in givers:
            continue
        free = [g for g in givers if (evidence.target_of[g] == NONE or g in freed) and g not in given]
        new = free[0] if len(givers) == len(free) == 1 else NONE
        if b != NONE:
            freed.add(b)
        if new != b:
            found.append((a, new))
            now[a] = new
            given.add(new)
    return found


def _first_steps(side: Side, flow: Flow, roles: Roles) -> set[int]:
    """Calls without weights whose results reach calls that are given weights, and nothing that brings together.

    What brings together takes tensors of several calls with weights, or of several that bring together themselves.
    """
    weighted: set[int] = set()
    origins: dict[int, frozenset[int]] = {}
    ends: set[int] = set()
    for at in side.forward:
        constants = zip(side.tensors(at).inputs, flow.constant.get(at, ()), strict=False)
        if any(is_constant and math.prod(tensor.shape) > 1 for tensor, is_constant in constants):
            weighted.add(at)
        made = [chains[0][0] for chains in flow.made.get(at, ()) if chains]
        before: frozenset[int] = frozenset().union(*(origins.get(call, frozenset()) for call in made))
        if len(before) > 1 and at not in weighted:
            ends.add(at)
        origins[at] = frozenset((at,)) if at in weighted or at in ends else before
    reaching = set(ends)
    for at in reversed(side.forward):
        if any(taker in reaching and taker not in weighted for taker, _ in roles.takers(at)):
            reaching.add(at)
    return set(side.forward) - weighted - reaching


def _givers(evidence: Evidence, roles: tuple[Roles, Roles], a: int, now: dict[int, int]) -> set[int]:
    """Calls like `a` whose results the partners of its takers take, as the same of their tensors."""
    mine, theirs = evidence.features
    found: set[int] = set()
    for taker, k in roles[0].takers(a):
        partner = now.get(taker, evidence.golden_of[taker])
        inputs = evidence.flows[1].made.get(partner, ())
        if k < len(inputs):
            found |= {call for chain in inputs[k] for call in chain}
    return {
        b
        for b in found
        if evidence.kinship(a, b) > STRANGERS
        and theirs.out_shape[b] == mine.out_shape[a]
        and theirs.in_shapes[b] == mine.in_shapes[a]
    }
