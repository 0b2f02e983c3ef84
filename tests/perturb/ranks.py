"""A rank whose calls are run a second time: `ranks.py DUMP_PATH`."""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import get_rank, init

from msprobe.mindspore import PrecisionDebugger

init()
section = {"pert_mode": "change_value", "list": ["mindspore.ops.mul"]}
config = Path(f"config{get_rank()}.json")
config.write_text(json.dumps({"task": "free_benchmark", "dump_path": sys.argv[1], "free_benchmark": section}))
ms.set_context(mode=ms.PYNATIVE_MODE)
debugger = PrecisionDebugger(config)
for _ in range(2):
    debugger.start()
    ops.mul(Tensor(np.array([1, 2], np.float32)), 2.0)
    debugger.stop()
    debugger.step()
