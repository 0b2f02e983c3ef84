"""One rank of a training whose gradients are the rank's number; started by msrun: `ranks.py FOLDER`."""

import sys

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.communication import get_rank, init

from msprobe.mindspore import PrecisionDebugger

init()
optimizer = nn.SGD([Parameter(Tensor(np.zeros(3), ms.float32), name="w")], 0.1)
debugger = PrecisionDebugger(task="grad_probe", dump_path=sys.argv[1])
debugger.monitor(optimizer)
for step in range(2):
    optimizer((Tensor(np.full(3, get_rank() * 10 + step), ms.float32),))
debugger.stop()
