"""One step of a small transformer in graph mode, under `@jit` and in PyNative mode, compared cell by cell.

The graph leaves out the gradient of the network's own input, which PyNative computes: nobody needs it.
"""

import json

import pytest

pytestmark = pytest.mark.mindspore

FIRST_NORM = "Cell.n1.LayerNorm.backward.0"

PROGRAM = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger


class Block(nn.Cell):
    def __init__(self, width=8):
        super().__init__()
        self.before = nn.Dense(width, width)
        self.n1, self.n2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.q, self.v = nn.Dense(width, width), nn.Dense(width, width)
        self.up, self.act, self.down = nn.Dense(width, 2 * width), nn.ReLU(), nn.Dense(2 * width, width)
        self.is_deep, self.scale = False, Tensor(np.linspace(-1, 1, width), ms.float32)

    def construct(self, x):
        if self.is_deep:
            x = self.before(x)
        y = self.n1(x)
        x = x + ops.matmul(ops.softmax(self.q(y), -1), self.v(y).swapaxes(-1, -2)).sum(-1, keepdims=True)
        return x + self.down(self.act(self.up(self.n2(x))))


def step(mode, folder, is_deep):
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    net, draw = Block(), np.random.default_rng(1)
    net.is_deep = is_deep
    for parameter in net.trainable_params():
        parameter.set_data(Tensor(draw.normal(size=parameter.shape).astype(np.float32) * 0.3))
    x = Tensor(draw.normal(size=(2, 4, 8)).astype(np.float32))
    if mode == "jit":
        net.construct = ms.jit(net.construct)

    def loss(x):
        return ops.mul(net(x), net.scale).mean()

    gradient = ms.value_and_grad(loss, None, net.trainable_params())
    debugger = PrecisionDebugger(task="statistics", level="L0", dump_path=folder, step=[0])
    debugger.start(net)
    gradient(x)
    debugger.stop()
    debugger.step()


for is_deep in (False, True):
    for mode in ("pynative", "graph", "jit"):
        step(mode, f"{mode}{int(is_deep)}", is_deep)
"""


def rows_of_first_norm(found):
    """The rows of the results of the first norm's backward."""
    return [row for row in found["rows"] if f"{FIRST_NORM}.output.0" in row.values()]


@pytest.mark.parametrize("mode", ["graph", "jit"])
@pytest.mark.parametrize("is_golden", [False, True])
def test_a_gradient_that_nobody_needs_is_no_first_wrong_call(dumps, compared, mode, is_golden):
    sides = dumps / f"{mode}0", dumps / "pynative0"
    _, text = compared(*(sides[::-1] if is_golden else sides))
    (row,) = rows_of_first_norm(text)
    assert row["Verdict"] == "unjudged"
    assert {"cause": "unneeded_gradient", "pairs": 1, "is_exempt": True}.items() <= text["unjudged"][-1].items()
    assert FIRST_NORM not in {finding["name"] for finding in text["first_wrong"] + text["next_beginnings"]}


@pytest.mark.parametrize("mode", ["graph", "jit"])
def test_a_gradient_that_a_parameter_upstream_needs_stays_visible(dumps, compared, mode, tmp_path):
    """Behind a layer with parameters the graph has it. Without it, as where something is detached, it is wrong."""
    target = tmp_path / "target"
    target.mkdir()
    (source,) = (dumps / f"{mode}1" / "step0").rglob("dump.json")
    for name in ("dump.json", "construct.json"):
        text = json.loads((source.parent / name).read_text())
        if name == "dump.json":
            assert text["data"][FIRST_NORM]["output"][0] is not None
            text["data"][FIRST_NORM]["output"][0] = None
        (target / name).write_text(json.dumps(text))
    (golden,) = (dumps / "pynative1" / "step0").rglob("dump.json")
    code, text = compared(target, golden.parent)
    (row,) = rows_of_first_norm(text)
    assert (code, row["Verdict"]) == (1, "error")
    assert FIRST_NORM in {finding["name"] for finding in text["first_wrong"] + text["next_beginnings"]}
