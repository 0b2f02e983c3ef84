"""Train one of the networks for some steps and print what the training was, bit by bit.

Run by the tests as a process of its own: `python train.py NET [--collect DIR --level L --task T --summary S
--perturb MODE STAGE] [--monitor DIR] [--steps N] [--asynchronous]`. The last line of standard output is the SHA-256
over every step's loss, returned gradients, parameters and optimizer states, and the states of the Python, numpy and
MindSpore generators.
"""

import argparse
import hashlib
import json
import os
import pickle
import random
from pathlib import Path

import mindspore as ms
import nets
import numpy as np
import parts


def main():
    args = arguments()
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=not args.asynchronous)
    random.seed(1)
    np.random.seed(1)
    ms.set_seed(1)
    ms.manual_seed(1)  # set_seed leaves the default generator alone, which MindSpore 2.7 seeds by the clock
    case = nets.NETS[args.net]
    if case.one_thread:
        ms.device_context.cpu.op_tuning.threads_num(1)
    net = case.net()
    net.set_train()
    optimizer = nets.optimizer_of(case, net.trainable_params())
    gradient = ms.value_and_grad(scaled(net, case.loss_scale), None, net.trainable_params())
    debugger = collecting(args) if args.collect else None
    monitor = monitoring(args.monitor, net, optimizer) if args.monitor else None

    digest = hashlib.sha256()
    for step in range(args.steps):
        total = None
        for micro_batch in range(case.micro_batches):
            batch = nets.data(args.net, step, micro_batch)
            if debugger:
                debugger.start(net)
            loss, grads = gradient(*batch)
            if debugger:
                debugger.stop()
            if monitor:
                monitor.loss(loss)
            total = grads if total is None else [a + b for a, b in zip(total, grads, strict=True)]
        if case.loss_scale != 1:
            total = [grad / case.loss_scale for grad in total]
        if parts.saver:
            parts.saver(loss, "loss", save_backward=False)
            parts.saver(list(total), "gradients", save_backward=False)
        optimizer(tuple(total))
        if debugger:
            debugger.step()
        for tensor in (loss, *total, *net.get_parameters(), *optimizer.get_parameters()):
            digest.update(tensor.asnumpy().tobytes())
    state = (random.getstate(), np.random.get_state()[1].tobytes(), ms.get_rng_state().asnumpy().tobytes())
    digest.update(pickle.dumps(state))
    print("loss", float(loss.asnumpy()))
    print(digest.hexdigest())


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=sorted(nets.NETS))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--collect")
    parser.add_argument("--monitor")
    parser.add_argument("--level", default="mix")
    parser.add_argument("--task", default="statistics")
    parser.add_argument("--summary", default="statistics")
    parser.add_argument("--format", default="json")
    parser.add_argument("--perturb", nargs=2, metavar=("MODE", "STAGE"))
    parser.add_argument("--asynchronous", action="store_true")
    return parser.parse_args()


def scaled(net, scale):
    """The network with its loss scaled; the network itself where there is nothing to scale."""
    return net if scale == 1 else lambda *batch: net(*batch) * scale


def collecting(args):
    """The debugger; at level debug the networks save through it."""
    from msprobe.mindspore import PrecisionDebugger

    folder = Path(args.collect)
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"task": args.task, "dump_path": args.collect, "level": args.level, "format": args.format}
    if args.task == "trigger":  # fires at nearly every call of every step but the first
        fires = {"on": ["jump", "nan"], "jump": 1.0000001, "times": -1, "calls": 2, "memory": "1MiB"}
        settings |= {"task": "statistics", "statistics": {"trigger": fires}}
    if args.summary != "statistics":
        settings[args.task] = {"summary_mode": args.summary}
    if args.perturb:
        settings[args.task] = dict(zip(("pert_mode", "fuzz_stage"), args.perturb, strict=True))
    (folder / "config.json").write_text(json.dumps(settings))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    if args.level == "debug":
        parts.saver = PrecisionDebugger.save
    return debugger


EVERYTHING = {
    **dict.fromkeys(("xy_distribution", "all_xy", "wg_distribution", "monitor_mbs_grad"), True),
    **dict.fromkeys(("mv_distribution", "param_distribution", "mg_direction", "ur_distribution", "stack_info"), True),
    "ops": ["norm", "min", "max", "zeros", "nans", "mean"],
    "cc_distribution": {"enable": True, "cc_pre_hook": True},
    "alert": {"rules": [{"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}}], "dump": True},
}


def monitoring(folder, net, optimizer):
    """The monitor, with everything that it has."""
    from msprobe.mindspore import TrainerMon

    folder = Path(folder)
    (folder / "monitor.json").write_text(json.dumps(EVERYTHING))
    os.environ["MONITOR_OUTPUT_DIR"] = str(folder)
    monitor = TrainerMon(str(folder / "monitor.json"))
    monitor.set_monitor(net, optimizer)
    return monitor


if __name__ == "__main__":
    main()
