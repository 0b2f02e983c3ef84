"""A step of a Cell dump where the framework's operator writes the files: which steps it writes, its end, its replay.

Not run on such a device.
"""

import shutil
from pathlib import Path

from mindspore import Tensor, _c_expression

from msprobe.base.log import once

from .dumped_calls import plan
from .replay import DONE, replay, wait
from .runtime import synchronize
from .telling import Listener
from .tensordump import dump, next_step


class Dumping:
    """The raw files of a run below `{dump_path}/tensordump`; those of a step go when they have become its dump."""

    def __init__(self, dump_path: Path, steps: tuple[int, ...]) -> None:
        self._root = dump_path / "tensordump"
        self._steps = steps
        self._step = 0
        self._begun = False

    def begin(self) -> None:
        """Before a graph is compiled: where its operators write, and in which steps."""
        if self._begun:
            return
        self._begun = True
        plan.folder = str(self._root)
        if self._steps and hasattr(_c_expression, "_tensordump_set_step"):
            _c_expression._tensordump_set_step(list(self._steps))

    def finish(self, listener: Listener) -> None:
        """Wait for the step's files, tell their calls, and remove them."""
        dump(plan.path(DONE), Tensor(0.0))
        synchronize()
        step = self._root / f"step{self._step}"
        ranks = list(step.glob("rank*")) if step.is_dir() else []
        if not ranks:
            once(f"no files in {step}", f"{step}: the framework has written no tensors of this step")
        for rank in ranks:
            wait(rank)
            replay(rank, plan, listener)
        shutil.rmtree(step, ignore_errors=True)

    def next_step(self) -> None:
        """Have the operator count the step."""
        if self._begun:
            next_step()
        self._step += 1
