"""Three training steps in graph mode under MindSpore's own kernel dump: `kernel_dump.py NET LEVEL FOLDER [WORD ...]`.

NET is mlp, conv, flow or odd, LEVEL a jit_level. A WORD `faulty` puts a fault into the net; any other is an element of
the dump's `kernels`.
"""

import json
import os
import sys

NET, LEVEL, FOLDER, *WORDS = sys.argv[1:]
KERNELS = [word for word in WORDS if word != "faulty"]
SETTINGS = {
    "common_dump_settings": {
        "op_debug_mode": 0,
        "dump_mode": 1 if KERNELS else 0,
        "path": os.path.abspath(FOLDER),
        "net_name": "Net",
        "iteration": "all",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": KERNELS,
        "support_device": [0],
    },
    "e2e_dump_settings": {"enable": True, "trans_flag": True},
}
os.makedirs(FOLDER, exist_ok=True)
CONFIG = os.path.join(os.path.abspath(FOLDER), "kernel_kbyk_dump.json")
with open(CONFIG, "w") as file:
    json.dump(SETTINGS, file)
os.environ["MINDSPORE_DUMP_CONFIG"] = CONFIG  # before MindSpore is imported

import mindspore as ms  # noqa: E402  # see above
import numpy as np  # noqa: E402  # stays beside it
from mindspore import Tensor, nn, ops  # noqa: E402  # see above

ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": LEVEL})
ms.set_seed(1)


class Mlp(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Dense(4, 8)
        self.norm = nn.LayerNorm((8,), epsilon=1e-3 if "faulty" in WORDS else 1e-7)
        self.fc2 = nn.Dense(8, 3)

    def construct(self, x):
        h = self.fc1(x)
        h = self.norm(h)
        h = ops.relu(h)
        return self.fc2(h)


class Conv(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2)
        self.flat = nn.Flatten()
        self.fc = nn.Dense(2 * 4 * 4, 3)

    def construct(self, x):
        h = self.conv(x)
        h = ops.relu(self.bn(h))
        return self.fc(self.flat(h))


class Flow(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.head = nn.Dense(4, 3)

    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            x = ops.tanh(self.fc(x))
            i = i + 1
        if x.sum() > 0:  # noqa: SIM108  # a branch of the graph is wanted
            x = ops.exp(x)
        else:
            x = ops.sin(x)
        return self.head(x)


class Odd(nn.Cell):
    """What is rare: recompute, bfloat16, float16 that a kernel computes in float32, float64."""

    def __init__(self):
        super().__init__()
        self.block = nn.SequentialCell([nn.Dense(4, 4), nn.GELU()])
        self.block.recompute()
        self.head = nn.Dense(4, 3)

    def construct(self, x):
        h = self.head(self.block(x))
        a = ops.cast(ops.cast(h, ms.bfloat16), ms.float32)
        b = ops.cast(ops.exp(ops.cast(h, ms.float16)), ms.float32)
        c = ops.cast(ops.sin(ops.cast(h, ms.float64)), ms.float32)
        return a + b + c


class WithLoss(nn.Cell):
    def __init__(self, net):
        super().__init__(auto_prefix=False)
        self.net = net
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, y, *x):
        return self.loss(self.net(*x), y)


def main():
    """Train three steps."""
    net = {"mlp": Mlp, "conv": Conv, "flow": Flow, "odd": Odd}[NET]()
    weights = net.trainable_params()
    optimizer = nn.Adam(weights, 0.01) if NET == "mlp" else nn.Momentum(weights, 0.1, 0.9)
    step = nn.TrainOneStepCell(WithLoss(net), optimizer)
    step.set_train()
    draw = np.random.default_rng(0)
    for _ in range(3):
        labels = Tensor(draw.integers(0, 3, 2).astype(np.int32))
        shape = (2, 1, 4, 4) if NET == "conv" else (2, 4)
        x = Tensor(draw.normal(size=shape).astype(np.float32))
        step(labels, x, *([Tensor(2, ms.int32)] if NET == "flow" else []))


if __name__ == "__main__":
    main()
