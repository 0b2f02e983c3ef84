"""What is said of integers and booleans that differ: nothing of tolerances, which they do not have."""

import numpy as np
import pytest

from msprobe.compare.core.standard import EXACT, STANDARDS
from msprobe.compare.judge.verdict import judge_measures
from msprobe.compare.judge.wording import statistic_phrase
from msprobe.compare.measure.tensors import measure


def judged(target, golden):
    return judge_measures(measure(target, golden, EXACT), EXACT, target.shape)


def test_integers_that_differ_are_counted_and_the_largest_difference_is_placed():
    golden = np.arange(1024, dtype=np.int32).reshape(32, 32)
    target = golden.copy()
    target[0, 3], target[1, 0], target[31, 31] = 2, 34, 1022  # 3, 32 and 1023 before: 1, 2 and 1 apart
    assert judged(target, golden).grade == "error"
    assert judged(target, golden).reason == (
        "Integers and booleans must be equal: 3 of 1024 elements differ, the largest difference is 2, at [1, 0]."
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (
            np.array([True, False]),
            np.array([True, True]),
            "1 of 2 elements differs, the largest difference is 1, at [1].",
        ),
        (np.array(7), np.array(-5), "1 of 1 elements differs, the largest difference is 12."),
        (np.array([2**31]), np.array([0]), "1 of 1 elements differs, the largest difference is 2147483648, at [0]."),
    ],
)
def test_booleans_scalars_and_large_differences(ours, theirs, message):
    assert judged(ours, theirs).reason == f"Integers and booleans must be equal: {message}"


def test_a_statistic_of_integers_is_beyond_nothing():
    assert statistic_phrase(np.inf, "mean", 2.5, 2.0, EXACT) == "The mean differs: 2.5, golden 2."
    message = statistic_phrase(4.0, "mean", 2.5, 2.0, STANDARDS["float32"])
    assert message == "The mean differs beyond 1.3e-06*|golden| + 1e-05*min(1, max|golden|) by 4 times: 2.5, golden 2."
