"""Train the original for a few steps, record them, and leave its first weights for the port.

python train_torch.py NET --dump DIR --weights FILE
"""

import argparse
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from data import batches

from msprobe.pytorch import PrecisionDebugger, seed_all


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=("gpt", "resnet"))
    parser.add_argument("--dump", required=True, help="where the dump goes")
    parser.add_argument("--weights", required=True, help="the npz file that the weights go to")
    parser.add_argument("--task", choices=("statistics", "tensor"), default="statistics")
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()

    seed_all(1)
    Path(args.weights).parent.mkdir(parents=True, exist_ok=True)
    module = import_module(f"{args.net}_torch")
    net = module.Net()
    np.savez(args.weights, **{name: value.detach().numpy() for name, value in net.named_parameters()})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    debugger = PrecisionDebugger(dump_path=args.dump, task=args.task, level="mix")
    for batch, labels in batches(args.net, args.steps):
        debugger.start(net)
        loss = module.loss_of(net, torch.from_numpy(batch), torch.from_numpy(labels).long())
        optimizer.zero_grad()
        loss.backward()
        debugger.stop()
        optimizer.step()
        debugger.step()
        print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
