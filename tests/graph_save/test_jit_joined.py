"""Cells inside `@jit` code that a PyNative net calls: recorded in the same dump, under the calls that enclose them."""

import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

pytestmark = [pytest.mark.mindspore, pytest.mark.part(2)]


class Scaled(nn.Cell):
    """A dense layer behind a scale of its own."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.scale = Parameter(Tensor(np.full(4, 0.5, np.float32)), name="scale")

    def construct(self, x, times=1.0):
        return ops.tanh(self.fc(x)) * self.scale * times


class Inner(nn.Cell):
    """Two layers, the first of them called twice."""

    def __init__(self):
        super().__init__()
        self.a = Scaled()
        self.b = nn.Dense(4, 4)

    def construct(self, x):
        return self.b(self.a(self.a(x), times=2.0))


class JitInner(Inner):
    """The same, compiled."""

    construct = ms.jit(Inner.construct)


JitInner.__name__ = "Inner"


class Outer(nn.Cell):
    """Compiled code between layers that Python calls."""

    def __init__(self, inner):
        super().__init__()
        self.first = nn.Dense(3, 4)
        self.inner = inner
        self.last = nn.Dense(4, 2)

    def construct(self, x):
        return self.last(self.inner(self.first(x))).sum()


def train(net, folder, steps=3, config=None, **settings):
    """The losses and weights of a training that is collected into `folder`; None: not collected."""
    for number, parameter in enumerate(net.get_parameters()):
        drawn = np.random.RandomState(number).randn(*parameter.shape)
        parameter.set_data(Tensor((drawn * 0.4).astype(np.float32)))
    gradients = ms.value_and_grad(net, None, net.trainable_params())
    optimizer = nn.SGD(net.trainable_params(), 0.05)
    debugger = folder and PrecisionDebugger(config, dump_path=str(folder), **{"level": "L0", **settings})
    losses = []
    try:
        for step in range(steps):
            if debugger:
                debugger.start(net)
            x = np.random.RandomState(100 + step).randn(2, 3).astype(np.float32)
            loss, grads = gradients(Tensor(x))
            if debugger:
                debugger.stop()
                debugger.step()
            optimizer(grads)
            losses.append(loss.asnumpy().tobytes())
    finally:
        if debugger:
            debugger._end_step()
            PrecisionDebugger._known.pop(debugger._settings, None)
    return losses, [p.asnumpy().tobytes() for p in net.get_parameters()]


def dump_of(folder, step, name="dump.json"):
    return json.loads((folder / f"step{step}" / "rank" / name).read_text())


def calls_of(data):
    return [name for name in data if "parameters_grad" not in name]


def records(node, place, found):
    """Every record of an entry by its place, without what only PyNative can tell."""
    if isinstance(node, dict) and "type" in node:
        found[place] = {key: value for key, value in node.items() if key != "from"}
    elif isinstance(node, dict):
        for key, inner in node.items():
            records(inner, f"{place}.{key}", found)
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            records(inner, f"{place}.{index}", found)
    else:
        found[place] = node
    return found


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """The folder of a run whose inner cell is compiled, that of one in Python alone, and what they gave."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    root = tmp_path_factory.mktemp("joined")
    return {
        "jit": (root / "jit", train(Outer(JitInner()), root / "jit", task="tensor")),
        "python": (root / "python", train(Outer(Inner()), root / "python", task="tensor")),
        "bare": train(Outer(JitInner()), None),
    }


def test_the_training_is_the_same_bit_by_bit(joined):
    assert joined["jit"][1] == joined["bare"]


@pytest.mark.parametrize("step", range(3))
def test_the_calls_and_what_encloses_them_are_those_of_a_net_without_jit(joined, step):
    jit, python = joined["jit"][0], joined["python"][0]
    construct = dump_of(jit, step, "construct.json")
    assert construct["Cell.inner.a.fc.Dense.forward.1"] == "Cell.inner.a.Scaled.forward.1"
    assert construct["Cell.inner.a.Scaled.forward.1"] == "Cell.inner.Inner.forward.0"
    assert construct["Cell.inner.a.Scaled.backward.0"] == "Cell.inner.Inner.backward.0"
    assert construct == dump_of(python, step, "construct.json")
    assert calls_of(dump_of(jit, step)["data"]) == calls_of(dump_of(python, step)["data"])


@pytest.mark.parametrize("step", range(3))
def test_the_values_are_those_of_a_net_without_jit(joined, step):
    jit, python = (dump_of(joined[side][0], step)["data"] for side in ("jit", "python"))
    assert set(jit) == set(python)
    compared = 0
    for name, entry in jit.items():
        ours, theirs = records(entry, name, {}), records(python[name], name, {})
        assert set(ours) == set(theirs)
        for place, record in ours.items():
            if not (isinstance(record, dict) and "data_name" in record):
                assert record == theirs[place], place
                continue
            folders = (joined[side][0] / f"step{step}" / "rank" / "dump_tensor_data" for side in ("jit", "python"))
            got, expected = (np.load(folder / record["data_name"]) for folder in folders)
            # A gradient that several calls contribute to is added up in another order: rounding of float32.
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=place)
            assert record["shape"] == list(expected.shape)
            compared += 1
    assert compared > 40


def test_numbers_go_on_where_python_and_a_graph_call_the_same_cell(tmp_path):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    shared = nn.Dense(2, 2)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.shared = shared

        def construct(self, x):
            return self.shared(compiled(self.shared(x)))

    @ms.jit
    def compiled(x):
        return shared(x) + 1

    net = Net()
    debugger = PrecisionDebugger(level="L0", dump_path=str(tmp_path / "dump"))
    debugger.start(net)
    x = np.ones((1, 2), np.float32)
    net(Tensor(x))
    debugger.stop()
    debugger.step()
    PrecisionDebugger._known.pop(debugger._settings)
    data = dump_of(tmp_path / "dump", 0)["data"]
    assert list(data) == [f"Cell.shared.Dense.forward.{n}" for n in range(3)]
    weight, bias = shared.weight.asnumpy(), shared.bias.asnumpy()
    second = (x @ weight.T + bias) @ weight.T + bias
    assert data["Cell.shared.Dense.forward.1"]["output"][0]["Max"] == pytest.approx(float(second.max()), rel=1e-6)


def test_nothing_is_left_on_the_cells(tmp_path):
    net = Outer(JitInner())
    train(net, tmp_path / "dump", steps=1)
    assert "Cell.inner.b.Dense.forward.0" in dump_of(tmp_path / "dump", 0)["data"], "the graph was planted"
    assert not any("construct" in vars(cell) for _, cell in net.cells_and_names())


def test_a_pattern_keeps_only_what_it_names(tmp_path):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": str(tmp_path / "dump"), "statistics": {"list": ["inner.a.fc"]}}))
    net = Outer(JitInner())
    debugger = PrecisionDebugger(str(config), level="L0")
    debugger.start(net)
    ms.value_and_grad(net, None, net.trainable_params())(Tensor(np.ones((2, 3), np.float32)))
    debugger.stop()
    debugger.step()
    PrecisionDebugger._known.pop(debugger._settings)
    names = calls_of(dump_of(tmp_path / "dump", 0)["data"])
    ways = ("forward", "backward")
    assert sorted(names) == sorted(f"Cell.inner.a.fc.Dense.{way}.{n}" for way in ways for n in (0, 1))
    assert "Cell.inner.b.Dense.forward.0" in dump_of(tmp_path / "dump", 0, "construct.json")


def test_where_the_split_is_asked_for_graphs_have_a_tree_of_their_own(tmp_path):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "unused", "jit_cells": "split"}))
    train(Outer(JitInner()), tmp_path / "dump", steps=2, config=str(config))
    assert sorted(entry.name for entry in (tmp_path / "dump").glob("*[eh]")) == ["graph", "pynative"]
    graph, python = (dump_of(tmp_path / "dump" / part, 1) for part in ("graph", "pynative"))
    assert {name for name in calls_of(graph["data"]) if "forward" in name} == {
        *("Cell.inner.Inner.forward.0", "Cell.inner.a.Scaled.forward.0", "Cell.inner.a.Scaled.forward.1"),
        *("Cell.inner.a.fc.Dense.forward.0", "Cell.inner.a.fc.Dense.forward.1", "Cell.inner.b.Dense.forward.0"),
    }
    assert {name for name in calls_of(python["data"]) if "forward" in name} == {
        *("Cell.first.Dense.forward.0", "Cell.inner.Inner.forward.0", "Cell.last.Dense.forward.0"),
    }
    construct = dump_of(tmp_path / "dump" / "graph", 1, "construct.json")
    assert construct["Cell.inner.Inner.forward.0"] is None
    assert construct["Cell.inner.b.Dense.backward.0"] == "Cell.inner.Inner.backward.0"


def test_where_trees_are_split_a_pattern_of_the_other_one_is_no_complaint(tmp_path, capsys):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    config = tmp_path / "config.json"
    text = {"dump_path": "unused", "jit_cells": "split", "statistics": {"list": ["first.Dense"]}}
    config.write_text(json.dumps(text))
    train(Outer(JitInner()), tmp_path / "dump", steps=1, config=str(config))
    assert "has not matched any call" not in capsys.readouterr().err


def test_jit_code_that_was_compiled_in_a_step_before_is_recorded(tmp_path):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    train(Outer(JitInner()), tmp_path / "dump", steps=3, step=[2])
    assert [path.name for path in (tmp_path / "dump").glob("step*")] == ["step2"]
    assert "Cell.inner.a.fc.Dense.backward.1" in dump_of(tmp_path / "dump", 2)["data"]


def test_where_that_is_asked_for_jit_code_is_left_as_it_is(tmp_path):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "unused", "jit_cells": "off"}))
    train(Outer(JitInner()), tmp_path / "dump", steps=1, config=str(config))
    forward = [name for name in dump_of(tmp_path / "dump", 0)["data"] if "forward" in name]
    assert forward == ["Cell.first.Dense.forward.0", "Cell.inner.Inner.forward.0", "Cell.last.Dense.forward.0"]
