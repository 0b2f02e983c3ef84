"""What a training with MindSpore imports: `from msprobe.mindspore import PrecisionDebugger, seed_all`."""

from msprobe.base.seed import seed_all
from msprobe.callbacks import MsprobeInitStep, MsprobeStep
from msprobe.debugger import PrecisionDebugger

__all__ = ["MsprobeInitStep", "MsprobeStep", "PrecisionDebugger", "seed_all"]
