"""Train until killed, and report every call that has returned.

`python endless.py DUMP`: one `step name` a line on standard output.
"""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from msprobe.mindspore import PrecisionDebugger


def main():
    ms.set_context(pynative_synchronize=True)
    debugger = PrecisionDebugger(dump_path=sys.argv[1], level="L1", task="tensor")
    step = 0

    def done(name):
        os.write(sys.stdout.fileno(), f"{step} {name}\n".encode())

    def forward(x):
        for i in range(12):
            x = ops.tanh(x)
            done(f"Functional.tanh.{i}.forward")
        x = ops.sum(x)
        done("Functional.sum.0.forward")
        return x

    gradient = ms.grad(forward)
    x = Tensor(np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32))
    done("ready")
    while True:
        debugger.start()
        gradient(x)
        for i in range(12):
            done(f"Functional.tanh.{i}.backward")
        debugger.stop()
        debugger.step()
        step += 1


if __name__ == "__main__":
    main()
