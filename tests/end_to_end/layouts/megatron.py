"""Runs the small transformer of `megatron_rank.py` in a parallel layout, each rank a process of its own."""

import json
import os
import subprocess
from pathlib import Path

from preloaded import python


class Training:
    """Processes that train; `end` waits for them and gives the folder of their dumps."""

    def __init__(self, folder, *, tp=1, pp=1, dp=1, runs):
        folder.mkdir(parents=True)
        self._folder = folder
        settings = folder / "settings.json"
        settings.write_text(json.dumps({"folder": str(folder), "tp": tp, "pp": pp, "dp": dp, "runs": runs}))
        script = Path(__file__).with_name("megatron_rank.py")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        self._running = [
            subprocess.Popen(
                [python("torch", "torch._dynamo"), str(script), str(settings), str(rank)],
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in range(tp * pp * dp)
        ]

    def end(self):
        errors = [process.communicate(timeout=600)[1] for process in self._running]
        assert not any(process.returncode for process in self._running), "\n".join(errors)
        return self._folder
