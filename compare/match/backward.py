"""Backward calls: each belongs where its forward call belongs, in whatever order backward ran."""

from bisect import bisect

from .pairing import Pairing


def follow_forward(pairing: Pairing) -> None:
    """Pair the backward calls of paired forward calls, also where backward ran in another order.

    A backward call may have the number of its forward, or of the forward's recomputation, or one that counts backward
    calls: so a pair that looks alike is given up only for one that looks alike too.
    """
    target, golden = pairing.target, pairing.golden
    is_changed = False
    for i in range(len(target)):
        forward = target.forward_of(i)
        if forward is None or (partner := pairing.golden_of[forward]) < 0:
            continue
        j = golden.backward_of(partner)
        if j is None or pairing.golden_of[i] == j or target.place(i) != golden.place(j):
            continue
        if target.look(i) == golden.look(j) or not (
            _looks_paired(pairing, i) or _looks_paired(pairing, pairing.target_of[j])
        ):
            pairing.part(i)
            pairing.part(pairing.target_of[j])
            pairing.join_anywhere(i, j)
            is_changed = True
    if is_changed:
        _part_what_crosses(pairing)
        pairing.fill_by_alignment()


def _part_what_crosses(pairing: Pairing) -> None:
    """Undo pairs of backward calls that cross others although their forward calls are no pair."""
    doubtful = [
        (i, j)
        for i, j in enumerate(pairing.golden_of)
        if j >= 0 and pairing.target.name(i).direction == "backward" and forwards_differ(pairing, i, j)
    ]
    pairing.rechain(without=dict(doubtful))
    for i, j in doubtful:
        at = bisect(pairing.chain, (i, j))
        if (at and pairing.chain[at - 1][1] > j) or (at < len(pairing.chain) and pairing.chain[at][1] < j):
            pairing.part(i)
    pairing.rechain()


def _looks_paired(pairing: Pairing, i: int) -> bool:
    """Whether target call i (-1: none) has a partner that looks like it."""
    if i < 0 or (j := pairing.golden_of[i]) < 0:
        return False
    return pairing.target.look(i) == pairing.golden.look(j)


def forwards_differ(pairing: Pairing, i: int, j: int) -> bool:
    """Whether both backward calls have forward calls, and those are no pair."""
    left, right = pairing.target.forward_of(i), pairing.golden.forward_of(j)
    return left is not None and right is not None and pairing.golden_of[left] != right
