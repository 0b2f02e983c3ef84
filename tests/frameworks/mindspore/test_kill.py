"""A training that is killed at any moment loses no record that was finished."""

import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from preloaded import python

from msprobe.cli import main

pytestmark = pytest.mark.mindspore

ENDLESS = Path(__file__).parents[2] / "training" / "endless.py"
KILLS = 50


def killed(folder, seed):
    """What a training reported before it was killed: after some number of reports and a short, odd while."""
    rng = random.Random(seed)
    wanted, breath = rng.randrange(1, 150), rng.random() * 2e-3
    with subprocess.Popen(
        [python("mindspore"), str(ENDLESS), str(folder)],
        env={**os.environ, "MSPROBE_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        reports = [process.stdout.readline()]
        assert reports[0] == "0 ready\n"
        reports += [process.stdout.readline() for _ in range(wanted)]
        threading.Event().wait(breath)
        process.send_signal(signal.SIGKILL)
        reports += process.stdout.readlines()
    return [tuple(line.split()) for line in reports[1:] if line.endswith("\n")]


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(KILLS))
def test_every_finished_record_is_there_after_doctor(seed, tmp_path, capsys):
    reports = killed(tmp_path, seed)
    assert reports
    assert main(["doctor", str(tmp_path)]) in (0, 1)
    steps, complete = {}, []
    for step, name in reports:
        folder = tmp_path / f"step{step}" / "rank"
        data = steps.setdefault(step, json.loads((folder / "dump.json").read_text())["data"])
        for part in data[name].values():
            for record in part:
                if isinstance(record, dict) and record.get("type") == "mindspore.Tensor":
                    if "data_name" not in record:  # its file still waited for the writer
                        assert name in lost(folder)
                        continue
                    array = np.load(folder / "dump_tensor_data" / record["data_name"])
                    assert (list(array.shape), float(array.max())) == (record["shape"], record["Max"])
                    complete.append(name)
    assert complete or len(reports) < 50, "most tensors had time to be written"
    assert not list(tmp_path.rglob("dump.journal")), "nothing is left to repair"


def lost(folder):
    """The calls of which the dump says that something is missing."""
    return [item["name"] for item in json.loads((folder / "dump.json").read_text())["missing"]]
