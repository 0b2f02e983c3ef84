"""What cannot be judged is refused with a sentence, or said as unjudged; never passed over."""

import numpy as np
import pytest

from msprobe.base.errors import UsageError
from msprobe.compare.rollout.entry import compare_rollout

ROWS = [np.array([-1.0, -2.0, -0.5]), np.array([-0.3, -0.4, -0.1])]
MATRIX = np.full((2, 4), -1.0)

REFUSED = {
    "empty": (([], []), {}, "generated: is empty"),
    "no token": (([[]], [[]]), {}, "no token has"),
    "masked away": (
        (MATRIX, MATRIX),
        {"generated_mask": np.zeros((2, 4)), "recomputed_mask": np.zeros((2, 4))},
        "no token has",
    ),
    "other counts": ((ROWS, ROWS[:1]), {}, "generated has 2 samples, recomputed 1; give the token ids"),
    "positive": (
        (ROWS, [[-1.0, 0.25, -1.0]] * 2),
        {},
        "recomputed: is 0.25 in sample 0 at position 1; a log-prob cannot",
    ),
    "probabilities": (([[0.5, 0.25]], [[0.5, 0.25]]), {}, "appear to be probabilities, pass their logarithms"),
    "matrix alone": ((MATRIX, MATRIX), {}, "give generated_mask, or lengths"),
    "shape of a mask": ((MATRIX, ROWS), {"generated_mask": np.ones((2, 3))}, r"generated_mask: has shape \[2, 3\]"),
    "values of a mask": ((MATRIX, ROWS), {"generated_mask": np.full((2, 4), 0.5)}, "only 0 and 1, or booleans"),
    "mask of a packed side": (
        (MATRIX[0], ROWS),
        {"generated_mask": np.ones(4), "lengths": [2, 2]},
        "omit the mask",
    ),
    "packed alone": ((MATRIX[0], ROWS), {}, r"requires lengths.*np.diff\(cu_seqlens\)"),
    "running sums": ((MATRIX[0], ROWS), {"lengths": [0, 2, 4]}, r"be cumulative sums; pass np.diff\(cu_seqlens\)"),
    "lengths of others": ((MATRIX[0], ROWS), {"lengths": [3, 3]}, "has 4 elements, but lengths add up to 6"),
    "negative lengths": ((MATRIX[0], ROWS), {"lengths": [-1, 5]}, "one non-negative integer"),
    "broken lengths": ((MATRIX, ROWS), {"lengths": [np.nan, 4]}, "one non-negative integer"),
    "bytes": (([np.zeros(3, "V2")], [[0.0] * 3]), {}, r"an array of \|V2 does not contain log-probs"),
    "count of lengths": ((MATRIX, ROWS), {"lengths": [4, 4, 4]}, "has 2 samples, and lengths 3 entries"),
    "count of prompts": ((ROWS, ROWS), {"prompt_lengths": [4]}, "has 2 samples, and prompt_lengths 1 entries"),
    "count of steps": ((ROWS, ROWS), {"steps": [4]}, "steps: has 1 entries for 2 samples"),
    "three axes": ((MATRIX[None], ROWS), {}, "generated: has shape"),
    "rows of matrices": (([MATRIX], ROWS), {}, r"generated\[0\]: has shape \[2, 4\]"),
    "texts": ((["a", "b"], ROWS), {"lengths": [1, 1]}, "does not contain log-probs"),
    "form of tokens": ((ROWS, ROWS), {"generated_tokens": [[1, 2, 3], [4]]}, "must have the shape of generated"),
    "broken tokens": ((ROWS, ROWS), {"generated_tokens": [[1.5, 2, 3]] * 2}, "must be integers"),
    "all NaN": ((ROWS, [[np.nan] * 3] * 2), {}, "2 samples contain NaN"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_meant_is_said(what):
    sides, more, message = REFUSED[what]
    with pytest.raises(UsageError, match=message):
        compare_rollout(*sides, **more)


@pytest.mark.parametrize("broken", [np.nan, -np.inf, np.finfo(np.float32).min, -1e300])
def test_a_sample_with_nan_is_unjudged_and_in_no_number(broken):
    others = [ROWS[0].copy(), ROWS[1]]
    others[0][1] = broken
    result = compare_rollout(ROWS, others)
    assert result.verdict.grade == "unjudged"
    assert not result.is_clean
    assert result.unjudged == (0,)
    assert result.overall.tokens == 3
    assert result.overall.max_absolute == 0
    assert "first sample 0 at position 1" in " ".join(result.evidence)


def test_a_difference_beside_a_nan_is_an_error_all_the_same():
    rng = np.random.default_rng(0)
    rows = [-rng.exponential(1, 30) for _ in range(10)]
    others = [np.append(row[1:], row[:1]) for row in rows]
    others[3] = others[3] * np.nan
    result = compare_rollout(rows, others)
    assert (result.verdict.grade, result.cause, result.unjudged) == ("error", "shift", (3,))


def test_rounding_of_a_log_prob_of_0_is_no_positive_log_prob():
    assert compare_rollout([[1e-7, -1.0]], [[0.0, -1.0]]).cause == "none"


def test_few_tokens_that_differ_are_unclear():
    result = compare_rollout([[-1.0, -2.0]], [[-1.4, -1.9]])
    assert (result.verdict.grade, result.cause) == ("error", "unclear")
