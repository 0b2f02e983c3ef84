"""Runs the small transformer of `megatron_rank.py` in a parallel layout, each rank a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path


def train(folder, *, tp=1, pp=1, vpp=1, dp=1, task="statistics", level="mix", sequence=False, faults=(None,)):
    """A step of two micro batches for each of the faults; gives the folder of the dumps."""
    folder.mkdir(parents=True)
    settings = {"folder": str(folder / "dump"), "meeting": str(folder / "meeting"), "tp": tp, "pp": pp, "vpp": vpp}
    settings |= {"dp": dp, "task": task, "level": level, "sequence": sequence, "faults": faults}
    (folder / "settings.json").write_text(json.dumps(settings))
    script = Path(__file__).with_name("megatron_rank.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    commands = [[sys.executable, str(script), str(folder / "settings.json"), str(n)] for n in range(tp * pp * dp)]
    running = [subprocess.Popen(c, stderr=subprocess.PIPE, text=True, env=environment) for c in commands]
    errors = [process.communicate(timeout=300)[1] for process in running]
    assert not any(process.returncode for process in running), "\n".join(errors)
    return folder / "dump"
