"""What a training with MindSpore imports: `from msprobe.mindspore import PrecisionDebugger, seed_all`."""

seed_all = None
from msprobe.debugger import PrecisionDebugger

__all__ = ["PrecisionDebugger", "seed_all"]
