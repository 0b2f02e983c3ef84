"""What a training with MindSpore imports: `from msprobe.mindspore import PrecisionDebugger, seed_all`."""

from msprobe.base.seed import seed_all
from msprobe.debugger import PrecisionDebugger

__all__ = ["PrecisionDebugger", "seed_all"]
