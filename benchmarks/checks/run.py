"""How many faults `msprobe check` names without a golden run, and how many clean runs it leaves alone.

    python benchmarks/checks/run.py [--work DIR] [--only NAME] [--clean | --faults]

Prints the table of README.md. Exit code 1 where a clean run is alarmed or fewer than 12 of the 15 faults are named.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PYTORCH = ("perceptron", "gpt", "llama", "resnet", "groupnet", "lstm", "encoder")
MINDSPORE = ("ms_perceptron", "ms_conv", "ms_attention")
PYTHON = {"pytorch": sys.executable, "mindspore": sys.executable}
"""What runs the trainings and the check; the tests have one that need not import the framework for each."""

CLEAN = [
    (net, ranks, task)
    for net in (*PYTORCH, *MINDSPORE)
    for ranks, task in ((1, "tensor"), (2, "statistics"), (2, "tensor"))
]

# fault: (net, ranks, task, the invariants of which one has to name it); written before the method was frozen
FAULTS = {
    "clip on one rank": ("perceptron", 2, "statistics", ("equal-parameters",)),
    "missing all_reduce": ("perceptron", 2, "statistics", ("reduced-gradients", "equal-parameters")),
    "frozen layer": ("perceptron", 1, "statistics", ("gradients",)),
    "mask side": ("gpt", 1, "tensor", ("masks",)),
    "uninitialised buffer": ("perceptron", 1, "tensor", ("written-memory",)),
    "not in the optimizer": ("perceptron", 1, "statistics", ("updates",)),
    "detached": ("gpt", 1, "statistics", ("gradients",)),
    "same batch": ("perceptron", 2, "statistics", ("own-batches",)),
    "kernel of linear": ("gpt", 1, "tensor", ("replay",)),
    "kernel of layer norm": ("gpt", 1, "tensor", ("norms", "replay")),
    "kernel of softmax": ("gpt", 1, "statistics", ("softmax",)),
    "wrong group": ("perceptron", 2, "statistics", ("equal-parameters",)),
    "weight not broadcast": ("perceptron", 2, "statistics", ("equal-parameters",)),
    "resumed without a weight": ("perceptron", 1, "statistics", ("resume",)),
    "mask off by one": ("llama", 1, "tensor", ("masks",)),
}

# written afterwards
LATER = {
    "rate of one rank": ("perceptron", 2, "statistics", ("equal-parameters",)),
    "sum on one rank": ("perceptron", 2, "statistics", ("equal-parameters",)),
    "kernel of embedding": ("lstm", 1, "tensor", ("replay",)),
    "resumed without random state": ("llama", 1, "statistics", ("resume",)),
    "resumed at another batch": ("perceptron", 1, "statistics", ("resume",)),
    "uninitialised buffer (MindSpore)": ("ms_perceptron", 1, "statistics", ("written-memory",)),
    "mask side (MindSpore)": ("ms_attention", 1, "tensor", ("masks",)),
    "frozen layer (MindSpore)": ("ms_perceptron", 1, "statistics", ("gradients",)),
    "missing all_reduce (MindSpore)": ("ms_perceptron", 2, "statistics", ("reduced-gradients", "equal-parameters")),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--faults", action="store_true")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="checks-"))
    alarms, named = 0, 0
    for net, ranks, task in CLEAN if args.clean or not args.faults else ():
        name = f"{net} {ranks} {task}"
        if args.only in name:
            found = checked(work / name.replace(" ", "_"), net, "", ranks, task)
            alarms += bool(found)
            print(f"| clean | {net} | {ranks} | {task} | {', '.join(found) or 'none'} |", flush=True)
    for faults in (FAULTS, LATER) if args.faults or not args.clean else ():
        for fault, (net, ranks, task, expected) in faults.items():
            if args.only in fault:
                found = checked(work / fault.replace(" ", "_"), net, fault.partition(" (")[0], ranks, task)
                is_named = bool(set(found) & set(expected))
                named += is_named and faults is FAULTS
                answer = ", ".join(found) or "none"
                print(
                    f"| {fault} | {net} | {ranks} | {task} | {answer} | {'named' if is_named else 'MISSED'} |",
                    flush=True,
                )
    print(f"{named} of {len(FAULTS)} faults named, {alarms} of {len(CLEAN)} clean runs alarmed")
    return 1 if alarms or (named < 12 and not args.only and not args.clean) else 0


def checked(folder, net, fault, ranks, task):
    """The invariants that are violated in a run that is made for it."""
    made(folder, net, fault, ranks, task)
    paths = [folder / "run", *([folder / "continued"] if (folder / "continued").exists() else [])]
    command = [PYTHON[framework(net)], "-m", "msprobe", "check", *map(str, paths), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        raise SystemExit(done.stderr)
    return list(dict.fromkeys(found["kind"] for found in json.loads(done.stdout)["findings"]))


def framework(net):
    return "mindspore" if net in MINDSPORE else "pytorch"


def made(folder, net, fault, ranks, task, tries=3):
    """Train on so many ranks; what the folder held is removed. Gloo's threads now and then abort a rank that ends."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "MSPROBE_LOG_LEVEL": "2"}
    python = Path(PYTHON[framework(net)])
    if net in MINDSPORE:
        script = [HERE / "train_mindspore.py", net, fault, folder, task]
        commands = [[python, *script]] if ranks == 1 else [_msrun(script, ranks, folder)]
        environment["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    else:
        script = HERE / "train_pytorch.py"
        commands = [[python, script, net, fault, rank, ranks, folder, task] for rank in range(ranks)]
    running = [
        subprocess.Popen(
            list(map(str, c)), cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        for c in commands
    ]
    errors = [process.communicate(timeout=300)[1] for process in running]
    if any(process.returncode < 0 for process in running) and tries > 1:
        return made(folder, net, fault, ranks, task, tries - 1)
    if any(process.returncode for process in running):
        raise SystemExit("\n".join(error[-2000:] for error in errors))
    return None


def _msrun(script, ranks, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--worker_num={ranks}", f"--local_worker_num={ranks}", "--join=True", "--master_addr=127.0.0.1"]
    options += [f"--master_port={port}", f"--log_dir={folder / 'logs'}"]
    return [PYTHON["mindspore"], "-m", "mindspore.parallel.cluster.run", *options, *script]


if __name__ == "__main__":
    sys.exit(main())
