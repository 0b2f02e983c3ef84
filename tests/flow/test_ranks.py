"""A flow on two ranks: real processes, started by `msrun`, on a CPU."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="msrun starts its ranks")

SCRIPT = Path(__file__).parents[1] / "training" / "flow_ranks.py"
LIMIT = 300


def launch(folder):
    """Run the flow on two ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mindspore.parallel.cluster.run", "--worker_num=2", "--local_worker_num=2"]
    command += ["--master_addr=127.0.0.1", f"--master_port={port}", f"--log_dir={folder / 'logs'}", "--join=True"]
    command += [f"--cluster_time_out={LIMIT}", str(SCRIPT), str(folder)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # msrun starts whatever `python` is first
    environment = {**os.environ, "PATH": path, "MSPROBE_LOG_LEVEL": "2", "GLOG_v": "3"}
    with subprocess.Popen(
        command, start_new_session=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired as cause:
            said = str(cause)
        finally:
            with suppress(ProcessLookupError):  # the session of our own launch: msrun and its ranks, if any are left
                os.killpg(process.pid, signal.SIGKILL)
    logs = "".join(f"\n{log.name}: {log.read_text()[-3000:]}" for log in sorted((folder / "logs").glob("worker*")))
    assert process.returncode == 0, f"{said[-3000:]}{logs}"


def test_each_rank_of_a_flow_has_its_own_folders_and_values(tmp_path):
    launch(tmp_path)
    flow = tmp_path / "flow"
    for step in (0, 1):
        for rank in (0, 1):
            place = f"step{step}/rank{rank}"
            greatest = 10.0 * rank + step
            dump = json.loads((flow / "reference_compute_log_prob" / place / "dump.json").read_text())
            assert dump["run"]["rank"] == rank
            assert dump["data"]["Cell.0.ReLU.forward.0"]["output"][0]["Max"] == greatest
            (file,) = (flow / "data" / "ref_log_prob" / place).glob("*.npy")
            assert file.name == f"ref_log_prob_float32_{step}.npy"
            np.testing.assert_array_equal(np.load(file), np.full(3, greatest, np.float32))
            single = json.loads((flow / "data" / "values" / place / "micro_step0" / "values.json").read_text())
            assert single["data"]["max"] == greatest
    for stage in ("reference_compute_log_prob", "data/ref_log_prob", "data/values"):
        assert sorted(p.name for p in (flow / stage / "step0").iterdir()) == ["rank0", "rank1"]
    assert json.loads((flow / "configurations.json").read_text()) == {"reference": {"layers": 1}}
