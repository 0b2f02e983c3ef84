"""`from msprobe.pytorch.monitor.module_hook import TrainerMon`, as in msprobe 1.1 to 8.3."""

from msprobe.pytorch import TrainerMon

__all__ = ["TrainerMon"]
