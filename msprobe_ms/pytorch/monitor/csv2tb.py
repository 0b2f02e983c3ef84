"""`from msprobe.pytorch.monitor.csv2tb import csv2tensorboard_by_step`, as in msprobe; works without a framework."""

from msprobe.monitor_convert.tensorboard import csv2tensorboard_by_step

__all__ = ["csv2tensorboard_by_step"]
