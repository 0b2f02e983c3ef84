"""`from msprobe.mindspore.compare.ms_compare import ms_compare`, as in msprobe 8.1; works without MindSpore."""

from msprobe.compare.entry import compare as ms_compare

__all__ = ["ms_compare"]
