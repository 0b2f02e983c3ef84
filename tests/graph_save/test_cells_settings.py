"""Cells in graph mode: every setting means what it means in PyNative mode."""

import json
import re
import zlib
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base import log
from msprobe.base.digest import digest
from msprobe.base.errors import UsageError
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

pytestmark = [pytest.mark.mindspore, pytest.mark.part(6)]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "training"))


@pytest.fixture(autouse=True)
def _graph_mode():
    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
    log._logged.clear()
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for debugger in list(PrecisionDebugger._known.values()):
        debugger._end_step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None


class Two(nn.Cell):
    """Two layers and a norm between them."""

    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Dense(3, 4), nn.Tanh(), nn.Dense(4, 2)

    def construct(self, x):
        return self.last(self.act(self.first(x))).sum()


X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) / 6)
FORWARD = [f"Cell.{cell}.forward.0" for cell in ("first.Dense", "act.Tanh", "last.Dense")]
BACKWARD = [name.replace("forward", "backward") for name in reversed(FORWARD)]


def collector(tmp_path, task="statistics", name="dump", **section):
    """A debugger of level L0 with a section of its own; `step` and `rank` are above the section."""
    top = {key: section.pop(key) for key in ("step", "rank", "level") if key in section}
    config = tmp_path / f"{name}.json"
    config.write_text(
        json.dumps({"task": task, "level": "L0", "dump_path": str(tmp_path / name), **top, task: section})
    )
    return PrecisionDebugger(str(config))


def dump_of(tmp_path, step=0, name="dump", rank="rank"):
    return json.loads((tmp_path / name / f"step{step}" / rank / "dump.json").read_text())


def run(debugger, net=None, steps=1, gradient=True, **start):
    """A network's gradients, collected."""
    net = net or Two()
    function = ms.value_and_grad(net, None, net.trainable_params()) if gradient else net
    for _ in range(steps):
        debugger.start(net, **start)
        function(X)
        debugger.stop()
        debugger.step()
    return net


def test_without_an_optimizer_the_dump_says_why_there_are_no_gradients_of_parameters(tmp_path):
    run(collector(tmp_path))
    (logged,) = dump_of(tmp_path)["missing"]
    assert (logged["name"], logged["part"]) == ("step", "parameters_grad")
    assert logged["cause"].startswith("no optimizer ran in a graph between start() and stop()")
    run(collector(tmp_path, name="forward"), gradient=False)
    assert "missing" not in dump_of(tmp_path, name="forward"), "no backward, no gradients to miss"


@pytest.mark.parametrize(
    ("modes", "parts"),
    [
        (["forward"], {"forward": {"input_args", "input_kwargs", "parameters", "output"}}),
        (["backward"], {"backward": {"input", "output"}}),
        (["input"], {"forward": {"input_args", "input_kwargs", "parameters"}, "backward": {"input"}}),
        (["output"], {"forward": {"parameters", "output"}, "backward": {"output"}}),
        (["forward", "input"], {"forward": {"input_args", "input_kwargs", "parameters"}}),
    ],
)
def test_data_mode_keeps_what_it_keeps_in_pynative(modes, parts, tmp_path):
    net = run(collector(tmp_path, data_mode=modes))
    ours = dump_of(tmp_path)["data"]
    ms.set_context(mode=ms.PYNATIVE_MODE)
    run(collector(tmp_path, name="python", data_mode=modes), net)
    python = dump_of(tmp_path, name="python")["data"]
    calls = [name for name in ours if "parameters_grad" not in name]
    assert calls == [name for name in python if "parameters_grad" not in name]
    assert {name: set(ours[name]) for name in calls} == {name: set(python[name]) for name in calls}
    assert {name.split(".")[-2]: set(ours[name]) for name in calls if "Dense" in name} == parts


@pytest.mark.parametrize(
    ("section", "kept"),
    [
        ({"list": ["first"]}, ["Cell.first.Dense"]),
        ({"list": ["Dense.backward"]}, ["Cell.last.Dense", "Cell.first.Dense"]),
        ({"scope": ["Cell.act.Tanh", "Cell.last.Dense"]}, ["Cell.act.Tanh", "Cell.last.Dense"]),
    ],
)
def test_list_and_scope_keep_what_they_keep_in_pynative(section, kept, tmp_path):
    if "scope" in section:
        section = {"scope": [f"{section['scope'][0]}.forward.0", f"{section['scope'][1]}.forward.0"]}
    net = run(collector(tmp_path, **section))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    run(collector(tmp_path, name="python", **section), net)
    ours, python = dump_of(tmp_path)["data"], dump_of(tmp_path, name="python")["data"]
    assert [name for name in ours if "parameters_grad" not in name] == [n for n in python if "parameters_grad" not in n]
    assert {re.sub(r"\.(for|back)ward\.0", "", name) for name in ours} == set(kept)
    construct = json.loads((tmp_path / "dump/step0/rank/construct.json").read_text())
    assert set(construct) == {*FORWARD, *BACKWARD}, "what ran, collected or not"


def test_only_the_steps_that_are_asked_for_are_written(tmp_path):
    net = run(collector(tmp_path, step=[1]), steps=3)
    assert [path.name for path in (tmp_path / "dump").glob("step*")] == ["step1"]
    assert list(dump_of(tmp_path, 1)["data"]) == [*FORWARD, *BACKWARD]
    assert not any("construct" in vars(cell) for _, cell in net.cells_and_names())


def test_a_graph_that_was_compiled_in_a_step_before_is_recorded(tmp_path):
    debugger, net = collector(tmp_path, step=[2]), Two()
    for _ in range(4):
        debugger.start(net)
        net(X)  # compiled at step 0
        assert not any("construct" in vars(cell) for _, cell in net.cells_and_names())
        debugger.stop()
        debugger.step()
    assert [path.name for path in (tmp_path / "dump").glob("step*")] == ["step2"]
    assert list(dump_of(tmp_path, 2)["data"]) == FORWARD


def test_a_rank_that_is_not_asked_for_writes_nothing(tmp_path):
    debugger = collector(tmp_path, rank=[1])
    run(debugger, gradient=False)
    assert not (tmp_path / "dump").exists()
    run(debugger, gradient=False, rank_id=1)
    assert list(dump_of(tmp_path, 1, rank="rank1")["data"]) == FORWARD


def test_tensors_of_some_calls_may_be_saved_beside_the_statistics_of_all(tmp_path):
    run(collector(tmp_path, tensor_list=["act"]))
    files = {file.name for file in (tmp_path / "dump/step0/rank/dump_tensor_data").iterdir()}
    assert files == {
        f"Cell.act.Tanh.{way}.0.{part}.0.npy" for way in ("forward", "backward") for part in ("input", "output")
    }


def test_md5_is_the_digest_of_the_bytes(tmp_path):
    net = run(collector(tmp_path, summary_mode="md5"), gradient=False)
    entry = dump_of(tmp_path)["data"]["Cell.first.Dense.forward.0"]
    assert entry["input_args"][0]["md5"] == f"{zlib.crc32(X.asnumpy().tobytes()):08x}"
    assert entry["parameters"]["weight"]["md5"] == f"{zlib.crc32(net.first.weight.asnumpy().tobytes()):08x}"


def test_crc32c_is_another_digest_of_the_same_bytes(tmp_path):
    run(collector(tmp_path, summary_mode="crc32c"), gradient=False)
    entry = dump_of(tmp_path)["data"]["Cell.first.Dense.forward.0"]
    assert entry["input_args"][0]["md5"] == digest(X.asnumpy(), "crc32c")


def test_task_structure_has_the_calls_and_no_data(tmp_path):
    run(collector(tmp_path, task="structure"))
    assert dump_of(tmp_path)["data"] == {}
    construct = json.loads((tmp_path / "dump/step0/rank/construct.json").read_text())
    assert list(construct) == [*FORWARD, *BACKWARD]


def test_start_and_stop_may_alternate_within_a_step(tmp_path):
    net, debugger = Two(), collector(tmp_path)
    for times in (1, 2):
        debugger.start(net)
        net(X * times)
        debugger.stop()
        assert len(dump_of(tmp_path)["data"]) == 3 * times, "the dump is written by each stop"
        net(X)
    debugger.step()
    data = dump_of(tmp_path)["data"]
    assert list(data) == [*FORWARD, *(name.replace("forward.0", "forward.1") for name in FORWARD)]
    assert [data[f"Cell.first.Dense.forward.{n}"]["input_args"][0]["Max"] for n in (0, 1)] == [
        float(X.asnumpy().max()) * times for times in (1, 2)
    ]


@pytest.mark.always
def test_micro_batches_stand_one_behind_the_other(tmp_path):
    net, debugger = Two(), collector(tmp_path)
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    debugger.start(net)
    for _ in range(2):
        gradient(X)
    debugger.stop()
    debugger.step()
    first = [*FORWARD, *BACKWARD]
    assert list(dump_of(tmp_path)["data"]) == [*first, *(f"{name.removesuffix('0')}1" for name in first)]


class Constant(nn.Cell):
    """Its gradient is a constant that the compiler knows."""

    def __init__(self):
        super().__init__()
        self.scale = Scale()

    def construct(self, x):
        return self.scale(x).sum()


class Scale(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor([2.0, 3.0, 4.0], ms.float32), name="weight")

    def construct(self, x):
        return x * self.weight


def test_a_gradient_that_is_a_constant_of_the_graph_is_told_in_every_step(tmp_path):
    net = Constant()
    debugger = collector(tmp_path, task="tensor")
    gradient = ms.grad(net, 0)
    for _ in range(3):
        debugger.start(net)
        found = gradient(X)
        debugger.stop()
        debugger.step()
    for step in range(3):
        entry = dump_of(tmp_path, step)["data"]["Cell.scale.Scale.backward.0"]
        folder = tmp_path / f"dump/step{step}/rank/dump_tensor_data"
        assert np.array_equal(np.load(folder / entry["input"][0]["data_name"]), np.ones((2, 3), np.float32))
        assert np.array_equal(np.load(folder / entry["output"][0]["data_name"]), found.asnumpy())
    assert found.asnumpy().tolist() == [[2.0, 3.0, 4.0]] * 2


class Trains(nn.Cell):
    """A training step with the gradient inside, as it was written before `value_and_grad`."""

    def __init__(self, net):
        super().__init__()
        self.net, self.weights = net, ms.ParameterTuple(net.trainable_params())
        self.gradient = ops.GradOperation(get_by_list=True)
        self.optimizer = nn.SGD(self.weights, 0.1)

    def construct(self, x):
        gradients = self.gradient(self.net, self.weights)(x)
        return ops.depend(gradients[0], self.optimizer(gradients))


def test_a_gradient_inside_a_cell_and_its_optimizer(tmp_path):
    net = Two()
    before = net.first.weight.asnumpy().copy()
    step, debugger = Trains(net), collector(tmp_path, task="tensor")
    debugger.start(net)
    found = step(X).asnumpy()
    debugger.stop()
    debugger.step()
    data = dump_of(tmp_path)["data"]
    assert [name for name in data if "parameters_grad" not in name] == [*FORWARD, *BACKWARD]
    folder = tmp_path / "dump/step0/rank/dump_tensor_data"
    (weight,) = data["Cell.first.Dense.parameters_grad"]["weight"]
    assert np.array_equal(np.load(folder / weight["data_name"]), found)
    used = np.load(folder / data["Cell.first.Dense.forward.0"]["parameters"]["weight"]["data_name"])
    assert np.array_equal(used, before), "as the forward used it"
    assert not np.array_equal(net.first.weight.asnumpy(), before)


@pytest.mark.parametrize("keys", [(0, 1), ("policy", "critic")])
def test_several_networks_are_told_apart_by_their_names(keys, tmp_path):
    nets = Two(), Two()
    debugger = collector(tmp_path)
    debugger.start(dict(zip(keys, nets, strict=True)) if isinstance(keys[0], str) else list(nets))
    for net in nets:
        net(X)
    debugger.stop()
    debugger.step()
    data = dump_of(tmp_path)["data"]
    assert list(data) == [name.replace("Cell.", f"Cell.{key}.") for key in keys for name in FORWARD]


def test_a_shape_that_is_known_only_when_the_graph_runs_is_missing_and_said_so(tmp_path):
    net, debugger = Two(), collector(tmp_path)
    net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
    debugger.start(net)
    value = net(X)
    debugger.stop()
    debugger.step()
    dump = dump_of(tmp_path)
    assert {(item["name"], item["part"]) for item in dump["missing"]} >= {("Cell.first.Dense.forward.0", "input")}
    assert "fixed shapes" in dump["missing"][0]["cause"]
    entry = dump["data"]["Cell.first.Dense.forward.0"]
    assert (entry["input_args"], entry["parameters"]["weight"]["shape"]) == ([None], [4, 3])
    assert value.asnumpy() == net(X).asnumpy()


def test_what_cannot_be_in_a_graph_is_refused_at_start(tmp_path):
    apis = collector(tmp_path, level="L1")
    with pytest.raises(UsageError, match='level "L1" collects calls from Python'):
        apis.start(Two())
    cells = collector(tmp_path, name="other")
    with pytest.raises(UsageError, match="the model cannot be None"):
        cells.start()
    with pytest.raises(UsageError, match="token_range"):
        cells.start(Two(), token_range=[0, 1])


def test_a_graph_that_was_compiled_before_is_not_recorded_and_that_is_said(tmp_path, capsys):
    net = Two()
    net(X)
    run(collector(tmp_path), net, gradient=False)
    assert dump_of(tmp_path)["data"] == {}
    assert "a graph that was compiled earlier is not recorded" in capsys.readouterr().err


def test_an_lstm_is_trained_as_without_us(tmp_path):
    """LSTM takes views of its weights, which are given as arguments."""
    weights = np.random.default_rng(3)

    class Recurrent(nn.Cell):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(4, 5, num_layers=2, batch_first=True), nn.Dense(5, 2)

        def construct(self, x):
            return (self.head(self.rnn(x)[0]) ** 2).mean()

    net = Recurrent()
    for parameter in net.get_parameters():
        parameter.set_data(Tensor(weights.standard_normal(parameter.shape) * 0.3, ms.float32))
    x = Tensor(weights.standard_normal((2, 3, 4)), ms.float32)
    bare = [t.asnumpy() for t in _flat(ms.value_and_grad(net, None, net.trainable_params())(x))]
    debugger = collector(tmp_path)
    debugger.start(net)
    ours = [t.asnumpy() for t in _flat(ms.value_and_grad(net, None, net.trainable_params())(x))]
    debugger.stop()
    debugger.step()
    assert "Cell.rnn.LSTM.backward.0" in dump_of(tmp_path)["data"]
    assert [a.tobytes() for a in ours] == [a.tobytes() for a in bare]


def test_a_constant_given_by_keyword_stays_one(tmp_path):
    """The attention asks for `need_weights` while it is compiled."""

    class Attending(nn.Cell):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def construct(self, x):
            return self.attention(x, x, x, attn_mask=None, need_weights=False)[0].mean()

    net, debugger = Attending(), collector(tmp_path)
    x = Tensor(np.random.default_rng(1).standard_normal((2, 3, 4)), ms.float32)
    run_with = ms.value_and_grad(net, None, net.trainable_params())
    debugger.start(net)
    run_with(x)
    debugger.stop()
    debugger.step()
    dump = dump_of(tmp_path)
    assert not [item for item in dump.get("missing", ()) if item["part"] == "graph"]
    entry = dump["data"]["Cell.attention.MultiheadAttention.forward.0"]
    assert entry["input_kwargs"] == {"attn_mask": None, "need_weights": {"type": "bool", "value": False}}


class Weighing(nn.Cell):
    """Takes a weight as an argument, and a view of it."""

    def construct(self, x, weight):
        return ops.matmul(x, weight.swapaxes(0, 1))


def test_parameters_that_are_given_as_arguments_stay_apart(tmp_path):
    """The compiler would take two parameters for one behind a tap."""

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            rng = np.random.default_rng(5)
            self.one, self.two = (
                Parameter(Tensor(rng.standard_normal((3, 3)), ms.float32), name=name) for name in ("one", "two")
            )
            self.weigh = Weighing()

        def construct(self, x):
            return self.weigh(self.weigh(x, self.one), self.two).sum()

    net, debugger = Net(), collector(tmp_path, task="tensor")
    debugger.start(net)
    value, gradients = ms.value_and_grad(net, None, net.trainable_params())(X)
    debugger.stop()
    debugger.step()
    x, one, two = (each.asnumpy().astype(np.float64) for each in (X, net.one, net.two))
    np.testing.assert_allclose(value.asnumpy(), (x @ one.T @ two.T).sum(), rtol=1e-5)
    ones = np.ones((2, 3))
    expected = {"one": (ones @ two).T @ x, "two": ones.T @ (x @ one.T)}
    folder = tmp_path / "dump/step0/rank/dump_tensor_data"
    for number, (argument, (name, right)) in enumerate(zip(gradients, expected.items(), strict=True)):
        np.testing.assert_allclose(argument.asnumpy(), right, rtol=1e-5, atol=1e-5, err_msg=name)
        reported = np.load(folder / f"Cell.weigh.Weighing.backward.{number}.output.1.npy")
        np.testing.assert_array_equal(reported, argument.asnumpy())


def _flat(value):
    """The tensors of nested tuples."""
    return [t for inner in value for t in _flat(inner)] if isinstance(value, tuple) else [value]
