"""Public names for trainings with any framework: `from msprobe.core import MsProbe, SingleSave`."""

from msprobe.compare.key_data.comparator import SingleComparator
from msprobe.compare.rollout.entry import compare_rollout
from msprobe.rl.probe import MsProbe
from msprobe.single_save import SingleSave

__all__ = ["MsProbe", "SingleComparator", "SingleSave", "compare_rollout"]
