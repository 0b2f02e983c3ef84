"""What a collected call costs, counted and not timed: frames of Python, and hooks on the nodes of the graph.

Of two chains of the same cells, one longer, the difference is what the further cells cost; what a step costs once is
in both. Both are trained twice, for a first step finds and describes what later ones know.
"""

import sys
from collections import Counter

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common import hook_handle

from msprobe.base import nested
from msprobe.base.statistic import kernel
from msprobe.cell_dump.backends.mindspore.gradient import HAS_NODES
from msprobe.cell_dump.backward import extension
from msprobe.cell_dump.describer import callers

pytestmark = [
    pytest.mark.skipif(
        kernel is None or callers is None or extension is None or nested.tree_of is nested._tree_of,
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


def counted(debugger, length):
    """Frames of msprobe by function, and hooks placed, of a collected forward and backward."""
    net = Chain(length)
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    x = Tensor(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8))
    frames = Counter()

    def seen(frame, event, _):
        if event == "call":
            if frame.f_globals.get("__name__", "").startswith("msprobe."):
                frames[frame.f_code.co_name] += 1
            elif frame.f_code is hook_handle._HookUtils.register_hook.__code__:
                frames["a hook is placed"] += 1

    for _ in range(2):
        frames.clear()
        debugger.start(net)
        sys.setprofile(seen)
        try:
            gradient(x)
        finally:
            sys.setprofile(None)
        debugger.stop()
        debugger.step()
    return frames


# Calls, and hooks, of one further cell: an operation's node has a prehook and a hook, the cell shares theirs.
@pytest.mark.parametrize(("level", "calls", "hooks", "most"), [("L0", 1, 2, 47), ("L1", 3, 6, 30), ("mix", 4, 6, 34)])
def test_a_call_runs_so_many_frames_of_python_and_places_no_hook_twice(collecting, level, calls, hooks, most):
    debugger = collecting(level=level)
    short, long = counted(debugger, SHORT), counted(debugger, LONG)
    further = {name: (number - short[name]) / (LONG - SHORT) for name, number in long.items()}
    assert further.pop("a hook is placed") == hooks
    assert sum(further.values()) / calls <= most, sorted(further.items(), key=lambda each: -each[1])[:20]
