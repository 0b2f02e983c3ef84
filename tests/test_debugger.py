"""PrecisionDebugger as the user holds it: construction, order of calls, steps, ranks."""

import json
import os
import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.base.errors import SettingsError, UsageError
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

pytestmark = pytest.mark.mindspore

X = Tensor(np.ones((2, 4), np.float32))


@pytest.fixture(autouse=True)
def _alone():
    """Each test starts and ends without debuggers."""
    yield
    for debugger in list(PrecisionDebugger._known.values()):
        debugger._collectors.end_step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None


def test_equal_settings_give_the_same_debugger_and_others_another(tmp_path):
    first = PrecisionDebugger(dump_path=str(tmp_path / "a"))
    first.step()
    assert PrecisionDebugger(dump_path=str(tmp_path / "a")) is first
    other = PrecisionDebugger(dump_path=str(tmp_path / "b"), level="L0")
    assert other is not first
    net = nn.SequentialCell([nn.Dense(4, 4)])
    other.start(net)
    net(X)
    other.stop()
    other.step()
    assert (tmp_path / "b" / "step0" / "rank" / "dump.json").exists(), "its counter is its own"


def test_two_debuggers_on_one_root_part_their_folders(tmp_path, capsys):
    root, net = tmp_path / "dump", nn.SequentialCell([nn.Dense(4, 4)])
    found = {}
    for level in ("L0", "L1", "mix", "L1"):
        found.setdefault(level, PrecisionDebugger(dump_path=str(root), level=level))
        assert PrecisionDebugger(dump_path=str(root), level=level) is found[level], "equal settings are one debugger"
    for debugger in found.values():
        debugger.start(net)
        net(X)
        debugger.stop()
        debugger.step()
    levels = {p.name: json.loads((p / "step0/rank/dump.json").read_text())["level"] for p in tmp_path.iterdir()}
    assert levels == {"dump": "L0", "dump_2": "L1", "dump_3": "mix"}
    logged = [line for line in capsys.readouterr().err.splitlines() if "so this debugger writes to" in line]
    assert len(logged) == 2
    assert all("WARNING" in line and "set another dump_path" in line for line in logged)


def test_monitor_does_nothing_and_says_so_once(tmp_path, capsys):
    debugger = PrecisionDebugger(dump_path=str(tmp_path / "dump"))
    for _ in range(2):
        assert debugger.monitor(nn.SGD([ms.Parameter(X, name="w")])) is None
        PrecisionDebugger.monitor(None)
    assert capsys.readouterr().err.count("monitor(): ") == 1


def test_only_one_is_open_at_a_time(tmp_path):
    a, b = PrecisionDebugger(dump_path=str(tmp_path / "a")), PrecisionDebugger(dump_path=str(tmp_path / "b"))
    a.start()
    with pytest.raises(UsageError, match=r"already started; call its stop\(\) first"):
        b.start()
    a.start()  # once it was started nothing raises
    a.stop()
    b.start()
    a.start()
    assert not b._collectors.is_open
    a.stop()


def test_methods_on_the_class_mean_the_latest_debugger(tmp_path):
    with pytest.raises(UsageError, match="construct a PrecisionDebugger first"):
        PrecisionDebugger.start()
    PrecisionDebugger(dump_path=str(tmp_path))
    PrecisionDebugger.start()
    ops.relu(X)
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    assert "Functional.relu.0.forward" in json.loads((tmp_path / "step0/rank/dump.json").read_text())["data"]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_cells_need_a_model(level, tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level=level)
    with pytest.raises(UsageError, match=f'model cannot be None when level is "{level}"'):
        debugger.start()
    with pytest.raises(UsageError, match="not int"):
        debugger.start([nn.ReLU(), 3])
    assert not list(tmp_path.iterdir())


def test_a_list_of_models_puts_the_index_into_the_names(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L0")
    models = [nn.SequentialCell([nn.ReLU()]), nn.SequentialCell([nn.Tanh()])]
    debugger.start(models)
    models[1](models[0](X))
    debugger.stop()
    debugger.step()
    data = json.loads((tmp_path / "step0/rank/dump.json").read_text())["data"]
    assert list(data) == ["Cell.0.0.ReLU.forward.0", "Cell.1.0.Tanh.forward.0"]


def test_only_the_steps_asked_for_are_collected_and_the_end_is_told(tmp_path, capsys):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), step=[1, "3-4"])
    for _ in range(7):
        debugger.start()
        ops.relu(X)
        debugger.stop()
        debugger.step()
    assert sorted(p.name for p in tmp_path.glob("step*")) == ["step1", "step3", "step4"]
    assert capsys.readouterr().err.count("msprobe ends successfully") == 1


def test_a_single_process_counts_as_rank_0_for_the_filter(tmp_path):
    config = tmp_path / "config.json"
    for rank, collected in ((0, True), (1, False)):
        config.write_text(json.dumps({"dump_path": str(tmp_path / f"d{rank}"), "rank": [rank]}))
        debugger = PrecisionDebugger(str(config))
        debugger.start()
        debugger.stop()
        debugger.step()
        assert (tmp_path / f"d{rank}").exists() == collected


def test_graph_mode_is_refused_at_start(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        with pytest.raises(UsageError, match="PYNATIVE_MODE"):
            debugger.start()
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_a_dump_path_that_cannot_be_written_is_told_at_start(tmp_path):
    (tmp_path / "file").write_text("")
    debugger = PrecisionDebugger(dump_path=str(tmp_path / "file" / "dump"))
    with pytest.raises((UsageError, SettingsError), match="file"):
        debugger.start()


def test_spaces_and_chinese_characters_in_the_path(tmp_path):
    root = tmp_path / "精度 调试" / "第 1 次"
    debugger = PrecisionDebugger(dump_path=str(root), task="tensor")
    debugger.start()
    ops.relu(X)
    debugger.stop()
    debugger.step()
    assert (root / "step0/rank/dump_tensor_data/Functional.relu.0.forward.output.0.npy").exists()


def test_a_process_that_ends_without_stop_leaves_a_finished_dump(tmp_path):
    code = (
        "import numpy as np, mindspore as ms\nfrom mindspore import ops, Tensor\n"
        "from msprobe.mindspore import PrecisionDebugger\n"
        f"PrecisionDebugger(dump_path={str(tmp_path)!r}).start()\n"
        "ops.relu(Tensor(np.ones(3, np.float32)))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "MSPROBE_LOG_LEVEL": "3"})
    assert list(json.loads((tmp_path / "step0/rank/dump.json").read_text())["data"]) == ["Functional.relu.0.forward"]
    assert not (tmp_path / "step0/rank/dump.journal").exists()


def test_the_header_says_what_ran(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    debugger.start()
    debugger.stop()
    dump = json.loads((tmp_path / "step0/rank/dump.json").read_text())
    assert (dump["task"], dump["level"], dump["framework"]) == ("statistics", "L1", "mindspore")
    assert dump["format_version"] == 1
    assert dump["run"]["framework"] == f"mindspore {ms.__version__}"
    assert dump["run"]["settings"]["level"] == "L1"
    assert (dump["run"]["step"], dump["run"]["rank"]) == (0, 0)


def test_behind_the_last_step_nothing_is_asked_any_more(tmp_path):
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L0", step=[0])
    debugger.step()
    debugger.start()
    debugger.stop()
    debugger.step()
