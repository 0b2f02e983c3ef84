"""The first differing call among several ranks, whatever they exchange and however many they are."""

import time
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_stories import named, node

from msprobe.compare.ranks.collectives import Exchange, RankSummary, connect


def test_stories_that_contradict_each_other_are_gone_along_all_the_same():
    """Two exchanges in crossed order, as where one was not recorded on one rank."""
    a, b = Exchange("a", "all", "all_reduce"), Exchange("b", "all", "all_gather")
    stories = {0: RankSummary((a, b), ("", "", "")), 1: RankSummary((b, a), ("", "", ""))}
    layers = connect(stories).layers
    assert set(layers) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert min(layers.values()) >= 1


@pytest.mark.slow
def test_hundreds_of_ranks_are_searched_in_seconds_and_little_memory():
    """Every rank hands on what rank 200 began between its reductions 300 and 301."""
    stories = {}
    for rank in range(256):
        exchanges = tuple(
            Exchange(
                f"all_reduce.{n}",
                "all",
                "all_reduce",
                input_differs=n > 301 or (n == 301 and rank == 200),
                result_differs=n >= 301,
            )
            for n in range(400)
        )
        between = [""] * 401
        between[302:] = ["mul"] * 99
        if rank == 200:
            between[301] = "add"
        stories[rank] = RankSummary(exchanges, tuple(between), (node("add"), node("all_reduce.301"), node("mul")))
    tracemalloc.start()
    start = time.perf_counter()
    found = named(stories)
    seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [(200, "add")]
    assert seconds < 30
    assert peak < 300e6


class Training:
    """Ranks that compute and exchange in one order; what is wrong is handed on, and the true origins are known."""

    def __init__(self, ranks):
        self.is_wrong = [False] * ranks
        self.exchanges = [[] for _ in range(ranks)]
        self.between = [[""] for _ in range(ranks)]
        self.origins = []
        self.count = 0

    def compute(self, rank, is_fault):
        self.count += 1
        name = f"call {self.count}"
        if is_fault and not self.is_wrong[rank]:
            self.origins.append((rank, name))
            self.is_wrong[rank] = True
        if self.is_wrong[rank] and not self.between[rank][-1]:
            self.between[rank][-1] = name

    def exchange(self, ranks, traffic, root):
        group = tuple(ranks)
        sources = [rank for rank in ranks if traffic in ("all", "to_one") or rank == root]
        was_wrong = list(self.is_wrong)
        for rank in ranks:
            made = Exchange(f"{traffic} {len(self.exchanges[rank])}", traffic, traffic, group, root)
            if made.takes(rank):
                self.is_wrong[rank] = any(was_wrong[source] for source in sources)
            self._add(rank, made, was_wrong[rank], self.is_wrong[rank])

    def message(self, sender, receiver):
        self._add(sender, Exchange("send", "send", "send", None, receiver), self.is_wrong[sender], False)
        self.is_wrong[receiver] = self.is_wrong[sender]
        made = Exchange(f"recv {len(self.exchanges[receiver])}", "receive", "send", None, sender)
        self._add(receiver, made, True, self.is_wrong[receiver])

    def _add(self, rank, exchange, argument, result):
        self.exchanges[rank].append(replace(exchange, input_differs=argument, result_differs=result))
        self.between[rank].append("")

    def stories(self):
        names = [
            {e.name for e in made} | {*between} for made, between in zip(self.exchanges, self.between, strict=True)
        ]
        return {
            rank: RankSummary(tuple(made), tuple(self.between[rank]), tuple(map(node, names[rank])))
            for rank, made in enumerate(self.exchanges)
        }


@given(st.data())
def test_only_what_differs_by_itself_is_named_whatever_the_ranks_exchange(data):
    ranks = data.draw(st.integers(2, 5))
    training = Training(ranks)
    one = st.integers(0, ranks - 1)
    for _ in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["compute", "compute", "all", "from_one", "to_one", "message"]))
        if what == "compute":
            training.compute(data.draw(one), data.draw(st.integers(0, 5)) == 0)
            continue
        group = data.draw(st.lists(one, min_size=2, max_size=ranks, unique=True))
        if what == "message":
            training.message(*group[:2])
        else:
            training.exchange(sorted(group), what, -1 if what == "all" else group[0])
    found = named(training.stories())
    assert set(found) <= set(training.origins)
    assert bool(found) == bool(training.origins)
    if len(training.origins) == 1:
        assert found == training.origins
