"""Two trees of what runs saved by name, and the sheets that SingleComparator makes of them."""

import numpy as np
import openpyxl

from msprobe.core import SingleComparator

HEADINGS = [
    *("step", "rank", "micro_step", "id", "shape1", "shape2", "相同元素百分比(%)", "首个不匹配元素索引"),
    *("最大绝对误差", "最大相对误差", "误差在千分之一内元素占比(%)", "误差在百分之一内元素占比(%)"),
    *("Verdict", "Reason"),
]
F32 = np.float32
GRID = (np.arange(12, dtype=F32) / 8 - 0.5).reshape(3, 4)


def put(root, inside, array):
    path = root / "data" / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def sheet(path):
    return [list(row) for row in openpyxl.load_workbook(path).active.iter_rows(values_only=True)]


def compared(trees, tag, processes=1):
    """The rows of one tag."""
    out = trees[0].parent / "out"
    SingleComparator.compare(*trees, out, processes)
    return sheet(out / f"{tag}.xlsx")[1:]


def one(trees, target, golden):
    """The row of a single pair, without its place: shapes, six numbers, verdict, reason."""
    put(trees[0], "x/step0/rank0/micro_step0/x.npy", target)
    put(trees[1], "x/step0/rank0/micro_step0/x.npy", golden)
    (row,) = compared(trees, "x")
    return row[4:]
