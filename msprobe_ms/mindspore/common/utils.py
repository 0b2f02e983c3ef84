"""`from msprobe.mindspore.common.utils import MsprobeStep, MsprobeInitStep, seed_all`, as in msprobe 8.1."""

from msprobe.mindspore import MsprobeInitStep, MsprobeStep, seed_all

__all__ = ["MsprobeInitStep", "MsprobeStep", "seed_all"]
