"""Comparison of all ranks of a step, and of kernel dumps, as in msprobe 8.1; works without MindSpore."""

from msprobe.compare.entry import compare_distributed as ms_compare_distributed
from msprobe.compare.entry import graph_compare as ms_graph_compare

__all__ = ["ms_compare_distributed", "ms_graph_compare"]
