"""What a training with MindSpore imports: `from msprobe.mindspore import PrecisionDebugger, save, seed_all`."""

from msprobe.base.seed import seed_all
from msprobe.callbacks import MsprobeInitStep, MsprobeStep
from msprobe.debugger import PrecisionDebugger
from msprobe.graph_save.save import flush, save, save_grad, step

__all__ = [
    "MsprobeInitStep",
    "MsprobeStep",
    "PrecisionDebugger",
    "flush",
    "save",
    "save_grad",
    "seed_all",
    "step",
]
