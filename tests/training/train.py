"""Train one of the networks for some steps and print what the training was, bit by bit.

Run by the tests as a process of its own: `python train.py NET [--collect DIR --level L --task T] [--steps N]
[--asynchronous]`. The last line of standard output is the SHA-256 over every step's loss, returned gradients,
parameters and optimizer states, and the states of the Python, numpy and MindSpore random generators.
"""

import argparse
import hashlib
import pickle
import random

import mindspore as ms
import nets
import numpy as np
from mindspore import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=sorted(nets.NETS))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--collect")
    parser.add_argument("--level", default="mix")
    parser.add_argument("--task", default="statistics")
    parser.add_argument("--asynchronous", action="store_true")
    args = parser.parse_args()

    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=not args.asynchronous)
    random.seed(1)
    np.random.seed(1)
    ms.set_seed(1)
    ms.manual_seed(1)  # set_seed leaves the default generator alone, which MindSpore 2.7 seeds by the clock
    net = nets.NETS[args.net]()
    optimizer = nn.AdamWeightDecay(net.trainable_params(), learning_rate=0.01)
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    debugger = None
    if args.collect:
        from msprobe.mindspore import PrecisionDebugger

        debugger = PrecisionDebugger(dump_path=args.collect, level=args.level, task=args.task)

    digest = hashlib.sha256()
    for step in range(args.steps):
        if debugger:
            debugger.start(net)
        loss, grads = gradient(*nets.data(args.net, step))
        if debugger:
            debugger.stop()
        optimizer(grads)
        if debugger:
            debugger.step()
        for tensor in (loss, *grads, *net.get_parameters(), *optimizer.get_parameters()):
            digest.update(tensor.asnumpy().tobytes())
    state = (random.getstate(), np.random.get_state()[1].tobytes(), ms.get_rng_state().asnumpy().tobytes())
    digest.update(pickle.dumps(state))
    print("loss", float(loss.asnumpy()))
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
