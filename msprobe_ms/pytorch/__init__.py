"""Public names for trainings with PyTorch: `from msprobe.pytorch import PrecisionDebugger, seed_all`.

Names are imported on first use, so that `compare` works without PyTorch.
"""

from typing import TYPE_CHECKING

from msprobe.base.lazy import lazy_attributes

if TYPE_CHECKING:
    from msprobe.compare.entry import compare, compare_distributed
    from msprobe.frameworks.pytorch.debugger import PrecisionDebugger, PtdbgDispatch, module_dump, module_dump_end
    from msprobe.frameworks.pytorch.seed import seed_all
    from msprobe.monitor.trainer import TrainerMon
    from msprobe.rl.probe import MsProbe

__getattr__ = lazy_attributes(
    __name__,
    {
        "MsProbe": "msprobe.rl.probe",
        "PrecisionDebugger": "msprobe.frameworks.pytorch.debugger",
        "PtdbgDispatch": "msprobe.frameworks.pytorch.debugger",
        "TrainerMon": "msprobe.monitor.trainer",
        "compare": "msprobe.compare.entry",
        "compare_distributed": "msprobe.compare.entry",
        "module_dump": "msprobe.frameworks.pytorch.debugger",
        "module_dump_end": "msprobe.frameworks.pytorch.debugger",
        "seed_all": "msprobe.frameworks.pytorch.seed",
    },
    needs="torch",
)

__all__ = [
    "MsProbe",
    "PrecisionDebugger",
    "PtdbgDispatch",
    "TrainerMon",
    "compare",
    "compare_distributed",
    "module_dump",
    "module_dump_end",
    "seed_all",
]
