"""A training whose code, texts, environment and exceptions hold secrets leaves none of them in its dumps."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

SCRIPT = """
import sys
import torch
from msprobe.pytorch import PrecisionDebugger

net = torch.nn.Linear(2, 2)
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="mix", task=sys.argv[2])
debugger.start(model=net)
y = torch.exp(net(torch.ones(1, 2))); token = "swordfish-a"
z = torch.nn.functional.interpolate(torch.ones(1, 1, 2), scale_factor=2, mode="nearest")
try:
    torch.einsum("--password swordfish-b", y)
except RuntimeError:
    pass
debugger.stop()
debugger.step()
"""


@pytest.mark.parametrize("task", ["statistics", "exception_dump"])
def test_no_file_of_a_dump_holds_a_secret_of_the_training(task, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    environment = {**os.environ, "MSPROBE_RUN": "run --token swordfish-c", "RAY_JOB_ID": "https://u:swordfish-d@h"}
    subprocess.run([sys.executable, "train.py", "dump", task], cwd=tmp_path, env=environment, check=True)
    files = [path for path in (tmp_path / "dump").rglob("*") if path.is_file()]
    held = {path.name: path.read_bytes() for path in files}
    assert {"run.jsonl", "dump.json", "stack.json"} <= set(held)
    assert [name for name, content in held.items() if b"swordfish" in content] == []
    assert b"run --token <redacted" in held["run.jsonl"]
    assert b"train.py, line" in held["stack.json"]
    if task == "statistics":
        assert b'token = \\"<redacted' in held["stack.json"]
        assert b'"nearest"' in held["dump.json"]
