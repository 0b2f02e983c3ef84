"""What collecting costs: the time of a training step with the debugger, as a ratio to the same step without it.

    python benchmarks/step_time.py [--rounds N] [--nets transformer conv tiny] [--asynchronous]

Every round runs one step of each kind in turn, in one process, so that a slow moment of the machine strikes all alike;
the ratio is taken round by round and its median printed, with a bootstrap 95 % interval. Ratios are judged with
`pynative_synchronize=True`. Kinds: `none` no debugger at all; `idle` start, stop and step are called, but the step is
not collected; `L0`, `L1`, `mix` task statistics, forward and backward. A step is forward and backward of one batch.
"""

import argparse
import itertools
import shutil
import tempfile
import time

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger

KINDS = ("none", "idle", "L0", "L1", "mix")


class Attention(nn.Cell):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.qkv, self.out = nn.Dense(hidden, 3 * hidden), nn.Dense(hidden, hidden)

    def construct(self, x):
        batch, length, hidden = x.shape
        q, k, v = ops.split(self.qkv(x), hidden, axis=2)
        q, k, v = (
            ops.transpose(ops.reshape(t, (batch, length, self.heads, self.size)), (0, 2, 1, 3)) for t in (q, k, v)
        )
        weights = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.size**0.5, -1)
        return self.out(ops.reshape(ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)), (batch, length, hidden)))


class Block(nn.Cell):
    def __init__(self, hidden, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((hidden,)), nn.LayerNorm((hidden,))
        self.attention = Attention(hidden, heads)
        self.up, self.down = nn.Dense(hidden, 4 * hidden), nn.Dense(4 * hidden, hidden)

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(ops.gelu(self.up(self.norm2(x))))


class Transformer(nn.Cell):
    """Two pre-norm blocks, hidden 512, sequence 256, batch 4."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(512, 512)
        self.blocks = nn.CellList([Block(512, 8), Block(512, 8)])

    def construct(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return ops.mean(ops.square(x))


class Conv(nn.Cell):
    """Four convolutions with batch norm on 8 pictures of 16 x 16."""

    def __init__(self):
        super().__init__()
        widths = [3, 16, 32, 32, 64]
        layers = [
            nn.SequentialCell([nn.Conv2d(a, b, 3, has_bias=False), nn.BatchNorm2d(b), nn.ReLU()])
            for a, b in itertools.pairwise(widths)
        ]
        self.layers, self.head = nn.CellList(layers), nn.Dense(64, 10)

    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        return ops.mean(ops.square(self.head(ops.mean(x, (2, 3)))))


class Scale(nn.Cell):
    def __init__(self):
        super().__init__()
        self.g = Parameter(Tensor(np.ones(8, np.float32)))

    def construct(self, x):
        return ops.tanh(x * self.g + 0.1)


class Tiny(nn.Cell):
    """Forty cells of three operations on 4 x 8 numbers: nothing but overhead."""

    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([Scale() for _ in range(40)])

    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        return ops.sum(x)


NETS = {"transformer": (Transformer, (4, 256, 512)), "conv": (Conv, (8, 3, 16, 16)), "tiny": (Tiny, (4, 8))}


def measure(name, rounds, root):
    """Seconds of one step, by kind: arrays of one value a round."""
    ms.set_seed(1)
    make, shape = NETS[name]
    net, x = make(), Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    debuggers = {kind: PrecisionDebugger(dump_path=f"{root}/{name}/{kind}", level=kind) for kind in KINDS[2:]}
    debuggers["idle"] = PrecisionDebugger(dump_path=f"{root}/{name}/idle", level="mix", step=[1_000_000])
    seconds = {kind: [] for kind in KINDS}
    for turn in range(rounds + 2):
        order = KINDS if turn % 2 else KINDS[::-1]
        for kind in order:
            debugger = debuggers.get(kind)
            begin = time.perf_counter()
            if debugger:
                debugger.start(net)
            loss, grads = gradient(x)
            for g in (loss, *grads):
                g.asnumpy()
            if debugger:
                debugger.stop()
                debugger.step()
            if turn > 1:
                seconds[kind].append(time.perf_counter() - begin)
        shutil.rmtree(f"{root}/{name}", ignore_errors=True)
    return {kind: np.array(values) for kind, values in seconds.items()}


def interval(ratios):
    """Bootstrap 95 % interval of the median."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
    return np.percentile(medians, [2.5, 97.5])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS))
    parser.add_argument("--asynchronous", action="store_true")
    args = parser.parse_args()
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=not args.asynchronous)
    print("| net | kind | ms, median | ratio to none | 95 % interval |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as root:
        for name in args.nets:
            seconds = measure(name, args.rounds, root)
            for kind in KINDS:
                ratios = seconds[kind] / seconds["none"]
                low, high = interval(ratios)
                row = f"| {name} | {kind} | {np.median(seconds[kind]) * 1e3:.2f} | {np.median(ratios):.3f} |"
                print(f"{row} {low:.3f} to {high:.3f} |", flush=True)


if __name__ == "__main__":
    main()
