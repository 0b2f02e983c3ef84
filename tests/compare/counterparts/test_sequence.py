"""The alignment of two sequences: as good as any, rising, and silent where several are equally good."""

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.counterparts import alignment
from msprobe.compare.counterparts.alignment import align


def row_of(scores):
    """Rows of a table, as the alignment asks for them."""
    table = np.array(scores, float)
    return lambda i, low, high: table[i, low:high]


def every_alignment(scores):
    """All sets of pairs in which both positions rise and every score is above zero, with their totals."""
    n, m = len(scores), len(scores[0])
    cells = [(i, j) for i in range(n) for j in range(m) if scores[i][j] > 0]
    for size in range(min(n, m) + 1):
        for chosen in combinations(cells, size):
            if all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(chosen)):
                yield set(chosen), sum(scores[i][j] for i, j in chosen)


tables = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda shape: st.lists(
        st.lists(st.sampled_from([-3.0, 0.0, 1.0, 2.0, 2.5, 5.0]), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@given(tables)
def test_a_pair_is_named_when_every_best_alignment_has_it_and_its_margin_is_what_is_lost_without(scores):
    totals = list(every_alignment(scores))
    best = max(total for _, total in totals)
    expected = {}
    for i in range(len(scores)):
        for j in range(len(scores[0])):
            without = max(total for pairs, total in totals if (i, j) not in pairs)
            if without < best:
                expected[i, j] = best - without
    found = {(pair.left, pair.right): pair.margin for pair in align(len(scores), len(scores[0]), row_of(scores))}
    assert found.keys() == expected.keys()
    assert all(abs(found[pair] - margin) < 1e-9 for pair, margin in expected.items())


def test_one_of_two_equal_items_has_no_certain_partner():
    assert align(1, 2, row_of([[3.0, 3.0]])) == []
    assert align(2, 1, row_of([[3.0], [3.0]])) == []


def test_forbidden_pairs_are_never_named():
    assert align(1, 1, row_of([[-np.inf]])) == []
    assert align(0, 5, row_of(np.zeros((0, 5)))) == []


def test_a_band_finds_what_the_whole_table_finds(monkeypatch):
    rng = np.random.default_rng(3)
    left = rng.integers(0, 4, 120)
    right = np.delete(left, [17, 60, 61])
    scores = np.where(left[:, None] == right, 2.0, -1.0) + 0.5 * (rng.random((120, 117)) < 0.02)
    whole = align(120, 117, row_of(scores))
    monkeypatch.setattr(alignment, "WHOLE", 0)
    monkeypatch.setattr(alignment, "BAND", 30)
    assert [(p.left, p.right) for p in align(120, 117, row_of(scores))] == [(p.left, p.right) for p in whole]
    assert len(whole) > 60
