"""While MindSpore's functions are recorded each name holds the same object, and nothing of it looks different."""

import copy
import functools
import inspect
import pickle
from inspect import getattr_static
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from mindspore.mint.nn.functional import relu as of_mint

from msprobe.frameworks.mindspore.functions import functions

pytestmark = pytest.mark.mindspore

X = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4))
PAGE = Path(__file__).parents[3] / "docs" / "en" / "reference" / "support.md"


def by_names():
    return {
        (owner.__name__, name): getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)
        for owner, name, _ in functions()
    }


def forward(dump):
    return [name.removesuffix(".forward") for name in dump.data if name.endswith(".forward")]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_every_name_holds_the_same_object(level, collecting):
    before, debugger = by_names(), collecting(level=level)
    debugger.start(nn.ReLU())
    during = by_names()
    debugger.stop()
    assert [place for place, value in before.items() if during[place] is not value] == []
    assert by_names() == before
    text = f"{len(before):,} of {len(before):,} names"
    assert text in PAGE.read_text(), f"the page must say: {text}"


def test_a_function_looks_the_same(collecting):
    def facts(function):
        signature = str(inspect.signature(function)) if inspect.isfunction(function) else None
        try:
            source = inspect.getsource(function) if inspect.isfunction(function) else None
        except OSError:  # made by `exec`
            source = None
        names = [getattr(function, f"__{name}__", None) for name in ("name", "qualname", "module", "doc", "objclass")]
        return [signature, source, *names, repr(function), hash(function)]

    every = list(by_names().values())
    before, debugger = list(map(facts, every)), collecting(level="L1")
    debugger.start()
    during = list(map(facts, every))
    debugger.stop()
    assert during == before
    assert sum(each[1] is not None for each in before) > 1000
    assert list(map(facts, every)) == before


def test_what_holds_a_function_may_be_copied_and_pickled_meanwhile(collecting):
    acts, debugger = {ops.gelu: ops.relu, ops.tanh: Tensor.sum}, collecting(level="L1")
    debugger.start()
    copied, pickled = copy.deepcopy(acts), pickle.loads(pickle.dumps(acts))
    debugger.stop()
    assert acts == copied == pickled


def test_calls_by_every_kind_of_reference_are_recorded(collecting, dumped):
    class Kind:
        static = staticmethod(ops.silu)

    def closing(f):
        return lambda x: f(x)

    def default(x, f=ops.elu):
        return f(x)

    table, closed = {"act": {"inner": ops.tanh}}, closing(ops.relu6)
    part = functools.partial(ops.leaky_relu, alpha=0.1)
    debugger = collecting(level="L1")
    debugger.start()
    Kind.static(X), table["act"]["inner"](X), closed(X), default(X), part(X), Tensor.sigmoid(X)
    later = X.cos
    later(), list(map(ops.sin, [X])), ops.relu(X)
    debugger.stop()
    later(), ops.tanh(X)
    debugger.step()
    names = ["silu", "tanh", "relu6", "elu", "leaky_relu", "sigmoid", "cos", "sin", "relu"]
    assert [name.split(".")[1] for name in forward(dumped(debugger))] == names


def test_a_function_with_two_names_is_recorded_by_the_one_that_was_written(collecting, dumped):
    assert mint.exp is ops.exp, "otherwise this test says nothing"
    assert mint.nn.functional.relu is ops.relu is of_mint

    class Layer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.f, self.exp = ops.relu, mint.exp

        def construct(self, x):
            return self.f(self.exp(x))

    debugger = collecting(level="L1")
    debugger.start()
    for _ in range(3):
        ops.exp(X)
        mint.exp(ops.relu(X))
        mint.nn.functional.relu(X)
        ops.relu(mint.exp(X))
    Layer()(X)
    of_mint(X)
    debugger.stop()
    debugger.step()
    turn = ["Functional.exp", "Functional.relu", "Mint.exp", "MintFunctional.relu", "Mint.exp", "Functional.relu"]
    rest = ["Functional.exp", "Functional.relu", "Functional.relu"]
    assert [name.rpartition(".")[0] for name in forward(dumped(debugger))] == [*turn * 3, *rest]


def test_private_calls_of_the_framework_are_not_recorded(collecting, dumped):
    """`nn.SiLU` calls `ops.function.silu`, which is not a public name."""
    debugger, net = collecting(level="L1"), nn.SequentialCell(nn.SiLU(), nn.ReLU())
    debugger.start(net)
    net(X)
    ops.silu(X)
    debugger.stop()
    debugger.step()
    assert [name for name in forward(dumped(debugger)) if "silu" in name] == ["Functional.silu.0"]


def test_a_graph_that_is_compiled_meanwhile_is_the_same(collecting):
    """The compiler reads the original source of what it finds, also by references that were made before."""
    held = ops.gelu

    def work(x):
        return held(x) + ops.relu(x) * mint.exp(x)

    bare = ms.jit(work)(X).asnumpy()
    debugger = collecting(level="L1")
    debugger.start()
    within = ms.jit(work)(X).asnumpy()
    debugger.stop()
    after = ms.jit(work)(X).asnumpy()
    np.testing.assert_array_equal(within, bare)
    np.testing.assert_array_equal(after, bare)


class Config:
    """Holds a function, as the configurations of many models do."""

    def __init__(self):
        self.act = ops.gelu


FUSED = {ops.gelu: 2.0, ops.tanh: 3.0}
SUPPORTED = (ops.relu, ops.gelu, mint.exp)
SUM = Tensor.sum


def kinds_of_tests():
    """One function for each way in which code may look at a function instead of calling it."""
    config, held = Config(), ops.gelu

    class Kind:
        act = ops.silu

    def default(function=ops.silu):
        return function

    part = functools.partial(ops.leaky_relu, alpha=0.2)
    return {
        "attribute of a configuration": lambda: config.act is ops.gelu,
        "class attribute": lambda: Kind.act is ops.silu,
        "default argument": lambda: default() is ops.silu,
        "key of a dict": lambda: FUSED.get(ops.gelu, 0.5) == 2.0,
        "closure": lambda: held is ops.gelu,
        "member of a tuple": lambda: ops.relu in SUPPORTED and mint.exp in SUPPORTED,
        "partial": lambda: part.func is ops.leaky_relu,
        "another name": lambda: mint.nn.functional.relu is ops.relu,
        "method": lambda: Tensor.sum is getattr_static(Tensor, "sum") is SUM,
    }


@pytest.mark.parametrize("kind", kinds_of_tests())
def test_code_that_looks_at_a_function_takes_the_same_branch(kind, collecting):
    holds, debugger = kinds_of_tests()[kind], collecting(level="L1")
    assert holds()
    debugger.start()
    during = holds()
    debugger.stop()
    assert during
