"""How code refers to what it calls, and which of several names of a function a call is recorded by."""

import sys
from functools import partial
from types import ModuleType

import pytest

from msprobe.cell_dump.call_sites import CallSites, Name, Users, reference_at

pytestmark = pytest.mark.mindspore

OUTER, INNER = ModuleType("outer"), ModuleType("outer.inner")
OUTER.inner = INNER
has_columns = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not know columns")


def function(*args, **kwargs):
    """Note by which reference it is called."""
    frame = sys._getframe(1)
    found.append(reference_at(frame.f_code, frame.f_lasti))
    return function


found = []
INNER.call = OUTER.call = function


def referred(text, **names):
    """The references of the calls of `function` in some code, as text; `?` where it is something else."""
    found.clear()
    code = compile(f"def run():\n    {text}\n", "<code>", "exec")
    space = {"function": function, "outer": OUTER, "inner": INNER, "partial": partial, **names}
    exec(code, space)
    for _ in range(30):  # from 3.11 on calls that are repeated become other instructions
        found.clear()
        space["run"]()
    return [("" if each.is_global else "local ") + ".".join(each.chain or "?") for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("function(1)", ["function"]),
        ("outer.call(1, a=2)", ["outer.call"]),
        ("outer.inner.call(outer, [outer.inner])", ["outer.inner.call"]),
        ("import outer.inner as f; f.call(1)", ["local f.call"]),
        ("f = outer.call; f(1)", ["local f"]),
        ("return outer.inner.call(\n        1,\n        2)", ["outer.inner.call"]),
        ("outer.call(*[1], **{})", ["outer.call"]),
        ("outer.call(1)(2)", ["outer.call", "local ?"]),
        ("inner.call(outer.call(1), outer.call)", ["outer.call", "inner.call"]),
        pytest.param("inner.call(1 if outer.call(0) else 2)", ["outer.call", "inner.call"], marks=has_columns),
        ("{0: outer.call}[0](1)", ["local ?"]),
        ("list(map(outer.call, [1]))", ["list"]),
        ("(lambda x: x(1))(outer.call)", ["local x"]),
    ],
)
def test_the_reference_is_read_from_the_code(text, expected, monkeypatch):
    monkeypatch.setitem(sys.modules, "outer", OUTER)
    monkeypatch.setitem(sys.modules, "outer.inner", INNER)
    assert referred(text) == expected


FRAMEWORK, FUNCTIONAL, PRIVATE, LAYERS = map(ModuleType, ["torch", "torch.functional", "torch._C", "torch.layers.conv"])
FRAMEWORK.functional, FRAMEWORK._C = FUNCTIONAL, PRIVATE
NAMES = (Name(FUNCTIONAL, "conv", "Functional.conv"), Name(FRAMEWORK, "conv", "Torch.conv"))
ONE = (Name(FUNCTIONAL, "relu", "Functional.relu"),)


def stem(text, caller, names=NAMES, sites=None):
    """The stem of the one call in some code of a module `caller`."""
    sites, stems = sites or CallSites(Users(layers=("torch.layers.",))), []

    def call(*_):
        stems.append(sites.stem_of(names, 0))

    for module in (FRAMEWORK, FUNCTIONAL, PRIVATE):
        for name in ("conv", "relu"):
            setattr(module, name, call)
    modules = {"torch": FRAMEWORK, "F": FUNCTIONAL, "functional": FUNCTIONAL, "conv": call, "relu": call}
    space = {"__name__": caller, **modules}
    exec(compile(f"def run():\n    {text}\n", "<code>", "exec"), space)
    for _ in range(3):
        space["run"]()
    assert len(set(stems)) == 1
    assert len(stems) == 3
    return stems[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.conv(1)", "Torch.conv"),
        ("F.conv(1)", "Functional.conv"),
        ("torch.functional.conv(1)", "Functional.conv"),
        ("f = torch.conv; f(1)", "Torch.conv"),
        ("import torch as t; t.conv(1)", "Torch.conv"),
        ("conv(1)", "Functional.conv"),  # both are called so: the first namespace
        ("torch._C.conv(1)", "Functional.conv"),
        ("[torch.conv][0](1)", "Functional.conv"),
    ],
)
def test_a_call_of_the_training_has_the_name_that_was_written(text, expected, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", FRAMEWORK)
    assert stem(text, "__main__") == expected


@pytest.mark.parametrize(
    ("text", "caller", "expected"),
    [
        ("relu(1)", "torch.optim.sgd", None),  # what it has imported for itself
        ("torch._C.relu(1)", "torch.optim.sgd", None),
        ("F.relu(1)", "torch.optim.sgd", "Functional.relu"),  # by its public name
        ("relu(1)", "torch.layers.conv", "Functional.relu"),  # layers are users
        ("torch._C.relu(1)", "torch.layers.conv", None),
        ("f = F.relu; f(1)", "torch.optim.sgd", "Functional.relu"),
        ("(lambda f: f(1))(relu)", "torch.utils.checkpoint", "Functional.relu"),  # somebody has passed it
        ("relu(1)", "torchvision.ops", "Functional.relu"),  # another package
    ],
)
def test_what_a_framework_calls_for_itself_is_not_recorded(text, caller, expected):
    assert stem(text, caller, ONE) == expected


def test_a_name_that_is_not_wanted_is_not_recorded():
    names = (Name(FUNCTIONAL, "conv", None), Name(FRAMEWORK, "conv", "Torch.conv"))
    assert stem("F.conv(1)", "__main__", names) is None
    assert stem("torch.conv(1)", "__main__", names) == "Torch.conv"
    assert stem("conv(1)", "__main__", names) == "Torch.conv"


def test_code_that_is_made_and_dropped_is_not_taken_for_other_code():
    """New code objects stand where old ones stood in memory."""
    sites = CallSites(Users(layers=()))
    for _ in range(50):
        for text, expected in (("torch.conv(1)", "Torch.conv"), ("F.conv(1)", "Functional.conv")):
            assert stem(text, "__main__", sites=sites) == expected
