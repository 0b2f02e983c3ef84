"""`from msprobe.mindspore.monitor.module_hook import TrainerMon`, as in msprobe 1.1 to 8.3."""

from msprobe.mindspore import TrainerMon

__all__ = ["TrainerMon"]
