"""Cells in compiled graphs are given those odd values that their compiler takes, as constants and as arguments."""

import json

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="it compiles the graphs")

import mindspore as ms  # behind the reason for a skip
from mindspore import Tensor, nn, ops
from odd import ODD

from msprobe.mindspore import PrecisionDebugger
from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.part(4)]

WORDS = ("mapping", "numpy", "nothing", "long text")
EQUAL = (1, True, 1.0)


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        weight = Tensor(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
        self.fc = nn.Dense(4, 4, weight_init=weight, bias_init="zeros")

    def construct(self, x, odd=None):
        return self.fc(x), odd


class Holder(nn.Cell):
    def __init__(self, odd):
        super().__init__()
        self.inner, self.odd = Inner(), odd

    def construct(self, x):
        y, _ = self.inner(x, self.odd)
        return y


class Net(nn.Cell):
    def __init__(self, odds):
        super().__init__()
        self.holders, self.inner = nn.CellList([Holder(odd) for odd in odds]), Inner()

    def construct(self, x, options):
        for holder in self.holders:
            x = holder(x)
        for one in EQUAL:
            x, _ = self.inner(x, one)
        y, _ = self.inner(x, options)
        return ops.square(y).sum()


class JitNet(Net):
    construct = ms.jit(Net.construct)


X = Tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))


def train(kind, odds, options, debugger=None):
    net = kind([odd.make(X) for odd in odds])
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.1)
    gradients_of = ms.value_and_grad(net, None, optimizer.parameters)
    if debugger is not None:
        debugger.start(net)
    _, gradients = gradients_of(X, options)
    optimizer(gradients)
    if debugger is not None:
        debugger.stop()
        debugger.step()
    return [parameter.asnumpy().tobytes() for parameter in net.get_parameters()]


PLACES = {"jit": ("L0", JitNet), "graph mode": ("mix", Net)}


@pytest.fixture(params=PLACES)
def place(request, monkeypatch, tmp_path):
    """A level, and a network that is compiled; the compiler leaves files in the working directory."""
    monkeypatch.chdir(tmp_path)
    level, kind = PLACES[request.param]
    ms.set_context(mode=ms.GRAPH_MODE if kind is Net else ms.PYNATIVE_MODE)
    yield level, kind
    ms.set_context(mode=ms.PYNATIVE_MODE)


def collected(place, odds, options, ending, folder):
    level, kind = place
    debugger = PrecisionDebugger(dump_path=str(folder), level=level, task="tensor")
    ending.append(debugger)
    assert train(kind, odds, options, debugger) == train(kind, odds, options)
    rank = folder / "step0" / "rank"
    return json.loads((rank / "dump.json").read_text())["data"], list(read(rank).missing)


def test_a_graph_with_odd_values_is_recorded_and_what_is_left_out_is_named(place, ending, tmp_path):
    data, missing = collected(place, [ODD[word] for word in WORDS], ODD["one text twice"].make(X), ending, tmp_path)
    mapping, of_numpy, nothing, long = (
        data[f"Cell.holders.{i}.inner.Inner.forward.0"]["input_args"][1] for i in range(len(WORDS))
    )
    assert mapping is None
    assert [value and (value["type"], value["value"]) for value in of_numpy[1:]] == [
        *(("float", 0.5), ("int", 3), ("bool", True)),
        *(None, None),
    ]
    assert nothing[1:5] == [[], {}, [], None]
    assert len(long[1]["value"]) == 10_000
    assert [line for line in missing if "string of more than" in line] == missing != []
    equal = [data[f"Cell.inner.Inner.forward.{i}"]["input_args"][1] for i in range(len(EQUAL))]
    assert [(one["type"], repr(one["value"])) for one in equal] == [(type(e).__name__, repr(e)) for e in EQUAL]
    twice = data[f"Cell.inner.Inner.forward.{len(EQUAL)}"]["input_args"][1]
    assert list(twice) == ["1#2", "1", "1.5#2", "1.5"]
    assert twice["1"]["Max"] == 2 * twice["1#2"]["Max"] == 2.0
    assert twice["1"]["data_name"] != twice["1#2"]["data_name"]
    assert (twice["1.5#2"]["value"], twice["1.5"]["value"]) == (2, 3)


@pytest.mark.parametrize("place", ["jit"], indirect=True)
def test_a_graph_that_the_compiler_takes_without_the_operators_alone_is_named_in_the_dump(place, ending, tmp_path):
    """Nothing is known of keys that are foreign objects."""
    data, missing = collected(place, [ODD["hostile keys"]], X, ending, tmp_path)
    assert [line.partition(":")[0] for line in missing if line.startswith("step graph")] == ["step graph"]
    assert not [name for name in data if "holders" in name and ".forward." in name]
