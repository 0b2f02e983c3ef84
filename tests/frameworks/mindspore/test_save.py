"""`PrecisionDebugger.save`: without start, on the class, in compiled functions, in processes that end or are killed."""

import json
import subprocess

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops
from preloaded import python
from saved_by_hand import GRID, statistics

from msprobe.cli import main
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

pytestmark = pytest.mark.mindspore


@pytest.fixture
def debugging(tmp_path):
    """Makes debuggers, at level debug where nothing else is asked for; all are ended when the test ends."""
    made = []

    def make(**settings):
        config = tmp_path / f"config{len(made)}.json"
        config.write_text(json.dumps({"dump_path": str(tmp_path / "dump"), "level": "debug", **settings}))
        made.append(PrecisionDebugger(config))
        return made[-1]

    yield make
    for debugger in made:
        debugger.step()
        PrecisionDebugger._known.pop(debugger._settings)
    PrecisionDebugger._latest = None


def saved(root, step=0):
    return json.loads((root / "dump" / f"step{step}" / "rank" / "debug.json").read_text())


def test_save_needs_no_start_and_may_be_called_on_the_class(debugging, tmp_path):
    debugger = debugging(task="tensor")

    def loss(x):
        y = x * 2
        PrecisionDebugger.save(y, "y")
        debugger.save(variable=y, name="y", save_backward=False)
        return (y * y).sum()

    for _ in range(2):
        ms.grad(loss)(Tensor(GRID))
        PrecisionDebugger.step()
    for step in (0, 1):
        dump = saved(tmp_path, step)
        assert list(dump["data"]) == ["y.0.debug", "y.1.debug", "y_grad.0.debug"]
        assert (dump["task"], dump["level"], dump["run"]["step"]) == ("tensor", "debug", step)
        assert dump["run"]["device"] == "CPU"
        tensors = tmp_path / "dump" / f"step{step}" / "rank" / "dump_tensor_data"
        assert dump["dump_data_dir"] == str(tensors)
        np.testing.assert_array_equal(np.load(tensors / "y_grad.0.debug.npy"), GRID * 4)


def test_start_and_stop_beside_it_do_nothing(debugging, tmp_path):
    debugger = debugging()
    debugger.start()
    ops.relu(Tensor(GRID))
    debugger.stop()
    assert not (tmp_path / "dump").exists()
    debugger.save(1, "one", save_backward=False)
    debugger.step()
    assert list(saved(tmp_path)["data"]) == ["one.0.debug"]


@pytest.mark.parametrize("settings", [{"level": "L1"}, {"rank": [1]}, {"step": [1]}])
def test_nothing_is_saved_at_another_level_rank_or_step(settings, debugging, tmp_path):
    debugger = debugging(**settings)
    debugger.save(Tensor(GRID), "x")
    debugger.step()
    assert not (tmp_path / "dump").exists()
    debugger.save(Tensor(GRID), "x")
    debugger.step()
    assert (tmp_path / "dump" / "step1").exists() == ("step" in settings)


def compiled(capture, debugger):
    """The gradient of a compiled function that saves."""

    @ms.jit(capture_mode=capture)
    def double(x):
        y = x * 2
        debugger.save({"y": y}, "y")
        for turn in range(2):
            debugger.save([y, turn], f"y{turn}", save_backward=False)
        return y

    return ms.value_and_grad(lambda x: double(x).sum())


def test_save_inside_a_compiled_function_leaves_it_as_it_is(debugging, logged, tmp_path):
    debugger = debugging()
    gradient = compiled("ast", debugger)
    for _ in range(2):
        np.testing.assert_array_equal(gradient(Tensor(GRID))[1].asnumpy(), np.full_like(GRID, 2))
    assert len([line for line in logged() if "has no effect inside @jit and in graph mode" in line]) == 1
    debugger.step()
    assert not (tmp_path / "dump").exists()


def test_save_inside_a_function_captured_from_bytecode_gives_values_without_gradients(debugging, tmp_path):
    debugger = debugging()
    gradient = compiled("bytecode", debugger)
    for _ in range(2):
        np.testing.assert_array_equal(gradient(Tensor(GRID))[1].asnumpy(), np.full_like(GRID, 2))
    debugger.step()
    data = saved(tmp_path)["data"]
    for number in (0, 1):
        assert data[f"y.{number}.debug"] == {"y": statistics(GRID * 2)}
        assert data[f"y1.{number}.debug"] == [statistics(GRID * 2), {"type": "int", "value": 1}]
        assert data[f"y_grad.{number}.debug"] == {"y": None}


def test_two_dumps_of_saves_are_compared(debugging, tmp_path, monkeypatch):
    debugger = debugging(task="tensor")
    for factor in (1, 2):
        debugger.save({"same": Tensor(GRID), "other": Tensor(GRID * factor)}, "v", save_backward=False)
        debugger.step()
    dumps = [str(tmp_path / "dump" / f"step{step}") for step in (0, 1)]
    assert main(["compare", "-tp", dumps[0], "-gp", dumps[1], "-o", str(tmp_path / "report"), "--format", "json"]) == 1
    (report,) = (tmp_path / "report").glob("*.json")
    rows = {row["NPU Name"]: row["Verdict"] for row in json.loads(report.read_text())["rows"]}
    assert rows == {"v.0.debug.same": "pass", "v.0.debug.other": "error"}


DYING = """
import os, sys
from mindspore import Tensor
from msprobe.mindspore import PrecisionDebugger
PrecisionDebugger(level="debug", dump_path="dump", task="tensor")
PrecisionDebugger.save([Tensor([1.0, 2.0]), 3], "a")
PrecisionDebugger.save(Tensor([1.0, 2.0]), "b")
if "killed" in sys.argv:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_a_process_without_step_leaves_what_it_saved(how, tmp_path):
    done = subprocess.run([python("mindspore"), "-c", DYING, how], cwd=tmp_path, check=False)
    assert done.returncode == (0 if how == "ended" else -9)
    if how == "killed":
        assert main(["doctor", str(tmp_path / "dump")]) in (0, 1)  # 1 where the last tensor was not on the disk yet
    dump = saved(tmp_path)
    assert list(dump["data"]) == ["a.0.debug", "a_grad.0.debug", "b.0.debug", "b_grad.0.debug"]
    assert dump["data"]["a_grad.0.debug"] == [None, None]
    assert ("rebuilt" in dump) == (how == "killed")
