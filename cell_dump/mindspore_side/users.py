"""Whose modules refer to MindSpore's functions."""

from collections.abc import Iterator
from typing import Any

from mindspore import nn

from msprobe.cell_dump.references import Users


def _cells(root: Any) -> Iterator[Any]:
    if isinstance(root, nn.Cell):
        for _, cell in root.cells_and_names():
            yield cell


USERS = Users(
    modules_of=_cells,
    layers=("mindspore.nn.", "mindspore.mint.nn.layer."),
    aliases=("mindspore.ops.functional", "mindspore.mint.nn"),  # the first is another name of `mindspore.ops`
    second="mindspore.mint",
)
