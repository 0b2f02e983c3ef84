"""A step of a Cell dump where the framework's operator writes the files: its end, its replay.

Not run on such a device.
"""

import shutil
from pathlib import Path

from mindspore import Tensor

from msprobe.base.errors import reason
from msprobe.base.log import once

from .dumped_calls import plan
from .replay import DONE, replay, wait
from .runtime import synchronize
from .telling import Listener
from .tensordump import dump, next_step


class Dumping:
    """The raw files of a run below `{dump_path}/tensordump`; those of a step go when they have become its dump."""

    def __init__(self, dump_path: Path) -> None:
        self._root = dump_path / "tensordump"
        self._step = 0

    def begin(self) -> None:
        """Before a graph is compiled: where its operators write."""
        plan.folder = str(self._root)

    def finish(self, listener: Listener) -> None:
        """Wait for the step's files and tell their calls; where no graph has our operators there are none."""
        if not plan.arguments:
            return
        dump(plan.path(DONE), Tensor(0.0))
        synchronize()
        step = self._root / f"step{self._step}"
        ranks = list(step.glob("rank*")) if step.is_dir() else []
        if not ranks:
            once(f"no files in {step}", f"{step}: the framework has written no tensors of this step")
        for rank in ranks:
            wait(rank)
            replay(rank, plan, listener)

    def next_step(self) -> None:
        """Have the operator count a step in which graphs may have run, and remove its files, read or not.

        Steps before the first graph are not counted, here and there.
        """
        if not plan.arguments:
            return
        try:
            next_step()
        except Exception as cause:  # a debugger never stops the training because of itself
            what = f"the framework could not count a step of its tensor files: {reason(cause)}"
            once(what, f"{what}; the training goes on")
        shutil.rmtree(self._root / f"step{self._step}", ignore_errors=True)
        self._step += 1
