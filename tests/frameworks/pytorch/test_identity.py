"""While PyTorch's functions are recorded each name holds the same object, and nothing of it looks different."""

import copy
import functools
import inspect
import io
import multiprocessing
import pickle
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import getattr_static
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import conv2d as imported
from torch.utils.checkpoint import checkpoint

from msprobe.base import in_place
from msprobe.cell_dump.functions import register_custom_api, restore_custom_api
from msprobe.frameworks.pytorch.functions import functions

pytestmark = pytest.mark.torch

REPLACED = {"__abs__", "__getitem__", "__itruediv__", "__neg__", "__pos__", "__rtruediv__", "__setitem__"}
"""Operators of Tensor that are other objects while they are recorded: two slots, and second names of methods."""

PAGE = Path(__file__).parents[3] / "docs" / "en" / "reference" / "support.md"


def by_names():
    return {
        (owner.__name__, name): getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)
        for owner, name, _ in functions()
    }


def forward(dump):
    return [name.removesuffix(".forward") for name in dump.data if name.endswith(".forward")]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_every_name_holds_the_same_object_but_for_these(level, collecting):
    before, debugger = by_names(), collecting(level=level)
    debugger.start(nn.ReLU())
    during = by_names()
    debugger.stop()
    others = {place for place, value in before.items() if during[place] is not value}
    assert others == {("Tensor", name) for name in REPLACED}
    assert by_names() == before
    text = f"{len(before) - len(others):,} of {len(before):,} names"
    assert text in PAGE.read_text(), f"the page must say: {text}"


def test_a_function_looks_the_same(collecting):
    def facts(function):
        signature = str(inspect.signature(function)) if inspect.isfunction(function) else None
        source = inspect.getsource(function) if inspect.isfunction(function) else None
        names = [getattr(function, f"__{name}__", None) for name in ("name", "qualname", "module", "doc", "self")]
        return [signature, source, *names, repr(function), hash(function)]

    every = [f for f in by_names().values() if not hasattr(f, "__wrapped__")]
    before, debugger = list(map(facts, every)), collecting(level="L1")
    debugger.start()
    during = list(map(facts, every))
    debugger.stop()
    assert during == before
    assert sum(inspect.isfunction(f) for f in every) > 100
    assert list(map(facts, every)) == before


def test_what_holds_a_function_may_be_copied_and_pickled_meanwhile(collecting):
    class Holds:
        pass

    holder = Holds()
    holder.acts = {F.gelu: F.relu, torch.tanh: torch.Tensor.add}
    debugger = collecting(level="L1")
    debugger.start()
    copied, pickled = copy.deepcopy(holder).acts, pickle.loads(pickle.dumps(holder.acts))
    file = io.BytesIO()
    torch.save(holder.acts, file)
    debugger.stop()
    file.seek(0)
    assert holder.acts == copied == pickled == torch.load(file, weights_only=False)
    assert [f is g for f, g in zip(pickled, holder.acts, strict=True)] == [True, True]


def test_calls_by_every_kind_of_reference_are_recorded(collecting, dumped):
    class Kind:
        act = F.gelu  # of C: a class does not bind it
        static = staticmethod(F.silu)

    def closing(f):
        return lambda x: f(x)

    def default(x, f=F.elu):
        return f(x)

    table, closed, part = {"act": torch.tanh}, closing(F.relu6), functools.partial(F.leaky_relu, negative_slope=0.1)
    x = torch.randn(2, 3, requires_grad=True)
    bound, method = torch.exp.__call__, torch.Tensor.sigmoid
    debugger = collecting(level="L1")
    debugger.start()
    Kind.act(x), Kind().static(x), table["act"](x), closed(x), default(x), part(x), bound(x), method(x)
    later = x.cos
    later(), list(map(torch.sin, [x])), checkpoint(F.softplus, x, use_reentrant=False), torch.vmap(F.mish)(x)
    debugger.stop()
    later(), torch.tanh(x)
    debugger.step()
    names = ["gelu", "silu", "tanh", "relu6", "elu", "leaky_relu", "exp", "sigmoid", "cos", "sin", "softplus", "mish"]
    assert [name.split(".")[1] for name in forward(dumped(debugger))] == names


def test_a_function_with_two_names_is_recorded_by_the_one_that_was_written(collecting, dumped):
    assert torch.conv2d is F.conv2d is imported, "otherwise this test says nothing"
    x, w = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)
    debugger = collecting(level="L1")

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv2d, self.f = torch.conv2d, F.conv2d

        def forward(self, x):
            return self.f(self.conv2d(x, w), w)

    debugger.start()
    for _ in range(3):
        torch.conv2d(x, w)
        F.conv2d(torch.conv2d(x, w), w)
        torch.nn.functional.conv2d(x, w)
        imported(x, w)
        local = torch.conv2d
        local(x, w)
    nn.Conv2d(1, 1, 2)(x)
    Layer()(x)
    torch._VF.rnn_tanh_cell(*[torch.ones(2, 2)] * 4)
    torch.rnn_tanh_cell(*[torch.ones(2, 2)] * 4)
    debugger.stop()
    debugger.step()
    found = [name.rpartition(".")[0] for name in forward(dumped(debugger)) if "conv2d" in name or "rnn" in name]
    turn = ["Torch.conv2d", "Torch.conv2d", *["Functional.conv2d"] * 3, "Torch.conv2d"]
    assert found == [*turn * 3, *["Functional.conv2d"] * 3, "VF.rnn_tanh_cell", "Torch.rnn_tanh_cell"]


def test_private_calls_of_the_framework_are_not_recorded(collecting, dumped):
    """`torch.distributions` imports functions for itself; `torch.optim` and `nn.init` call public names."""
    x = torch.ones(3, requires_grad=True)
    bernoulli = torch.distributions.Bernoulli(logits=x)
    debugger = collecting(level="L1")
    debugger.start()
    bernoulli.log_prob(torch.ones(3)).sum()
    debugger.stop()
    debugger.step()
    # binary_cross_entropy_with_logits is such a function; what else it calls are methods and `torch.` names
    assert "Functional.binary_cross_entropy_with_logits.0" not in forward(dumped(debugger))
    assert forward(dumped(debugger))[-1] == "Tensor.sum.0"


def test_second_names_of_operators_are_recorded_by_their_own_names(collecting, dumped):
    x, debugger = torch.ones(3), collecting(level="L1")
    debugger.start()
    -x, x.neg(), +x, abs(x), x.abs(), 2 / x, x[0]
    x /= 2
    debugger.stop()
    debugger.step()
    names = ["__neg__", "neg", "__pos__", "__abs__", "abs", "__rtruediv__", "__getitem__", "__itruediv__"]
    assert [name.split(".")[1] for name in forward(dumped(debugger))] == names


def test_other_threads_and_processes_have_the_functions_as_they_are(collecting):
    x, debugger = torch.ones(3), collecting(level="L1")
    debugger.start()
    with ThreadPoolExecutor(2) as pool:
        assert [float(each.sum()) for each in pool.map(F.relu, [x] * 20)] == [3.0] * 20
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(torch.is_tensor, (F.gelu,)).get(60) is False
        assert pool.apply_async(F.relu, (x,)).get(60).tolist() == [1.0] * 3
    debugger.stop()


def test_registered_functions_are_the_same_objects_too(collecting, dumped, monkeypatch):
    def doubled(x):
        return x * 2

    class Kernel:
        def __call__(self, x):
            return x + 1

    here = sys.modules[__name__]
    monkeypatch.setattr(here, "doubled", doubled, raising=False)
    monkeypatch.setattr(here, "kernel", Kernel(), raising=False)
    kernel, table = here.kernel, {doubled: 1}
    for name in ("doubled", "kernel"):
        register_custom_api(here, name, "My")
    debugger = collecting(level="L1")
    try:
        debugger.start()
        assert here.doubled is doubled
        assert table[here.doubled] == 1
        assert here.kernel is not kernel, "an instance of a class is replaced at its name"
        doubled(torch.ones(1))
        here.kernel(torch.ones(1))
        debugger.stop()
        debugger.step()
    finally:
        for name in ("doubled", "kernel"):
            restore_custom_api(here, name)
    assert here.kernel is kernel
    assert [n for n in forward(dumped(debugger)) if n.startswith("My.")] == ["My.doubled.0", "My.kernel.0"]


def test_without_the_extension_functions_of_c_are_recorded_at_their_names_and_this_is_said(
    collecting, dumped, monkeypatch, caplog
):
    monkeypatch.setattr(in_place, "extension", None)
    monkeypatch.setattr(in_place, "redirect", in_place._redirect)
    monkeypatch.setattr(in_place, "_replaceables", {})
    x, before, debugger = torch.ones(3), by_names(), collecting(level="L1")
    w, image = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 3, 3)
    debugger.start()
    same = [value for place, value in by_names().items() if before[place] is value]
    torch.exp(x), F.relu(x), x.sin(), F.conv2d(image, w), torch.conv2d(image, w)
    debugger.stop()
    debugger.step()
    assert {type(value).__name__ for value in same} == {"function"}
    assert f"{len(before) - len(same):,} names of PyTorch" in PAGE.read_text()
    assert by_names() == before
    names = ["Torch.exp.0", "Functional.relu.0", "Tensor.sin.0", "Functional.conv2d.0", "Torch.conv2d.0"]
    assert forward(dumped(debugger)) == names


class Config:
    """Holds a function, as the configurations of many models do."""

    def __init__(self):
        self.act = F.gelu


FUSED = {F.gelu: 2.0, torch.tanh: 3.0}
SUPPORTED = (F.relu, torch.conv2d, F.gelu)


def kinds_of_tests():
    """One function for each way in which code may look at a function instead of calling it."""
    config, held = Config(), F.gelu

    class Kind:
        act = F.silu

    def default(function=F.silu):
        return function

    part = functools.partial(F.leaky_relu, negative_slope=0.2)
    return {
        "attribute of a configuration": lambda: config.act is F.gelu,
        "class attribute": lambda: Kind.act is F.silu,
        "default argument": lambda: default() is F.silu,
        "key of a dict": lambda: FUSED.get(F.gelu, 0.5) == 2.0,
        "closure": lambda: held is F.gelu,
        "member of a tuple": lambda: F.relu in SUPPORTED and torch.conv2d in SUPPORTED,
        "partial": lambda: part.func is F.leaky_relu,
        "another name": lambda: torch.conv2d is F.conv2d and torch._VF.lstm is torch.lstm,
        "method": lambda: torch.Tensor.add is getattr_static(torch.Tensor, "add") is ADD,
        "name of the function": lambda: re.match(r"<built-in function gelu>|<function gelu", repr(F.gelu)) is not None,
    }


ADD = torch.Tensor.add


@pytest.mark.parametrize("kind", kinds_of_tests())
def test_code_that_looks_at_a_function_takes_the_same_branch(kind, collecting):
    holds, debugger = kinds_of_tests()[kind], collecting(level="L1")
    assert holds()
    debugger.start()
    during = holds()
    debugger.stop()
    assert during
