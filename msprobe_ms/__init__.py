"""msprobe-ms: a numerical-precision debugger for training with MindSpore.

A training imports `msprobe.mindspore`; everything else is a command (`msprobe -h`). Importing this patches nothing.
"""

from typing import TYPE_CHECKING

from msprobe.base import conflicting_package
from msprobe.base.lazy import lazy_attributes

if TYPE_CHECKING:
    from msprobe.compare.grad_probe.comparator import GradComparator

conflicting_package.warn_if_installed()

__getattr__ = lazy_attributes(__name__, {"GradComparator": "msprobe.compare.grad_probe.comparator"})

__all__ = ["GradComparator"]
