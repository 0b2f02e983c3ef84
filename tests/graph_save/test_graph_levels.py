"""A network with residual connections and identity layers in graph mode against PyNative: a clean pair is clean at any
level, and a planted epsilon is named.

PyNative records the gradient of a tensor as the sum over its users where a layer hands its input on, the graph the
layer's own.
"""

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.part(16)]

PROGRAM = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from msprobe.mindspore import PrecisionDebugger

class Attention(nn.Cell):
    def __init__(self, width=16):
        super().__init__()
        self.qkv, self.proj = nn.Dense(width, 3 * width), nn.Dense(width, width)
        self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        self.drop = nn.Dropout(p=0.0)

    def construct(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q, k = self.q_norm(q), self.k_norm(k)
        a = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * 0.35, -1)
        return self.proj(self.drop(ops.matmul(a, v).swapaxes(1, 2).reshape(b, n, c)))

class Mlp(nn.Cell):
    def __init__(self, width=16):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Dense(width, 2 * width), nn.GELU(), nn.Dense(2 * width, width)
    def construct(self, x):
        return self.fc2(self.act(self.fc1(x)))

class Block(nn.Cell):
    def __init__(self, eps, width=16):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((width,), epsilon=eps), nn.LayerNorm((width,), epsilon=1e-5)
        self.attn, self.mlp = Attention(), Mlp()
    def construct(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))

class Net(nn.Cell):
    def __init__(self, eps):
        super().__init__()
        self.embed = nn.Dense(12, 16)
        self.blocks = nn.SequentialCell(Block(1e-5), Block(eps))
        self.norm, self.head = nn.LayerNorm((16,)), nn.Dense(16, 5)
    def construct(self, x):
        return self.head(self.norm(self.blocks(self.embed(x))).mean(1))

def step(mode, level, task, folder, eps=1e-5):
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    net, draw = Net(eps), np.random.default_rng(1)
    for parameter in net.trainable_params():
        parameter.set_data(Tensor(draw.normal(size=parameter.shape).astype(np.float32) * 0.3))
    x = Tensor(draw.normal(size=(2, 4, 12)).astype(np.float32))
    y = Tensor(np.array([1, 3]), ms.int32)
    loss = lambda x, y: ops.cross_entropy(net(x), y)
    gradient = ms.value_and_grad(loss, None, net.trainable_params())
    from mindspore import nn as _nn
    optimizer = _nn.SGD(net.trainable_params(), 0.1)
    def train(x, y):
        loss, grads = gradient(x, y)
        optimizer(grads)
        return loss
    if mode == 'graph':
        train = ms.jit(train)
    debugger = PrecisionDebugger(task=task, level=level, dump_path=folder, step=[0])
    debugger.start(net)
    train(x, y)
    debugger.stop()
    debugger.step()


for task in ("statistics", "tensor"):
    for eps in (1e-5, 1e-2):
        step("graph", "L0", task, f"{task}-graph-{eps:g}", eps)
        for level in ("L0", "mix"):
            step("pynative", level, task, f"{task}-{level}-{eps:g}", eps)
"""


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("is_golden", [False, True])
def test_a_clean_pair_is_clean(dumps, compared, task, level, is_golden):
    sides = dumps / f"{task}-graph-1e-05", dumps / f"{task}-{level}-1e-05"
    code, text = compared(*(sides[::-1] if is_golden else sides))
    assert (code, text["first_wrong"]) == (0, [])
    assert {one["cause"] for one in text["unjudged"]} <= {"other_level"}
    assert ("other_level" in {one["cause"] for one in text["unjudged"]}) is (level == "mix")
    assert text["counts"]["pass"] > 150, "every record of the cells"


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("is_graph_wrong", [False, True])
def test_a_wrong_epsilon_is_named_at_its_layer(dumps, compared, task, level, is_graph_wrong):
    wrong = dumps / (f"{task}-graph-0.01" if is_graph_wrong else f"{task}-{level}-0.01")
    right = dumps / (f"{task}-{level}-1e-05" if is_graph_wrong else f"{task}-graph-1e-05")
    code, text = compared(wrong, right)
    assert (code, text["first_wrong"][0]["name"]) == (1, "Cell.blocks.1.norm1.LayerNorm.forward.0")
    assert text["first_wrong"][0]["kind"] == "computes differently"
    assert "could not be judged" not in text["first_wrong"][0]["reason"]
