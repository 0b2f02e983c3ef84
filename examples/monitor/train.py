"""A small network learns to add, and every step is monitored: python train.py OUTPUT [--slow-from STEP]."""

import argparse
import os

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

STEPS, BATCH, RATE = 100, 32, 1e-2


class Adder(nn.Cell):
    """Three layers: eight numbers in, their sum out."""

    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([nn.Dense(8, 16), nn.Dense(16, 16)])
        self.act = nn.GELU()
        self.head = nn.Dense(16, 1)

    def construct(self, x):
        for layer in self.layers:
            x = self.act(layer(x))
        return self.head(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", help="where the monitor writes")
    parser.add_argument(
        "--slow-from", type=int, metavar="STEP", help="the fault: from here on a tenth of the learning rate"
    )
    args = parser.parse_args()

    os.environ["MONITOR_OUTPUT_DIR"] = args.output
    from msprobe.mindspore import TrainerMon

    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_seed(1)
    rng = np.random.default_rng(1)
    net, loss_of = Adder().set_train(), nn.MSELoss()
    rates = [RATE / 10 if args.slow_from is not None and step >= args.slow_from else RATE for step in range(STEPS)]
    optimizer = nn.Adam(net.trainable_params(), rates)
    forward_and_backward = ms.value_and_grad(lambda x, y: loss_of(net(x), y), None, net.trainable_params())

    monitor = TrainerMon("monitor.json")
    monitor.set_monitor(net, optimizer)
    for _ in range(STEPS):
        x = rng.standard_normal((BATCH, 8)).astype(np.float32)
        loss, gradients = forward_and_backward(Tensor(x), Tensor(x.sum(1, keepdims=True)))
        monitor.loss(loss)
        optimizer(gradients)
    monitor.stop()
    print(f"loss {float(loss.asnumpy()):.4f} after {STEPS} steps")


if __name__ == "__main__":
    main()
