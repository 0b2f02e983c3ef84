"""Alignment of two sequences: a common subsequence, and a long one."""

import time
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.match.alignment import align, longest_chain

words = st.lists(st.sampled_from("abcde"), max_size=25)


def longest_common(left, right):
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(words, words)
def test_what_is_aligned_is_equal_and_in_order(left, right):
    found = align(left, right)
    assert all(left[i] == right[j] for i, j in found)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))


@given(words.map(lambda w: w * 2), words.map(lambda w: w * 2))
def test_without_unique_items_it_is_the_longest(left, right):
    assert len(align(left, right)) == longest_common(left, right)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("", "", []),
        ("abc", "", []),
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("aaXaa", "aaaa", [(0, 0), (1, 1), (3, 2), (4, 3)]),
        ("aabb", "aaYbb", [(0, 0), (1, 1), (2, 3), (3, 4)]),
        ("aXb", "aYb", [(0, 0), (2, 2)]),
    ],
)
def test_by_hand(left, right, expected):
    assert align(left, right) == expected


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)))
def test_the_longest_chain_is_as_long_as_any(order, left_out):
    pairs = [(i, j) for i, j in enumerate(order) if i not in left_out]
    chain = longest_chain(pairs)
    assert set(chain) <= set(pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(chain))
    rising = (
        some
        for size in range(len(pairs), -1, -1)
        for some in combinations(pairs, size)
        if all(a[1] < b[1] for a, b in pairwise(some))
    )
    assert len(chain) == len(next(rising))


def test_what_stands_on_one_side_only_costs_nothing():
    start = time.process_time()
    assert align(range(0, 200_000), range(200_000, 400_000)) == []
    assert time.process_time() - start < 5


def test_items_are_compared_by_value():
    assert align([("a", (1, 2)), ("b", ())], [("b", ()), ("a", (1, 2)), ("b", ())]) == [(0, 1), (1, 2)]


def test_far_apart_edits_are_all_found():
    right = list("abcab" * 4000)
    left = list(right)
    for at in range(0, len(left), 50):
        left.insert(at, "X")
    assert len(align(left, right)) == len(right)


def test_twenty_thousand_calls_in_another_order_take_seconds_not_minutes():
    start = time.process_time()
    found = align(list("abcd" * 5_000), list("dcba" * 5_000))
    assert all("abcd"[i % 4] == "dcba"[j % 4] for i, j in found)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))
    assert len(found) >= 5_000
    assert time.process_time() - start < 20
