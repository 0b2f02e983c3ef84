"""Alignment of two sequences: a common subsequence, and a long one."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.align import align

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


def test_far_apart_edits_are_all_found():
    right = list("abcab" * 4000)
    left = list(right)
    for at in range(0, len(left), 50):
        left.insert(at, "X")
    assert len(align(left, right)) == len(right)


def test_twenty_thousand_unlike_calls_take_seconds_not_minutes():
    start = time.process_time()
    assert align(list("abcd" * 5_000), list("efgh" * 5_000)) == []
    assert time.process_time() - start < 20
