"""Train the port for a few steps from the original's weights, and record them.

python train_mindspore.py NET --dump DIR --weights FILE [--fault NAME]
"""

import argparse
from importlib import import_module

import mindspore as ms
import numpy as np
from data import batches
from mindspore import nn

from msprobe.mindspore import PrecisionDebugger, seed_all


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=("gpt", "resnet"))
    parser.add_argument("--dump", required=True, help="where the dump goes")
    parser.add_argument("--weights", required=True, help="the npz file that train_torch.py made")
    parser.add_argument("--fault", default="", help="a mistake to plant; the port's file names them")
    parser.add_argument("--task", choices=("statistics", "tensor"), default="statistics")
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()

    seed_all(1)
    module = import_module(f"{args.net}_mindspore")
    if args.fault and args.fault not in module.FAULTS:
        parser.error(f"--fault {args.fault}: {args.net} has {', '.join(module.FAULTS)}")
    net = module.Net(args.fault)
    net.set_train()
    weights = module.loaded(dict(np.load(args.weights)), args.fault)
    ms.load_param_into_net(net, {name: ms.Parameter(array, name=name) for name, array in weights.items()})
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.1)
    step = ms.value_and_grad(lambda *given: module.loss_of(net, *given), None, optimizer.parameters)
    debugger = PrecisionDebugger(dump_path=args.dump, task=args.task, level="mix")
    for batch, labels in batches(args.net, args.steps):
        debugger.start(net)
        loss, gradients = step(ms.Tensor(batch), ms.Tensor(labels))
        debugger.stop()
        optimizer(gradients)
        debugger.step()
        print(f"loss {float(loss):.6f}")


if __name__ == "__main__":
    main()
