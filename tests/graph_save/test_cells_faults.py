"""Cells in graph mode when something goes wrong: in the user's network, in ours, or with the process."""

import json
import signal
import subprocess
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from preloaded import python

from msprobe.base import log
from msprobe.cli import main
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
from msprobe.graph_save import instrumentation

pytestmark = [pytest.mark.mindspore, pytest.mark.part(2)]

TRAINING = Path(__file__).parents[1] / "training"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(TRAINING))
    import graph_nets

X = Tensor(np.ones((2, 3), np.float32))


@pytest.fixture(autouse=True)
def _graph_mode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the framework writes the graph that it cannot compile
    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
    log._logged.clear()
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for debugger in list(PrecisionDebugger._known.values()):
        debugger._end_step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None


def planted(net):
    """The cells that have something of ours."""
    return [name for name, cell in net.cells_and_names() if "construct" in vars(cell)]


class Wrong(nn.Cell):
    """Cannot be compiled: the shapes do not fit."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Dense(3, 4), nn.Dense(5, 2)

    def construct(self, x):
        return self.last(self.first(x))


def test_an_error_of_the_network_is_raised_as_without_us(tmp_path):
    with pytest.raises(ValueError) as bare:  # noqa: PT011  # whatever the framework says is compared below
        Wrong()(X)
    net = Wrong()
    debugger = PrecisionDebugger(level="L0", dump_path=str(tmp_path / "dump"))
    debugger.start(net)
    with pytest.raises(ValueError) as ours:  # noqa: PT011
        net(X)
    debugger.stop()
    debugger.step()
    assert str(ours.value).splitlines()[0] == str(bare.value).splitlines()[0]
    assert planted(net) == []
    assert json.loads((tmp_path / "dump/step0/rank/dump.json").read_text())["data"] == {}


def broken(original, *_):
    """A construct that no compiler takes."""

    def construct(self, *args):
        return of_a_name_that_is_not_there(args)  # noqa: F821  # that is what cannot be compiled

    return construct


def test_a_graph_that_cannot_be_compiled_with_ours_is_compiled_without(tmp_path, monkeypatch, capsys):
    bare = graph_nets.train("convolution", steps=2)
    monkeypatch.setattr(instrumentation, "reporting_construct", broken)
    net = graph_nets.made("convolution")
    assert graph_nets.train("convolution", tmp_path / "dump", steps=2, net=net) == bare
    assert planted(net) == []
    dump = json.loads((tmp_path / "dump/step0/rank/dump.json").read_text())
    (item,) = dump["missing"]
    assert (item["name"], item["part"]) == ("step", "graph")
    assert "a graph was compiled without the debugger's operators" in item["cause"]
    assert "of_a_name_that_is_not_there" in item["cause"]
    assert capsys.readouterr().err.count("could not be compiled with the debugger's operators") == 1


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A training that was killed when 9 lines of calls stood in the journal of step 1."""
    folder = tmp_path_factory.mktemp("killed") / "dump"
    command = [python("mindspore"), str(TRAINING / "graph_nets.py"), str(folder), "9"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return folder


def test_a_killed_training_leaves_what_it_had_told(killed, capsys):
    before = json.loads((killed / "step0/rank/dump.json").read_text())["data"]
    assert len(before) == 15
    assert not (killed / "step1/rank/dump.json").exists()
    assert main(["doctor", str(killed)]) in (0, 1)
    capsys.readouterr()
    after = json.loads((killed / "step1/rank/dump.json").read_text())
    assert "rebuilt" in after
    calls = list(after["data"])
    assert calls[:6] == list(before)[:6], "the forward came first"
    assert len(calls) == 9
    assert set(calls) <= set(before)
    for name in calls[:6]:
        (record,) = after["data"][name]["output"]
        assert record["shape"] == before[name]["output"][0]["shape"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Dumps of one network: of a graph, of PyNative, and of a graph with another weight in the last layer."""
    root = tmp_path_factory.mktemp("compared")
    wrong = graph_nets.made("convolution")
    wrong.fc.weight.set_data(wrong.fc.weight * 1.5)
    graph_nets.train("convolution", root / "graph", steps=1)
    graph_nets.train("convolution", root / "python", steps=1, graph=False)
    graph_nets.train("convolution", root / "wrong", steps=1, net=wrong)
    return root


def compare(target, golden, tmp_path, capsys):
    """The exit code and the answer of `msprobe compare`."""
    code = main(["compare", "-tp", str(target / "step0"), "-gp", str(golden / "step0"), "-o", str(tmp_path / "out")])
    return code, capsys.readouterr().out


def test_graph_and_pynative_are_compared_and_equal(compared, tmp_path, capsys):
    code, logged = compare(compared / "graph", compared / "python", tmp_path, capsys)
    assert code == 0, logged
    assert " 0 warning, 0 error, 0 unjudged" in logged


def test_the_first_wrong_call_is_found_across_modes(compared, tmp_path, capsys):
    code, logged = compare(compared / "wrong", compared / "python", tmp_path, capsys)
    assert code == 1
    assert "first wrong call: Cell.fc.Dense.forward.0" in logged
    assert "fc.weight" in logged
