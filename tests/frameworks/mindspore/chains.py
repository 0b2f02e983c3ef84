"""Chains of equal cells in two lengths: the difference is the cost of further cells; a step itself is in both."""

import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base.statistic import kernel
from msprobe.cell_dump.backward import extension
from msprobe.frameworks.mindspore.autograd import HAS_NODES

NEEDS = [
    pytest.mark.skipif(
        kernel is None or extension is None,
        reason="without the extensions Python does their work",
    ),
    pytest.mark.skipif(not HAS_NODES, reason="before MindSpore 2.7.1 hooks are on tensors"),
]

SHORT, LONG = 4, 12


class Scale(nn.Cell):
    """Three operations; with the cell itself four calls."""

    def __init__(self):
        super().__init__()
        self.g = Parameter(Tensor(np.ones(8, np.float32)))

    def construct(self, x):
        return ops.tanh(x * self.g + 0.1)


class Chain(nn.Cell):
    def __init__(self, length):
        super().__init__()
        self.cells_in_line = nn.CellList([Scale() for _ in range(length)])

    def construct(self, x):
        for cell in self.cells_in_line:
            x = cell(x)
        return ops.sum(x)
