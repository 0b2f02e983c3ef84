"""`base/nested.py`: other objects in the places of leaves. How values are read is tested in `end_to_end/odd_values`."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from msprobe.base.nested import with_replaced


class Pair(NamedTuple):
    left: object
    right: object


@dataclass(frozen=True)
class Frozen:
    value: object
    others: dict = field(default_factory=dict)


class Output(OrderedDict):
    """As the results of a library: a dict whose members are attributes too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Leaf:
    pass


OLD, NEW, KEPT = Leaf(), Leaf(), Leaf()


def replaced(value):
    return with_replaced(value, {id(OLD): NEW})


def test_a_leaf_is_replaced_and_any_other_is_kept():
    assert replaced(OLD) is NEW
    assert replaced(KEPT) is KEPT
    assert replaced(None) is None


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_sequence_has_the_other_leaf_and_its_type(kind):
    value = kind([KEPT, OLD, OLD])
    assert replaced(value) == kind([KEPT, NEW, NEW])
    assert type(replaced(value)) is kind
    assert value == kind([KEPT, OLD, OLD]), "the caller's container is not changed"


def test_named_tuples_dataclasses_and_dicts():
    assert replaced(Pair(OLD, KEPT)) == Pair(NEW, KEPT)
    assert replaced(Frozen(OLD, {"a": KEPT})) == Frozen(NEW, {"a": KEPT})
    assert replaced({"a": OLD, 1: KEPT}) == {"a": NEW, 1: KEPT}
    output = Output()
    output["hidden"], output["loss"] = OLD, KEPT
    made = replaced(output)
    assert type(made) is Output
    assert (made["hidden"], made.hidden, made["loss"]) == (NEW, NEW, KEPT)
    assert output["hidden"] is OLD


def test_only_containers_on_the_way_are_copied():
    inner, other = [OLD], [KEPT]
    value = {"a": (inner, other)}
    made = replaced(value)
    assert made == {"a": ([NEW], [KEPT])}
    assert made["a"][1] is other
    assert replaced(other) is other


def test_a_container_inside_itself_is_left():
    value = [OLD]
    value += [value, value]
    made = replaced(value)
    assert made[0] is NEW
    assert made[1] is made[2] is value
