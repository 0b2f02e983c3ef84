"""Align two sequences of keys: which item of one side corresponds to which item of the other.

A longest common subsequence by Myers' greedy O((n + m) d) algorithm (E. Myers, "An O(ND) Difference Algorithm and Its
Variations", 1986): fast if the sequences are similar, as those of two runs of one network are. If they have little in
common it would be quadratic, so after `WINDOW` edits the path that came furthest is kept and the search starts again
from its end; the cost remains linear in the length, and the result is still a common subsequence, if not always the
longest.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

WINDOW = 200
"""Number of edits that are searched together; a search costs at most about WINDOW ** 2 steps."""

Indices = list[tuple[int, int]]


def align(left: Sequence[Hashable], right: Sequence[Hashable]) -> Indices:
    """Return index pairs of equal items, both indices increasing.

    Items of one side only are left out first: two sequences with nothing in common cost nothing. Items that occur once
    on each side (most cells do) are joined next and divide the rest into short pieces.
    """
    ids: dict[Hashable, int] = {}
    left_ids = [ids.setdefault(key, len(ids)) for key in left]
    right_ids = [ids.setdefault(key, len(ids)) for key in right]
    if left_ids == right_ids:
        return [(i, i) for i in range(len(left_ids))]
    in_left, in_right = set(left_ids), set(right_ids)
    left_at = [i for i, key in enumerate(left_ids) if key in in_right]
    right_at = [j for j, key in enumerate(right_ids) if key in in_left]
    found = _align([left_ids[i] for i in left_at], [right_ids[j] for j in right_at])
    return [(left_at[i], right_at[j]) for i, j in found]


def _align(left: list[int], right: list[int]) -> Indices:
    # Items that occur exactly once on both sides: the longest chain in which both indices increase.
    in_left, in_right = Counter(left), Counter(right)
    where = {key: j for j, key in enumerate(right) if in_right[key] == 1}
    unique = longest_chain([(i, where[key]) for i, key in enumerate(left) if in_left[key] == 1 and key in where])
    found: Indices = []
    i = j = 0
    for a, b in [*unique, (len(left), len(right))]:
        found += [(i + x, j + y) for x, y in _piece(left[i:a], right[j:b])]
        if a < len(left):
            found.append((a, b))
        i, j = a + 1, b + 1
    return found


def longest_chain(pairs: Indices) -> Indices:
    """Return the largest subset of pairs in which both indices increase, if the left index does (patience sorting, O(n
    log n))."""
    tops: list[int] = []
    top_at: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        place = bisect_left(tops, j)
        before.append(top_at[place - 1] if place else -1)
        tops[place : place + 1] = [j]
        top_at[place : place + 1] = [at]
    chain: Indices = []
    at = top_at[-1] if top_at else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    chain.reverse()
    return chain


def common_ends(n: int, m: int, same: Callable[[int, int], bool]) -> tuple[int, int]:
    """Return the number of items that two sequences of these lengths share at the beginning, and at the end."""
    shorter = min(n, m)
    head = next((at for at in range(shorter) if not same(at, at)), shorter)
    tails = range(shorter - head)
    return head, next((at for at in tails if not same(n - 1 - at, m - 1 - at)), len(tails))


def _piece(left: list[int], right: list[int]) -> Indices:
    n, m = len(left), len(right)
    head, tail = common_ends(n, m, lambda i, j: left[i] == right[j])
    found = [(i, i) for i in range(head)]
    i, j = head, head
    while i < n - tail and j < m - tail:
        matched, i, j = _search(left, right, i, j, n - tail, m - tail)
        found += matched
    return found + [(n - x, m - x) for x in range(tail, 0, -1)]


def _search(left: list[int], right: list[int], i: int, j: int, n: int, m: int) -> tuple[Indices, int, int]:
    """Return the shortest edit path from (i, j), followed to (n, m) or through `WINDOW` edits: its matches and its
    end."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    width, height = n - i, m - j
    for d in range(WINDOW + 1):
        trace.append(dict(furthest))
        furthest = {}
        for k in range(-d, d + 1, 2):
            x, _ = _entry(trace[d], d, k)
            y = x - k
            while x < width and y < height and left[i + x] == right[j + y]:
                x += 1
                y += 1
            furthest[k] = x
            if x >= width and y >= height:
                return _walk_back(trace, d, width, height, i, j), n, m
    k = max((k for k, x in furthest.items() if x <= width and x - k <= height), key=lambda k: 2 * furthest[k] - k)
    x = furthest[k]
    return _walk_back(trace, WINDOW, x, x - k, i, j), i + x, j + x - k


def _entry(before: dict[int, int], d: int, k: int) -> tuple[int, bool]:
    """Return where diagonal k is entered by edit d, and whether from above (skip an item of the right) or from the
    left."""
    is_above = k == -d or (k != d and before[k - 1] < before[k + 1])
    return (before[k + 1] if is_above else before[k - 1] + 1), is_above


def _walk_back(trace: list[dict[int, int]], d: int, x: int, y: int, i: int, j: int) -> Indices:
    found: Indices = []
    while d >= 0:
        start_x, is_above = _entry(trace[d], d, x - y)
        while x > start_x:
            x -= 1
            y -= 1
            found.append((i + x, j + y))
        x, y = (x, y - 1) if is_above else (x - 1, y)
        d -= 1
    found.reverse()
    return found
