"""Comparing all ranks of a step, and kernel dumps, from where msprobe 8.1 has them; works without MindSpore."""

from msprobe.compare.entry import compare_distributed as ms_compare_distributed
from msprobe.compare.entry import graph_compare as ms_graph_compare

__all__ = ["ms_compare_distributed", "ms_graph_compare"]
