"""Settings that one framework alone has are refused for the other: by the debugger, and before by `msprobe doctor`."""

import json

import pytest

from msprobe.base.errors import SettingsError
from msprobe.base.settings import load
from msprobe.frameworks.limits import unsupported_by_mindspore, unsupported_by_pytorch

SAVING = ["statistics", "tensor", "overflow_check", "exception_dump"]


@pytest.mark.parametrize("task", SAVING)
def test_pt_files_are_of_pytorch(task, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"task": task, "dump_path": str(tmp_path / "d"), task: {"file_format": "pt"}}))
    settings = load(path)
    assert settings.saves_pt
    assert unsupported_by_pytorch(settings) == ""
    assert f'{task}.file_format: "pt"' in unsupported_by_mindspore(settings)


@pytest.mark.mindspore
def test_the_debugger_of_mindspore_refuses_pt_files(tmp_path):
    pytest.importorskip("mindspore", reason="its debugger refuses")
    from msprobe.mindspore import PrecisionDebugger

    path = tmp_path / "config.json"
    contents = {"task": "tensor", "dump_path": str(tmp_path / "d"), "tensor": {"file_format": "pt"}}
    path.write_text(json.dumps(contents))
    with pytest.raises(SettingsError, match='"pt" writes tensors of PyTorch; tensors of MindSpore'):
        PrecisionDebugger(path)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_kernel_dumps_have_no_pt_files(task, tmp_path):
    path = tmp_path / "config.json"
    contents = {"task": task, "level": "L2", "dump_path": str(tmp_path / "d"), task: {"file_format": "pt"}}
    path.write_text(json.dumps(contents))
    with pytest.raises(SettingsError, match='"pt" is not available at level "L2"'):
        load(path)
