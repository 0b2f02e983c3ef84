"""One rank of a monitored training on several, started by msrun: `ranks_mindspore.py FOLDER`."""

import json
import os
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.communication import GlobalComm, get_rank, init
from mindspore.mint.distributed import all_reduce

FOLDER = Path(sys.argv[1])
os.environ["MONITOR_OUTPUT_DIR"] = str(FOLDER / "out")
from msprobe.mindspore import TrainerMon  # noqa: E402  # the folder is read when it begins to write

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
init()
RANK = get_rank()
net = nn.Dense(3, 1, weight_init="ones", bias_init="zeros")
net.set_train()
optimizer = nn.SGD(net.trainable_params(), 0.1)
where = {"enable": True, "cc_pre_hook": True, "cc_codeline": [r"ranks_mindspore\.py\[\d+\]"]}
ops = ["norm", "min", "max", "zeros", "nans", "mean"]
(FOLDER / f"{RANK}.json").write_text(json.dumps({"wg_distribution": True, "ops": ops, "cc_distribution": where}))
monitor = TrainerMon(FOLDER / f"{RANK}.json")
monitor.set_monitor(net, optimizer, dp_group=GlobalComm.WORLD_COMM_GROUP)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
for step in range(2):
    loss, gradients = gradient(Tensor(np.full((2, 3), RANK + 1 + step, np.float32)))
    monitor.loss(loss)
    for each in gradients:
        all_reduce(each)
    all_reduce(Tensor(np.full(2, RANK, np.float32)), async_op=True).wait()
    optimizer(gradients)
monitor.stop()

os.environ["MONITOR_OUTPUT_DIR"] = str(FOLDER / "accumulated")
net = nn.Dense(3, 1, weight_init="ones", bias_init="zeros")
net.set_train()
optimizer = nn.SGD(net.trainable_params(), 0.1)
monitor = TrainerMon(FOLDER / f"{RANK}.json")
monitor.set_monitor(net, optimizer)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
reducer = nn.DistributedGradReducer(optimizer.parameters, mean=True, degree=2)
for step in range(2):
    held = None
    for micro in range(3):
        _, gradients = gradient(Tensor(np.full((1, 3), 100 * step + 10 * micro + RANK + 1, np.float32)))
        held = gradients if held is None else [a + b for a, b in zip(held, gradients, strict=True)]
    optimizer(reducer(tuple(held)))
monitor.stop()
