"""What a training imports whatever its framework is: `from msprobe.core import SingleComparator, SingleSave`."""

from msprobe.compare.key_data.comparator import SingleComparator
from msprobe.single_save import SingleSave

__all__ = ["SingleComparator", "SingleSave"]
