"""Which layers a fused layer is made of: the shapes of their weights make up its own."""

import pytest

from msprobe.compare.match.fused import _slices


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
