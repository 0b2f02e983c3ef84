"""Attributes replaced all at once."""

from types import ModuleType

import pytest

from msprobe.base import patches

INHERITED = object()


def swap(owner, found, wanted):
    return patches.swap(owner, found, wanted, INHERITED)


class Above:
    def __call__(self):
        return "above"

    def __len__(self):
        return 1

    def inherited(self):
        return "above"


def class_of(**members):
    class Own(Above):
        def __call__(self):
            return "own"

        own = "own"

    for name, value in members.items():
        setattr(Own, name, value)
    return Own


def test_the_variables_of_a_module():
    module = ModuleType("m")
    module.a, module.b, module.c = 1, 2, 3
    assert swap(module, {"a": 1, "b": 2}, {"a": "x", "b": "y"}) is True
    assert (module.a, module.b, module.c) == ("x", "y", 3)


@pytest.mark.parametrize("make", [lambda: ModuleType("m"), class_of], ids=["module", "class"])
def test_nothing_is_replaced_where_one_is_not_as_it_was_found(make):
    owner = make()
    owner.a, owner.b = 1, "somebody's"
    assert swap(owner, {"a": 1, "b": 2}, {"a": "x", "b": "y"}) is False
    assert (owner.a, owner.b) == (1, "somebody's")
    assert swap(owner, {"missing": 1}, {"missing": 2}) is False
    assert swap(owner, {"b": INHERITED}, {"b": 2}) is False
    assert not hasattr(owner, "missing")


def test_what_a_class_inherits_stands_in_it_for_a_while():
    owner = class_of()
    of_below = type("Below", (owner,), {})
    assert of_below().inherited() == "above"
    before, ours = {"inherited": INHERITED, "own": "own"}, {"inherited": lambda self: "ours", "own": "ours"}
    assert swap(owner, before, ours)
    assert (of_below().inherited(), of_below.own) == ("ours", "ours")
    assert swap(owner, ours, before)
    assert (of_below().inherited(), of_below.own) == ("above", "own")
    assert "inherited" not in vars(owner)


def test_methods_that_python_itself_calls():
    owner = class_of()
    below, call = type("Below", (owner,), {})(), vars(owner)["__call__"]
    ours = {"__call__": lambda self: "ours", "__len__": lambda self: 7}
    assert (below(), len(below)) == ("own", 1)
    assert swap(owner, {"__call__": call, "__len__": INHERITED}, ours)
    assert (below(), len(below)) == ("ours", 7)
    assert swap(owner, ours, {"__call__": call, "__len__": INHERITED})
    assert (below(), len(below)) == ("own", 1)
    assert "__len__" not in vars(owner)


def test_methods_that_come_from_c():
    """Their slot changes with what stands there."""
    owner = type("Own", (list,), {"__contains__": list.__contains__})
    ours = {"__len__": lambda self: 7, "__contains__": lambda self, value: True}
    assert swap(owner, {"__len__": INHERITED, "__contains__": list.__contains__}, ours)
    assert (len(owner()), 3 in owner()) == (7, True)
    assert swap(owner, ours, {"__len__": INHERITED, "__contains__": list.__contains__})
    assert (len(owner()), 3 in owner()) == (0, False)


def test_a_metaclass_that_sees_every_assignment_is_asked():
    seen = []

    class Meta(type):
        def __setattr__(cls, name, value):
            seen.append(name)
            super().__setattr__(name, value)

        def __delattr__(cls, name):
            seen.append(f"no {name}")
            super().__delattr__(name)

    owner = Meta("Own", (Above,), {"a": 1})
    assert swap(owner, {"a": 1, "inherited": INHERITED}, {"a": 2, "inherited": 3})
    assert swap(owner, {"a": 2, "inherited": 3}, {"a": 1, "inherited": INHERITED})
    assert seen == ["a", "inherited", "a", "no inherited"]
    assert (owner.a, "inherited" in vars(owner)) == (1, False)
