"""Collecting that watches, in trainings with MindSpore: overflows, triggers, exceptions."""

import json
import logging
import subprocess
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, jit, mint, nn, ops
from preloaded import python

from msprobe.base.errors import UsageError

pytestmark = pytest.mark.mindspore

X = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)


@jit
def compiled(x):
    return x / (x * 0.0)


class Layer(nn.Cell):
    """One layer, with a fault behind it in one step."""

    def __init__(self, fault=None):
        super().__init__()
        numbers = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
        self.fc = nn.Dense(4, 4, weight_init=Tensor(numbers), bias_init="zeros")
        self.div = ops.Div()
        self.fault = fault

    def construct(self, x):
        x = mint.tanh(self.fc(x))
        return x if self.fault is None else self.fault(self, x)


def log(_, x):
    return mint.log(mint.sub(x, 2.0))


def root(_, x):
    return mint.sqrt(mint.mul(x, 0.0))


def primitive(cell, x):
    return cell.div(x, ops.zeros(4, ms.float32))


def in_place(_, x):
    found = x * 1.0
    found.div_(0.0)
    return found


def broken(_, x):
    return mint.matmul(x, mint.ones((7, 7)))


FAULTS = [
    (log, "mix", "Mint.log.0.forward"),
    (log, "L1", "Mint.log.0.forward"),
    (log, "L0", "Cell.1.Layer.forward.0"),
    (root, "mix", "Mint.sqrt.0.backward"),
    (root, "L1", "Mint.sqrt.0.backward"),
    (root, "L0", "Cell.1.Layer.backward.0"),
    (primitive, "mix", "Primitive.div.Div.0.forward"),
    (in_place, "mix", "Tensor.div_.0.forward"),
    (lambda _, x: compiled(x), "mix", "Jit.compiled.0.forward"),
    (lambda _, x: compiled(x), "L0", "Cell.1.Layer.forward.0"),
]


@pytest.fixture
def configured(tmp_path, collecting):
    """Makes a debugger of a task with its section."""

    def make(task, level="mix", **section):
        return collecting({"dump_path": str(tmp_path), "task": task, task: section}, level=level)

    return make


def train(debugger, net, steps=1):
    def loss(x):
        return mint.mean(mint.square(net(x)))

    gradient = ms.value_and_grad(loss, None, net.trainable_params())
    for _ in range(steps):
        debugger.start(net)
        gradient(Tensor(X))
        debugger.stop()
        debugger.step()


def layers(fault):
    return nn.SequentialCell([Layer(), Layer(fault), Layer()])


def findings(dump):
    return json.loads((dump.folder / "findings.json").read_text())


PASSING = {"Cell.1.Layer.backward.0": {"Cell.1.fc.Dense.backward", "Cell.1.fc.Dense"}}


@pytest.mark.pipeline
@pytest.mark.parametrize(("fault", "level", "name"), FAULTS, ids=[f"{n}-{level}" for _, level, n in FAULTS])
def test_the_first_call_that_overflows_ends_the_collection(fault, level, name, configured, dumped, caplog):
    debugger = configured("overflow_check", level)
    train(debugger, layers(fault), steps=2)
    dump = dumped(debugger)
    assert dump.names[-1] == name
    # A cell is charged with what is between its cells; those inside pass it on.
    assert {each.rpartition(".")[0] for each in dump.names[:-1]} <= PASSING.get(name, set())
    assert dump.missing == []
    inputs = [n for n in dump.data[name] if n.startswith("input")]
    for record in dump.data[name][inputs[0]]:
        if record["type"] == "mindspore.Tensor":
            assert np.isfinite(np.load(dump.folder / "dump_tensor_data" / record["data_name"])).all()
    bad = np.load(dump.folder / "dump_tensor_data" / dump.data[name]["output"][0]["data_name"])
    assert not np.isfinite(bad).all()
    assert not (dump.folder.parents[1] / "step1").exists(), "collection ends for"
    (finding,) = findings(dump)["findings"]
    assert (finding["kind"], finding["call"]) == ("made", name)
    assert finding["file"] == __file__
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and name in r.getMessage()]
    assert len(said) == 1
    assert f"({__file__}:{finding['line']})" in said[0]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_training_without_overflow_leaves_the_names_of_its_calls(level, configured, dumped):
    watching, plain = configured("overflow_check", level), configured("statistics", level)
    for debugger in (watching, plain):
        train(debugger, layers(None), steps=2)
    for step in (0, 1):
        ours, full = dumped(watching, step), dumped(plain, step)
        assert ours.data == {}
        assert ours.dump["task"] == "overflow_check"
        assert ours.construct == full.construct
        named = [
            {n for names, _ in json.loads((d.folder / "stack.json").read_text()).values() for n in names}
            for d in (ours, full)
        ]
        assert named[0] == named[1] != set()
        assert not (ours.folder / "dump_tensor_data").exists()
        assert not (ours.folder / "findings.json").exists()


def test_so_many_calls_are_written_as_are_asked_for_over_all_steps(configured, dumped):
    debugger = configured("overflow_check", "L1", overflow_nums=3)
    train(debugger, layers(log), steps=4)
    # the backward of square has a finite gradient, and nothing else a finite one to take
    found = [[each["call"] for each in findings(dumped(debugger, step))["findings"]] for step in (0, 1)]
    assert found == [["Mint.log.0.forward", "Mint.square.0.backward"], ["Mint.log.0.forward"]]
    assert dumped(debugger).names[0] == "Mint.log.0.forward"
    assert len(dumped(debugger).names) > 2, "those that pass it on are written too"
    assert dumped(debugger, 1).names == ["Mint.log.0.forward"]
    assert findings(dumped(debugger, 1))["is_over"]
    assert not (dumped(debugger).folder.parents[1] / "step2").exists()


def test_what_a_function_in_place_received_is_what_is_written(configured, dumped):
    debugger = configured("overflow_check")
    net = layers(in_place)
    train(debugger, net)
    dump = dumped(debugger)
    saved = np.load(dump.folder / "dump_tensor_data" / "Tensor.div_.0.forward.input.0.npy")
    np.testing.assert_array_equal(saved, net[1].fc(net[0](Tensor(X))).tanh().asnumpy())


@pytest.mark.parametrize("nums", [1, -1])
def test_gradients_that_become_nan_outside_of_cells_are_found(nums, configured, dumped, caplog):
    """Also in the first cell, whose input needs no gradient, so that its backward returns none."""
    debugger = configured("overflow_check", "L0", overflow_nums=nums)
    net = nn.SequentialCell(nn.Dense(4, 4))
    gradient = ms.value_and_grad(lambda x: ops.sqrt(net(x) * 0).sum(), None, net.trainable_params())
    debugger.start(net)
    gradient(Tensor(X))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    call = "Cell.0.Dense.backward.0"
    (finding,) = findings(dump)["findings"]
    assert (finding["kind"], finding["call"], finding["place"]) == ("entered", call, "input.0")
    assert {call, "Cell.0.Dense.parameters_grad"} <= set(dump.names)
    of_parameters = [record for records in dump.data["Cell.0.Dense.parameters_grad"].values() for record in records]
    assert all(record["nan_count"] > 0 for record in of_parameters)
    said = [record.getMessage() for record in caplog.records if call in record.getMessage()]
    assert len(said) == 1
    assert "non-finite values entered from outside the collected cells" in said[0]


class Scale(nn.Cell):
    def __init__(self, value):
        super().__init__()
        self.w = Parameter(Tensor(np.full(4, value, np.float32)), name="w")

    def construct(self, x):
        return ops.mul(x, self.w)


def test_a_parameter_that_is_not_finite_is_charged_to_the_first_call_that_takes_it(configured, dumped):
    debugger = configured("overflow_check", "L0", overflow_nums=-1)
    train(debugger, nn.SequentialCell([Scale(1.0), Scale(np.nan), Scale(np.nan)]))
    dump = dumped(debugger)
    assert dump.names[0] == "Cell.1.Scale.forward.0"
    (first, *others) = findings(dump)["findings"]
    assert (first["kind"], first["place"]) == ("received", "parameters.w")
    assert not any("2.Scale.forward" in each["call"] for each in others)


def test_cells_of_graphs_overflow_too(configured, dumped):
    class Divide(nn.Cell):
        def construct(self, x):
            return ops.log(x * 0.0 - 1.0)

    ms.set_context(mode=ms.GRAPH_MODE)
    debugger = configured("overflow_check", "L0")
    train(debugger, nn.SequentialCell([Scale(1.0), Divide(), Scale(2.0)]))
    dump = dumped(debugger)
    assert dump.names == ["Cell.1.Divide.forward.0"]
    arrays = [
        np.load(dump.folder / "dump_tensor_data" / f"{dump.names[0]}.{part}.0.npy") for part in ("input", "output")
    ]
    np.testing.assert_array_equal(arrays[0], X)
    assert np.isnan(arrays[1]).all()


def test_cells_inside_of_compiled_code_overflow_too(configured, dumped):
    class Divide(nn.Cell):
        def construct(self, x):
            return ops.log(x * 0.0 - 1.0)

    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a, self.b = Scale(1.0), Divide()

        @jit
        def construct(self, x):
            return self.b(self.a(x))

    debugger = configured("overflow_check", "L0")
    train(debugger, nn.SequentialCell([Scale(1.0), Outer()]))
    assert dumped(debugger).names == ["Cell.1.b.Divide.forward.0"]


# ---- triggers


@pytest.mark.pipeline
def test_a_trigger_writes_the_call_and_those_before_it(configured, dumped):
    debugger, net = configured("statistics", trigger={"on": ["nan"], "calls": 2}), layers(log)
    full = configured("statistics", tensor_list=["Mint"])
    for each in (debugger, full):
        train(each, net)
    dump, whole = dumped(debugger), dumped(full)
    assert dump.names == ["Mint.tanh.1.forward", "Mint.sub.0.forward", "Mint.log.0.forward"]
    for name, entry in dump.data.items():
        assert entry == whole.data[name]
        for file in (f for part in entry.values() for r in part if isinstance(r, dict) and (f := r.get("data_name"))):
            saved, expected = (np.load(d.folder / "dump_tensor_data" / file) for d in (dump, whole))
            np.testing.assert_array_equal(saved, expected)


def test_a_trigger_holds_tensors_as_they_were(configured, dumped):
    debugger = configured("statistics", "L1", trigger={"on": ["nan"], "calls": 3})
    x = Tensor(np.ones((8, 8), np.float32))
    debugger.start()
    ops.exp(x)
    x[:] = 5.0
    ops.log(Tensor(np.full(3, -1, np.float32)))
    debugger.stop()
    debugger.step()
    saved = np.load(dumped(debugger).folder / "dump_tensor_data" / "Functional.exp.0.forward.input.0.npy")
    assert (saved == 1).all()


# ---- exceptions


@pytest.mark.pipeline
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_an_exception_leaves_what_there_was_and_passes_unchanged(level, configured, dumped, request):
    debugger, net = configured("exception_dump", level, calls=2), layers(broken)
    with pytest.raises(Exception) as without:  # noqa: PT011  # whatever the framework raises
        net(Tensor(X)).asnumpy()
    debugger.start(net)
    with pytest.raises(type(without.value)) as raised:
        net(Tensor(X))
    assert str(raised.value) == str(without.value)
    dump = dumped(debugger)  # on the disk, with the step still open
    cell, call = "Cell.1.Layer.forward.0", "Mint.matmul.0.forward"
    assert dump.names[-1] == (call if level == "L1" else cell)
    (finding,) = findings(dump)["findings"]
    assert finding["call"] == (cell if level == "L0" else call)
    assert finding.get("running", []) == ([cell] if level == "mix" else [])
    assert finding["written"] == dump.names[:2]
    surfaces_later = level == "L0" and request.config.getoption("--asynchronous")  # nothing waits for the function
    place = f'File "{__file__}", line {broken.__code__.co_firstlineno + 1}, in broken'
    assert (place in finding["traceback"]) is not surfaces_later
    assert "msprobe" not in finding["traceback"]
    inputs = [np.load(dump.folder / "dump_tensor_data" / f"{dump.names[-1]}.input.0.npy")]
    assert inputs[0].shape == (3, 4)


def test_a_training_without_exceptions_leaves_nothing(configured):
    debugger = configured("exception_dump")
    train(debugger, layers(None), steps=2)
    assert not list(Path(debugger._settings.dump_path).glob("step*"))


def test_exceptions_of_graphs_are_not_seen(configured):
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(UsageError, match='"exception_dump" collects exceptions raised in calls from Python'):
        configured("exception_dump", "L0").start(nn.SequentialCell([Scale(1.0)]))


KILLED = """
import json, os, sys
import mindspore as ms, numpy as np
from mindspore import Tensor, mint, nn
from msprobe.mindspore import PrecisionDebugger
task, folder = sys.argv[1:]
section = {"trigger": {"on": ["nan"], "calls": 1}} if task == "statistics" else {}
config = folder + "/config.json"
open(config, "w").write(json.dumps({"task": task, "dump_path": folder + "/dump", "level": "L1", task: section}))
debugger = PrecisionDebugger(config)
debugger.start()
x = mint.mul(Tensor(np.full(4, -1.0, np.float32)), 2.0)
try:
    mint.matmul(x, mint.ones((3, 3))) if task == "exception_dump" else mint.log(x)
finally:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("overflow_check", "Mint.log.0.forward"),
        ("statistics", "Mint.log.0.forward"),
        ("exception_dump", "Mint.matmul.0.forward"),
    ],
)
def test_what_was_found_survives_the_process(task, name, tmp_path):
    done = subprocess.run([python("mindspore"), "-c", KILLED, task, str(tmp_path)], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()[-2000:]
    folder = tmp_path / "dump" / "step0" / "rank"
    data = json.loads((folder / "dump.json").read_text())["data"]
    assert list(data)[-1] == name
    files = [r["data_name"] for r in data[name]["input_args"] if "data_name" in r]
    assert [np.load(folder / "dump_tensor_data" / file).size for file in files][:1] == [4]
    assert json.loads((folder / "findings.json").read_text())["findings"][0]["call"] == name
