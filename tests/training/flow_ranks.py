"""One rank of a flow on several: `msrun ... flow_ranks.py FOLDER`. The scheduler, which `msrun` starts with the same
script, never returns from `init()`.
"""

import faulthandler
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.communication import get_rank, init

from msprobe.core import MsProbe

faulthandler.dump_traceback_later(240, exit=True)  # nothing here may hang for ever
ms.set_context(mode=ms.PYNATIVE_MODE)
settings = {"msprobe": True, "key_data_dump": True, "configurations_dump": True, "reference_dump": True, "step_end": 1}
MsProbe.config_init({**settings, "dump_path": f"{sys.argv[1]}/flow"})
init()
MsProbe.save_configs({"reference": {"layers": 1}})
net = nn.SequentialCell(nn.ReLU())
for step in range(2):
    x = Tensor(np.full(3, 10 * get_rank() + step, np.float32))
    MsProbe.debugger_start(net, "reference_compute_log_prob")
    out = net(x)
    MsProbe.debugger_stop("reference_compute_log_prob")
    MsProbe.save_data("ref_log_prob", out)
    MsProbe.save_data({"values": out})
    MsProbe.step()
faulthandler.cancel_dump_traceback_later()
