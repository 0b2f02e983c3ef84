"""`from msprobe.core.single_save.single_comparator import SingleComparator`, as in msprobe 8.1; needs no framework."""

from msprobe.compare.key_data.comparator import SingleComparator

__all__ = ["SingleComparator"]
