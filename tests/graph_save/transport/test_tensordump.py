"""Cells of graphs on Ascend, up to the door: what is planted there, and what becomes of the files it would write.

The framework's operator `TensorDump` has no kernel on a CPU. The graph is compiled for it here and refused by the
framework; the files are written by hand, named as the documentation of the operator says.
"""

import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from msprobe.base.scope import Scope
from msprobe.base.settings import CollectOptions
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
from msprobe.graph_save.calls import GraphCalls, GraphOnlyContext
from msprobe.graph_save.transport import tensordump
from msprobe.store.writer import Writer

pytestmark = pytest.mark.mindspore


class Twice(nn.Cell):
    """A cell around a layer that it calls two times."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2, has_bias=False)

    def construct(self, x, add=None):
        return self.fc(self.fc(x)) + add["one"]


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.twice = Twice()

    def construct(self, x):
        return self.twice(x, add={"one": x, "two": 2}).sum()


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """The plan that a compilation for TensorDump leaves, and the dump of the step in which a CPU refused it."""
    patch = pytest.MonkeyPatch()
    patch.setattr(tensordump.dumps, "_function", lambda: True)
    patch.setattr(tensordump, "plan", tensordump.Plan("/run/tensordump"))
    ms.set_context(mode=ms.GRAPH_MODE)
    folder = tmp_path_factory.mktemp("tensordump")
    net = Net()
    debugger = PrecisionDebugger(level="L0", dump_path=str(folder))
    try:
        debugger.start(net)
        result = ms.value_and_grad(net, None, net.trainable_params())(Tensor([[1.0, 2.0]], ms.float32))
        debugger.stop()
        debugger.step()
        yield tensordump.plan, json.loads((folder / "step0" / "rank" / "dump.json").read_text()), result
    finally:
        PrecisionDebugger._known.pop(debugger._settings)
        patch.undo()
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_the_operator_is_chosen_and_where_it_has_no_kernel_the_training_goes_on_without(refused):
    _, dump, (loss, _) = refused
    assert np.isfinite(loss.asnumpy())
    (logged,) = dump["missing"]
    assert logged["part"] == "graph"
    assert "TensorDump" in logged["cause"]


def test_what_the_compiler_read_is_known(refused):
    plan = refused[0]
    assert set(plan.arguments) == {"Cell.twice.Twice", "Cell.twice.fc.Dense"}
    inputs, keywords = plan.arguments["Cell.twice.Twice"]
    assert inputs.nested == ("tuple", (("tensor", ms.float32),))
    assert keywords.nested == (
        "dict",
        ("add",),
        (("dict", ("one", "two"), (("tensor", ms.float32), ("constant", 2, int, "2"))),),
    )
    assert plan.values["Cell.twice.Twice.forward.kwargs.add.one"] == (
        *("kwargs", "add.one", "add.one", True),
        *(ms.float32, (1, 2)),
    )
    assert plan.path("Cell.a.begin") == "/run/tensordump/{step}/{rank}/Cell.a.begin"


FORWARD = [
    ("Cell.twice.Twice.begin", 0),
    ("Cell.twice.Twice.forward.input.0", [[1, 2]]),
    ("Cell.twice.Twice.forward.kwargs.add.one", [[1, 2]]),
    ("Cell.twice.fc.Dense.begin", 0),
    ("Cell.twice.fc.Dense.forward.parameters.weight", [[1, 0], [0, 2]]),
    ("Cell.twice.fc.Dense.forward.input.0", [[1, 2]]),
    ("Cell.twice.fc.Dense.forward.output.0", [[1, 4]]),
    ("Cell.twice.fc.Dense.end", 0),
    ("Cell.twice.fc.Dense.begin", 0),
    ("Cell.twice.fc.Dense.forward.parameters.weight", [[1, 0], [0, 2]]),
    ("Cell.twice.fc.Dense.forward.input.0", [[1, 4]]),
    ("Cell.twice.fc.Dense.forward.output.0", [[1, 8]]),
    ("Cell.twice.fc.Dense.end", 0),
    ("Cell.twice.Twice.forward.output.0", [[2, 10]]),
    ("Cell.twice.Twice.end", 0),
]
BACKWARD = [
    ("Cell.twice.Twice.backward.output.0", [[1, 1]]),
    ("Cell.twice.fc.Dense.backward.output.0", [[1, 1]]),
    ("Cell.twice.fc.Dense.backward.input.0", [[1, 2]]),
    ("Cell.twice.fc.Dense.backward.output.0", [[1, 2]]),
]


@pytest.fixture
def replayed(refused, tmp_path):
    """The dump that becomes of the files of one step; every second gradient lies between files of the forward."""
    raw = tmp_path / "raw"
    raw.mkdir()
    events = FORWARD[:-2] + BACKWARD[:1] + FORWARD[-2:] + BACKWARD[1:]
    for number, (stem, value) in enumerate(events, 90):  # past 99: names do not sort as numbers do
        dtype = "int32" if stem.endswith(("begin", "end")) else "float32"
        np.save(raw / f"{stem}_{dtype}_{number}.npy", np.array(value, dtype))
    np.save(raw / "something_else_float32_7.npy", np.zeros(1, np.float32))
    writer = Writer(tmp_path / "dump", {"task": "statistics", "level": "L0", "framework": "mindspore"})
    calls = GraphCalls(CollectOptions(data_mode=_all()), writer, Scope("L0"), GraphOnlyContext())
    tensordump.replay(raw, refused[0], calls)
    calls.flush()
    writer.close()
    return tmp_path / "dump"


def _all():
    from msprobe.base.scope import DataMode

    return DataMode()


def test_files_become_the_calls_in_the_order_of_the_program(replayed):
    data = json.loads((replayed / "dump.json").read_text())["data"]
    assert list(data) == [
        *("Cell.twice.fc.Dense.forward.0", "Cell.twice.fc.Dense.forward.1", "Cell.twice.Twice.forward.0"),
        *("Cell.twice.fc.Dense.backward.1", "Cell.twice.fc.Dense.backward.0", "Cell.twice.Twice.backward.0"),
    ]
    construct = json.loads((replayed / "construct.json").read_text())
    assert construct["Cell.twice.fc.Dense.forward.1"] == "Cell.twice.Twice.forward.0"
    assert construct["Cell.twice.fc.Dense.backward.1"] == "Cell.twice.Twice.backward.0"
    assert construct["Cell.twice.Twice.forward.0"] is None


def test_values_and_gradients_belong_to_their_calls(replayed):
    data = json.loads((replayed / "dump.json").read_text())["data"]
    assert data["Cell.twice.fc.Dense.forward.0"]["output"][0]["Max"] == 4.0
    assert data["Cell.twice.fc.Dense.forward.1"]["output"][0]["Max"] == 8.0
    assert data["Cell.twice.fc.Dense.forward.1"]["parameters"]["weight"]["Mean"] == 0.75
    entry = data["Cell.twice.Twice.forward.0"]
    assert entry["input_kwargs"]["add"]["one"]["Norm"] == pytest.approx(5**0.5)
    assert entry["input_kwargs"]["add"]["two"] == {"type": "int", "value": 2}
    # The backward runs the last call first: the first gradient is that of call 1.
    assert data["Cell.twice.fc.Dense.backward.1"]["input"][0]["Max"] == 1.0
    assert data["Cell.twice.fc.Dense.backward.1"]["output"][0]["Max"] == 2.0
    assert data["Cell.twice.fc.Dense.backward.0"]["input"][0]["Max"] == 2.0
    assert data["Cell.twice.fc.Dense.backward.0"]["output"] == [None]


def test_a_step_whose_last_file_does_not_come_is_said(tmp_path, capsys):
    assert not tensordump.wait(tmp_path, timeout=0.0)
    assert "did not write all tensors of a step" in capsys.readouterr().err
    np.save(tmp_path / "step.done_float32_12.npy", np.zeros(()))
    assert tensordump.wait(tmp_path, timeout=0.0)


def test_where_no_graph_has_the_operators_a_step_asks_nothing_of_the_framework(tmp_path, monkeypatch):
    """A PyNative training without `@jit` must neither run an operator of ours at each step nor wait for its files."""
    monkeypatch.setattr(tensordump, "plan", tensordump.Plan())
    for name in ("dump", "next_step", "wait"):
        monkeypatch.setattr(tensordump, name, lambda *_: pytest.fail("asked"))
    step = tensordump.TensorFiles(tmp_path)
    step.begin()
    step.finish(None)
    step.next_step()


def test_files_of_a_step_that_nobody_reads_go_and_a_failure_to_count_it_is_said(tmp_path, monkeypatch, capsys):
    def no_operator():
        raise RuntimeError("no such operator")

    monkeypatch.setattr(tensordump, "plan", tensordump.Plan(arguments={"Cell.a.A": ((), ())}))
    monkeypatch.setattr(tensordump, "next_step", no_operator)
    for number in range(2):
        (tmp_path / "tensordump" / f"step{number}" / "rank0").mkdir(parents=True)
    tensordump.TensorFiles(tmp_path).next_step()
    assert [path.name for path in (tmp_path / "tensordump").iterdir()] == ["step1"]
    assert "RuntimeError: no such operator" in capsys.readouterr().err
