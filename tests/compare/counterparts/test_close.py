"""Statistics that are held to a few others one by one, as numpy holds them to many."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from msprobe.compare.counterparts import score
from msprobe.compare.counterparts.features import INPUTS, SINGLY, close
from msprobe.compare.counterparts.score import Evidence

WITHIN = 1e-3
numbers = st.sampled_from(
    [0.0, -0.0, 1.0, 1.0005, 1.002, -1.0, 1e300, -1e300, float("inf"), float("-inf"), float("nan")]
)
four = st.tuples(numbers, numbers, numbers, numbers)


@given(four, st.lists(four, max_size=SINGLY))
@example((1.0, 0.0, float("nan"), float("nan")), [(1.0, 0.0, float("nan"), float("nan"))])
def test_few_are_judged_as_many(mine, theirs):
    mine, few = np.array(mine), np.array(theirs).reshape(-1, 4)
    many = np.vstack([few, np.full((SINGLY + 1, 4), 5.0)])
    assert close(mine, few, WITHIN).tolist() == close(mine, many, WITHIN)[: len(few)].tolist()


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ((2.0, -1.0, 0.5, 3.0), True),
        ((2.001, -1.0, 0.5, 3.0), True),  # a part of 1e-3 of the largest magnitude, 2
        ((2.003, -1.0, 0.5, 3.0), False),
        ((2.0, -1.0, 0.503, 3.0), False),
        ((2.0, -1.0, 0.5, 3.004), False),  # the norm is held to itself
        ((2.0, -1.0, float("nan"), 3.0), False),
        ((float("nan"),) * 4, False),
    ],
)
@pytest.mark.parametrize("count", [1, SINGLY + 1])
def test_what_is_close(theirs, expected, count):
    mine = np.array((2.0, -1.0, 0.5, 3.0))
    assert close(mine, np.array([theirs] * count), WITHIN).tolist() == [expected] * count


calls = st.tuples(four, st.lists(four, min_size=INPUTS, max_size=INPUTS), st.tuples(*[st.sampled_from([0, 1, 2])] * 4))


@given(calls, st.lists(calls, min_size=1, max_size=SINGLY))
@example(
    ((1.0, -1.0, 0.0, 2.0), [(2.0, 0.0, 1.0, 3.0), (4.0, 0.0, 1.0, 3.0), (0.0,) * 4], (0, 0, 0, 0)),
    [((1.0, -1.0, 0.0, 2.0), [(4.0, 0.0, 1.0, 3.0), (2.0, 0.0, 1.0, 3.0), (0.0,) * 4], (0, 0, 0, 0))],
)
def test_results_and_inputs_of_few_calls_agree_as_those_of_many(mine, theirs):
    evidence = object.__new__(Evidence)
    evidence.features = tuple(
        SimpleNamespace(out=np.array(outs), ins=np.array(ins), digests=np.array(digests))
        for outs, ins, digests in (zip(mine, strict=True), zip(*theirs, strict=True))
    )
    there = np.arange(len(theirs))
    few = evidence.agreement(0, there)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "SINGLY", 0)
        many = evidence.agreement(0, there)
    assert [found.tolist() for found in few] == [found.tolist() for found in many]
