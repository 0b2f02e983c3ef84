"""Which layers a fused layer is made of: the shapes of their weights make up its own."""

import numpy as np
import pytest

from msprobe.compare.match.fused import _fit, _slices


@pytest.mark.parametrize(
    ("whole", "parts", "expected"),
    [
        ((12, 4), [(4, 4)] * 3, ["slice(0, 0, 4)", "slice(0, 4, 8)", "slice(0, 8, 12)"]),
        ((4, 9), [(4, 6), (4, 3)], ["slice(1, 0, 6)", "slice(1, 6, 9)"]),
        ((12, 4), [(4, 4)] * 2, []),  # a part is missing
        ((12, 4), [(4, 4)] * 4, []),  # one too many
        ((12, 4), [(6, 4), (6, 5)], []),
        ((12, 4), [(6, 4), None], []),
        (None, [(6, 4), (6, 4)], []),
        ((12, 4), [(12, 4), (12, 4)], []),  # the whole itself
    ],
)
def test_parts_make_up_the_whole_or_are_no_parts(whole, parts, expected):
    assert _slices(whole, parts) == expected


RNG = np.random.default_rng(0)
PARTS = [RNG.standard_normal((4, 3)) for _ in range(3)]


def test_parts_fit_in_the_order_in_which_they_stand():
    whole = np.concatenate(PARTS)
    assert _fit(whole, PARTS)
    assert not _fit(whole, [PARTS[1], PARTS[2], PARTS[0]])


def test_parts_that_drifted_and_one_that_is_another_tensor_fit():
    whole = np.concatenate([1.01 * PARTS[0], PARTS[1], RNG.standard_normal((4, 3))])
    assert _fit(whole, PARTS)


def test_parts_that_stand_row_by_row_do_not_fit():
    assert not _fit(np.stack(PARTS, 1).reshape(12, 3), PARTS)
