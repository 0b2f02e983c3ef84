"""Where the training will run, as far as it is known before it begins."""

import os
from dataclasses import dataclass
from glob import glob
from itertools import product

from msprobe.base.framework import Framework
from msprobe.graph_save.kernel.dump_settings import Machine

from .versions import installed, release

DEVICES = ("CPU", "Ascend", "GPU")
MODES = ("pynative", "graph")
JIT_LEVELS = ("O0", "O1", "O2")

_MARKS = {"Ascend": "/dev/davinci[0-9]*", "GPU": "/dev/nvidia[0-9]*"}


def device_here() -> str:
    """What this machine computes with, by its device files."""
    return next((device for device, mark in _MARKS.items() if glob(mark)), "CPU")


def framework_here() -> Framework:
    """The framework that is meant where nobody says: MindSpore, unless PyTorch alone is installed."""
    return "pytorch" if installed("torch") and not installed("mindspore") else "mindspore"


@dataclass(frozen=True)
class Target:
    """A training that is to be collected. `mode`, `jit_level`: empty where unknown; `ranks`, `steps`: how many there
    are, 0 where unknown. `has_layer`: PyTorch's API on MindSpore may be what is trained.
    """

    framework: Framework
    device: str = "CPU"
    mode: str = ""
    jit_level: str = ""
    ranks: int = 0
    steps: int = 0
    has_layer: bool = False

    @property
    def machines(self) -> list[Machine]:
        """MindSpore's machines that this may be."""
        modes, levels = (self.mode,) if self.mode else MODES, (self.jit_level,) if self.jit_level else JIT_LEVELS
        version = release(installed("mindspore"))[:3] or (2, 10, 0)
        return [Machine(self.device, mode == "graph", level, version) for mode, level in product(modes, levels)]


def ranks_here() -> int:
    """The number of processes that a launcher's variables announce; 0 where none does."""
    found = (os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM"))
    return max((int(number) for number in found if number.isdecimal()), default=0)


def is_layer_installed() -> bool:
    """Whether PyTorch's API on MindSpore is installed."""
    return bool(installed("msadapter"))
