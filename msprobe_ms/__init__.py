"""msprobe-ms: a numerical-precision debugger for training with MindSpore.

A training imports `msprobe.mindspore`; everything else is a command (`msprobe -h`). Importing this patches nothing.
"""

from typing import TYPE_CHECKING

from msprobe.base import neighbour
from msprobe.base.lazy import later

if TYPE_CHECKING:
    from msprobe.compare.grad_probe.comparator import GradComparator

neighbour.warn()

__getattr__ = later(__name__, {"GradComparator": "msprobe.compare.grad_probe.comparator"})

__all__ = ["GradComparator"]
