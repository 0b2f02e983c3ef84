"""Train the demo's network on the CPU and collect its first step.

    python train.py --dump DIR [--fault NAME] [--steps N]

Prints the loss of every step. The dump of step 0 is in DIR/step0.
"""

import argparse

import mindspore as ms
from mindspore import nn
from network import FAULTS, Transformer, batch

from msprobe.mindspore import PrecisionDebugger


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", required=True, help="the folder to write to")
    parser.add_argument("--fault", choices=FAULTS, default="", help="the mistake to plant, default: none")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_seed(1)
    network = Transformer(args.fault)
    optimizer = nn.AdamWeightDecay(network.trainable_params(), learning_rate=0.003)
    gradient = ms.value_and_grad(network, None, network.trainable_params())
    debugger = PrecisionDebugger(dump_path=args.dump, task="statistics", level="mix", step=[0])

    for step in range(args.steps):
        debugger.start(network)
        loss, gradients = gradient(*batch(step))
        debugger.stop()
        optimizer(gradients)
        debugger.step()
        print(f"step {step} loss {float(loss.asnumpy()):.6f}", flush=True)


if __name__ == "__main__":
    main()
