"""Public names for trainings with MindSpore: `from msprobe.mindspore import PrecisionDebugger, save, seed_all`.

Names are imported on first use, so that `msprobe.mindspore.compare` works without MindSpore.
"""

from typing import TYPE_CHECKING

from msprobe.base.lazy import lazy_attributes

if TYPE_CHECKING:
    from msprobe.callbacks import MsprobeInitStep, MsprobeStep
    from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
    from msprobe.frameworks.mindspore.seed import seed_all
    from msprobe.graph_save.save import flush, save, save_grad, step
    from msprobe.monitor.trainer import TrainerMon
    from msprobe.monitor_callback import MsprobeMonitor
    from msprobe.rl.probe import MsProbe

__getattr__ = lazy_attributes(
    __name__,
    {
        "MsProbe": "msprobe.rl.probe",
        "MsprobeInitStep": "msprobe.callbacks",
        "MsprobeMonitor": "msprobe.monitor_callback",
        "MsprobeStep": "msprobe.callbacks",
        "PrecisionDebugger": "msprobe.frameworks.mindspore.debugger",
        "TrainerMon": "msprobe.monitor.trainer",
        "flush": "msprobe.graph_save.save",
        "save": "msprobe.graph_save.save",
        "save_grad": "msprobe.graph_save.save",
        "seed_all": "msprobe.frameworks.mindspore.seed",
        "step": "msprobe.graph_save.save",
    },
    needs="mindspore",
)

__all__ = [
    "MsProbe",
    "MsprobeInitStep",
    "MsprobeMonitor",
    "MsprobeStep",
    "PrecisionDebugger",
    "TrainerMon",
    "flush",
    "save",
    "save_grad",
    "seed_all",
    "step",
]
