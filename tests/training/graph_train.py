"""Train one of the networks of graph_nets.py in graph mode and print what the training was, bit by bit.

Run by the tests as a process of its own: `python graph_train.py graph_CASE [--collect DIR --task T --summary S]
[--steps N]`. With task `save` it is the user who saves in the graph. The last line of standard output is the SHA-256
over every step's loss and the weights at the end.
"""

import argparse
import hashlib
import json
from pathlib import Path

import graph_nets


def main():
    args = arguments()
    folder, how = args.collect and Path(args.collect), {}
    if args.task == "save":
        folder, how = None, saving(args.collect)
    elif folder:
        folder.mkdir(parents=True, exist_ok=True)
        section = {args.task: {"summary_mode": args.summary}}
        (folder / "config.json").write_text(json.dumps({"task": args.task, "dump_path": args.collect, **section}))
        how = {"config_path": str(folder / "config.json")}
    losses, weights = graph_nets.train(args.case.removeprefix("graph_"), folder, steps=args.steps, **how)
    print(hashlib.sha256(b"".join((*losses, *weights))).hexdigest())


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=[f"graph_{case}" for case in sorted(graph_nets.CASES)])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--collect")
    parser.add_argument("--task", default="statistics")
    parser.add_argument("--summary", default="statistics")
    return parser.parse_args()


def saving(folder):
    """A loss that saves the network's rows with their gradient, and itself; and what ends a step of the saves."""
    from msprobe.mindspore import save, save_grad, step

    class Saving(graph_nets.Loss):
        def construct(self, *data):
            rows = save_grad(folder, "rows", self.net(*data[:-1]))
            save(folder, "rows", rows)
            loss = self.entropy(rows, data[-1].reshape((-1,)))
            save(folder, "loss", loss)
            return loss

    return {"loss_of": Saving, "each": lambda number: step() if number else None}


if __name__ == "__main__":
    main()
