"""What a collected call costs, counted and not timed: frames of Python, and hooks on the nodes of the graph.

Of two chains of the same cells, one longer, the difference is what the further cells cost; what a step costs once is
in both. Both are trained twice, for a first step finds and describes what later ones know.
"""

import sys
from collections import Counter

import mindspore as ms
import numpy as np
import pytest
from chains import LONG, NEEDS, SHORT, Chain
from mindspore import Tensor
from mindspore.common import hook_handle

REGISTER_HOOK = hook_handle._HookUtils.register_hook.__code__  # here: not what stands in its place in a step


pytestmark = [pytest.mark.mindspore, *NEEDS]


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
            elif frame.f_code is REGISTER_HOOK:
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
@pytest.mark.parametrize(("level", "calls", "hooks", "most"), [("L0", 1, 2, 56), ("L1", 3, 6, 40), ("mix", 4, 6, 44)])
def test_a_call_runs_so_many_frames_of_python_and_places_no_hook_twice(collecting, level, calls, hooks, most):
    debugger = collecting(level=level)
    short, long = counted(debugger, SHORT), counted(debugger, LONG)
    further = {name: (number - short[name]) / (LONG - SHORT) for name, number in long.items()}
    assert further.pop("a hook is placed") == hooks
    assert sum(further.values()) / calls <= most, sorted(further.items(), key=lambda each: -each[1])[:20]
