"""A training of two ranks with a kernel dump of the second alone: `kernel_ranks.py FOLDER`, started by msrun."""

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.sum = ops.AllReduce()

    def construct(self, x):
        return self.sum(ops.exp(x))


def main(folder):
    ms.set_context(mode=ms.GRAPH_MODE)
    debugger = PrecisionDebugger(folder / "config.json", dump_path=folder / "dump", level="L2")
    ms.communication.init()
    rank = ms.communication.get_rank()
    net = Net()
    for step in range(2):
        debugger.start()
        net(Tensor(np.full(3, rank + step, np.float32)))
        debugger.stop()
        debugger.step()
    (folder / f"done{rank}").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
