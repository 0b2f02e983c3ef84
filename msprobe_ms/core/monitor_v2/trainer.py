"""`from msprobe.core.monitor_v2.trainer import TrainerMonitorV2`, as in msprobe 26."""

from msprobe.monitor.sectioned_trainer import TrainerMonitorV2

__all__ = ["TrainerMonitorV2"]
