"""Task `graft` with PyTorch's API on MindSpore: a faulty training in which everything is grafted equals the golden."""

import json

import pytest

msadapter = pytest.importorskip("msadapter")  # before torch: it replaces it
from small_net import filled, train  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]

ALL = ["forward", "backward", "inputs", "incoming", "parameters", "update"]


def faulty():
    net = filled()
    net.blocks[0].scale *= 1.5
    return net


def test_a_run_in_which_everything_is_grafted_equals_the_golden_bitwise(debugger_class, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    without = train(filled())
    assert train(faulty()) != without, "the fault has an effect"
    train(filled(), debugger_class(task="tensor", level="mix", dump_path=tmp_path / "golden"))
    section = {"golden": str(tmp_path / "golden"), "calls": "*", "what": ALL}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"task": "graft", "level": "mix", "dump_path": str(tmp_path / "out"), "graft": section}))
    assert train(faulty(), debugger_class(path)) == without
    header = json.loads((tmp_path / "out/step0/rank/dump.json").read_text())["run"]["grafted"]
    assert header["values"] > header["changed"] > 0
