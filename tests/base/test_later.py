"""A face that loads its names when they are asked for."""

import sys
from types import ModuleType

import pytest

from msprobe.base.lazy import lazy_attributes


@pytest.fixture
def lazy_module(monkeypatch):
    made = ModuleType("a_face")
    made.__getattr__ = lazy_attributes("a_face", {"sqrt": "math", "gone": "math", "absent": "no_such_module_at_all"})
    monkeypatch.setitem(sys.modules, "a_face", made)
    return made


def test_a_name_is_loaded_once_and_kept(lazy_module):
    import math

    assert "sqrt" not in vars(lazy_module)
    assert lazy_module.sqrt is math.sqrt
    assert vars(lazy_module)["sqrt"] is math.sqrt


def test_other_names_are_not_there(lazy_module):
    with pytest.raises(AttributeError, match="module 'a_face' has no attribute 'cbrt'"):
        _ = lazy_module.cbrt
    assert not hasattr(lazy_module, "__path__")


def test_what_its_home_raises_comes_through(lazy_module):
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        _ = lazy_module.absent
    with pytest.raises(AttributeError, match="gone"):
        _ = lazy_module.gone


@pytest.fixture
def without(monkeypatch):
    """A face of what needs a package that is not installed, and of what needs another one."""
    source = ModuleType("a_home")
    made = ModuleType("a_face")
    homes = {"collect": "no_such_framework", "other": "no_such_module_at_all", "here": "a_home"}
    made.__getattr__ = lazy_attributes("a_face", homes, needs="no_such_framework")
    source.here = 1
    monkeypatch.setitem(sys.modules, "a_home", source)
    monkeypatch.setitem(sys.modules, "a_face", made)
    return made


def test_what_to_install_is_said_where_the_framework_is_missing(without):
    with pytest.raises(ModuleNotFoundError, match=r"a_face\.collect needs no_such_framework.*pip install") as raised:
        exec("from a_face import collect")  # as users write it
    assert raised.value.name == "no_such_framework"
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_module_at_all'$"):
        _ = without.other
    assert without.here == 1
