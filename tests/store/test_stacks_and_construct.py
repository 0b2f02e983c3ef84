"""The calls around each call, as construct.json has them."""

import pytest

from msprobe.store.stacks_and_construct import MAX_ENCLOSING, enclosing


@pytest.mark.timeout(20)
def test_cells_that_enclose_each_other_are_cut_once():
    """Each way upwards ends; calls outside the circle keep their cells."""
    found = enclosing({"a": "b", "b": "a", "call": "a", "itself": "itself"})
    assert found == {"a": "b", "b": None, "call": "a", "itself": None}


def test_a_micro_step_next_to_the_parent_is_left_out():
    assert enclosing({"call": ["cell", 1], "cell": None, "odd": 3}) == {"call": "cell", "cell": None}


def test_more_cells_than_any_network_has_are_cut():
    found = enclosing({str(n): str(n + 1) for n in range(2 * MAX_ENCLOSING)})
    deepest, name = 0, "0"
    while name is not None and found.get(name) is not None:
        deepest, name = deepest + 1, found[name]
    assert 0 < deepest <= MAX_ENCLOSING
