"""A worker as the driver sees it: a process that is idle until it is asked."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compat.other_tool import clean_environment

WORKER = Path(__file__).parent / "worker.py"
LAST_WORDS = 2000


@dataclass(frozen=True)
class Kind:
    """What is collected."""

    level: str
    task: str

    @property
    def config(self):
        """The config.json that means it, which both tools read.

        `md5` and `crc32c` are statistics with a digest, `packed` is task
        tensor with all tensors in one file, `idle` is statistics of a step that never comes, `trigger` is
        statistics that are written where something is not finite.
        """
        if self.task == "idle":
            return {"task": "statistics", "level": self.level, "step": [1_000_000], "statistics": {}}
        if self.task in ("md5", "crc32c"):
            return {"task": "statistics", "level": self.level, "statistics": {"summary_mode": self.task}}
        if self.task == "packed":
            return {"task": "tensor", "level": self.level, "format": "packed", "tensor": {}}
        if self.task == "trigger":
            return {"task": "statistics", "level": self.level, "statistics": {"trigger": {"on": ["nan", "inf"]}}}
        return {"task": self.task, "level": self.level, self.task: {}}


class Failed(Exception):
    """The worker could not do it."""


class Process:
    """One worker, started. `kind` None: a process without any debugger."""

    def __init__(self, python, tool, net, kind, scratch, asynchronous, variables=None, worker=WORKER):
        name = f"{tool}-{net}-{kind.level}-{kind.task}" if kind else f"none-{net}-{id(self)}"
        self.kind, self.folder, self._talk = kind, scratch / name, scratch / f"{name}.log"
        self.folder.mkdir()
        command = [python, str(worker), "--tool", tool if kind else "none", "--net", net, "--folder", str(self.folder)]
        if kind:
            config = scratch / f"{name}.json"
            config.write_text(json.dumps({**kind.config, "dump_path": str(self.folder)}))
            command += ["--config", str(config), "--level", kind.level]
        if asynchronous:
            command.append("--asynchronous")
        with self._talk.open("w") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            environment = {**clean_environment(), **(variables or {})}
            self._process = subprocess.Popen(command, cwd=scratch, env=environment, text=True, **pipes)
        self.pid = self._process.pid
        try:
            self._answer()
        except Failed:
            self.end()
            raise

    def ask(self, command):
        """The answer to one command."""
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self):
        """Let it go."""
        self._process.stdin.close()
        self._process.wait()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            words = self._talk.read_text()[-LAST_WORDS:]
            print(f"a worker ended: {self.folder.name}\n{words}", file=sys.stderr)
            raise Failed(f"the process ended with {self._process.wait()}")
        result = json.loads(line)
        if "failed" in result:
            raise Failed(result["failed"])
        return result
