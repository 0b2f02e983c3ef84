"""The common part of the trainings of both frameworks: the debugger around each step, the loss, and the files."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

STEPS = 6
COLLECTED = (0, 1)


@dataclass
class Run:
    """One rank of a training: the buggy or the fixed variant of a case."""

    folder: Path
    buggy: bool
    rank: int = 0
    ranks: int = 1
    task: str = "tensor"
    collects: bool = True
    losses: list[float] = field(default_factory=list)

    def steps(self, net, count=STEPS, collect=COLLECTED):
        """Yield the numbers of the steps; each is recorded until `update`, if it is one of `collect`."""
        self.debugger = self._debugger(list(collect)) if self.collects else None
        for step in range(count):
            if self.debugger:
                self.debugger.start(net)
            yield step
            if self.debugger:
                self.debugger.stop()
                self.debugger.step()
        (self.folder / f"loss{self.rank}.json").write_text(json.dumps(self.losses))

    def log(self, loss):
        """Stop recording, and keep the loss of this step."""
        if self.debugger:
            self.debugger.stop()
        self.losses.append(float(loss))

    def _debugger(self, steps):
        arguments = {"dump_path": str(self.folder / "dump"), "level": "mix", "task": self.task, "step": steps}
        return self.debugger_class(**arguments)


def numbers(*seed, shape, scale=1.0):
    """Normal numbers of float32, the same for the same seed."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def integers(*seed, shape, below):
    """Integers from 0, the same for the same seed."""
    return np.random.default_rng(seed).integers(0, below, shape)
