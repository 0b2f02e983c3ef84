"""Operators of graphs in C: what they report is what those of Python report, and unheard they call no Python."""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from msprobe.graph_save.transport import native, reports
from msprobe.mindspore_debugger import PrecisionDebugger

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "training"))
    import graph_nets

FUNCTIONS = ("enter", "values", "leave", "begin_run", "end_run", "gradient", "parameter_gradients")

pytestmark = pytest.mark.skipif(
    reports.library is None, reason="the operators in C were not built, or not for this version"
)


@pytest.fixture(autouse=True)
def _graph_mode():
    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
    yield
    reports.library.connect(*(getattr(reports, name) for name in FUNCTIONS))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for debugger in list(PrecisionDebugger._known.values()):
        debugger._end_step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None


def written(folder):
    """Every file of a dump; of dump.json without the header, which names the run."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != "run.jsonl":
            content = file.read_bytes()
            found[file.relative_to(folder).as_posix()] = (
                json.dumps(json.loads(content)["data"]) if file.name == "dump.json" else content
            )
    return found


def without(monkeypatch):
    """Graphs that are compiled from here on have the operators of Python."""
    monkeypatch.setattr(reports, "library", None)


@pytest.mark.parametrize("case", graph_nets.CASES)
def test_files_are_those_of_the_operators_of_python(case, tmp_path, monkeypatch):
    before = reports.library.count()
    native_run = graph_nets.train(case, tmp_path / "native", task="tensor")
    assert reports.library.count() > before
    without(monkeypatch)
    python_run = graph_nets.train(case, tmp_path / "python", task="tensor")
    ours, theirs = written(tmp_path / "native"), written(tmp_path / "python")
    assert list(ours) == list(theirs)
    assert [name for name, content in ours.items() if content != theirs[name]] == []
    assert any(name.endswith(".npy") for name in ours)
    np.testing.assert_equal(native_run, python_run)


class Two(nn.Cell):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Dense(2, 3), nn.Dense(3, 1)

    def construct(self, x):
        return self.last(self.first(x)).sum()


def collected(tmp_path, name, net):
    """The debugger of a collected step, its function and input, and the loss and gradients that it gave."""
    debugger = PrecisionDebugger(level="L0", task="statistics", dump_path=str(tmp_path / name))
    function = ms.value_and_grad(net, None, net.trainable_params())
    x = Tensor(np.arange(4, dtype=np.float32).reshape(2, 2))
    debugger.start(net)
    value, gradients = function(x)
    debugger.stop()
    debugger.step()
    return debugger, function, x, [value.asnumpy(), *(each.asnumpy() for each in gradients)]


def test_unheard_operators_call_no_python_and_there_are_three_in_a_call_and_one_for_a_gradient(tmp_path):
    called = dict.fromkeys(FUNCTIONS, 0)

    def counted(name):
        def call(*args):
            called[name] += 1
            return getattr(reports, name)(*args)

        return call

    reports.library.connect(*(counted(name) for name in FUNCTIONS))
    _, function, x, heard = collected(tmp_path, "dump", Two())
    # Two cells; the gradients of both outputs and of the second one's input; no optimizer.
    assert called == {
        "enter": 2,
        "values": 2,
        "leave": 2,
        "begin_run": 1,
        "end_run": 1,
        "gradient": 3,
        "parameter_gradients": 0,
    }
    listened = sum(called.values())
    before = reports.library.count()
    value, gradients = function(x)
    unheard = [value.asnumpy(), *(each.asnumpy() for each in gradients)]
    assert sum(called.values()) == listened
    assert reports.library.count() - before == listened
    np.testing.assert_equal(unheard, heard)


def test_what_raises_in_a_report_never_reaches_the_training(tmp_path, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: raised.append(each.exc_type))

    def fail(*args):
        raise ZeroDivisionError

    reports.library.connect(*[fail] * len(FUNCTIONS))
    net = Two()
    _, function, x, values = collected(tmp_path, "dump", net)
    value, gradients = function(x)
    np.testing.assert_equal(values, [value.asnumpy(), *(each.asnumpy() for each in gradients)])
    assert set(raised) == {ZeroDivisionError}


def test_files_that_stop_has_written_are_not_written_again_by_step(tmp_path):
    net = Two()
    debugger, _, x, _ = collected(tmp_path, "dump", net)
    debugger.start(net)
    net(x)  # without gradients: of those, without an optimizer, the end of a step has more to say
    debugger.stop()
    file = tmp_path / "dump" / "step1" / "rank" / "dump.json"
    before = file.stat()
    debugger.step()
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_without_the_extension_the_operators_of_python_serve(without_kernel):
    assert without_kernel(reports, "msprobe.graph_save._operators").library is None


@pytest.mark.parametrize("version", ["2.7.0", "2.9.1"])
def test_versions_in_which_they_were_not_run_have_the_operators_of_python(version, monkeypatch):
    monkeypatch.setattr(ms, "__version__", version)
    assert not native._can_run()
