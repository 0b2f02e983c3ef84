"""Train twice, once with a fault, find the fault with msprobe, and prove that it is the cause of the difference.

    python demo.py [--work DIR] [--fault NAME]

Repeating it replaces the files in DIR. Exit code 0 if the comparison found a difference and a graft proved its cause.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from network import FAULTS

TRAIN = os.path.relpath(Path(__file__).parent / "train.py")
DIFFERS = 1  # the exit code of `msprobe compare` and `msprobe graft` if two dumps differ

SETTINGS = {"task": "tensor", "level": "mix", "step": [0, 1], "tensor": {"summary_mode": "crc32c"}}
"""All tensors of two steps, so that a graft can replace values and measure the update between them. Digests: a graft
reads only the values that differ."""


def train(dump, *options):
    """Train in a separate process with `SETTINGS`, print a dot for each step, and return the losses as printed."""
    settings = dump.with_suffix(".json")
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({**SETTINGS, "dump_path": str(dump)}))
    command = [sys.executable, TRAIN, "--dump", str(dump), *options]
    environment = {**os.environ, "MSPROBE_SETTINGS": str(settings)}
    losses = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as training:
        for line in training.stdout:
            losses.append(line.split()[-1])
            print(".", end="", flush=True)
    print(flush=True)
    if training.returncode:
        raise SystemExit(f"demo: the training failed with exit code {training.returncode}")
    return losses


def msprobe(*words):
    """Run an msprobe command that must find a difference, print its output, and return it."""
    shown = ["python" if word == sys.executable else word for word in words]
    print(f"\n$ msprobe {shlex.join(shown)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "msprobe", *words], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode != DIFFERS:
        raise SystemExit(
            f"demo: msprobe {words[0]} gave exit code {done.returncode}; it should have found a difference ({DIFFERS})"
        )
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("out"), help="the folder to write to, default: out")
    parser.add_argument("--fault", choices=FAULTS, default="eps", help="the mistake to plant, default: eps")
    args = parser.parse_args()

    golden, target, report = (args.work / name for name in ("golden", "target", "report"))
    for folder in (golden, target, report):
        shutil.rmtree(folder, ignore_errors=True)

    print(
        "A two-block transformer learns to count. Steps 0 and 1 of 20 are collected: all tensors of every cell and API."
    )
    print("golden ", end="", flush=True)
    right = train(golden)
    print(f"The same again with a fault: {FAULTS[args.fault]}.")
    print("target ", end="", flush=True)
    wrong = train(target, "--fault", args.fault)

    print("\n  step   golden loss   target loss")
    for step in range(0, len(right), 3):
        print(f"{step:6}{right[step]:>14}{wrong[step]:>14}")

    msprobe("compare", "-tp", f"{target}/step0", "-gp", f"{golden}/step0", "-o", str(report))
    training = [sys.executable, TRAIN, "--dump", "unused", "--fault", args.fault, "--steps", "2"]
    proof = msprobe("graft", str(target), str(golden), "--", *training)
    if not proof.splitlines()[-1].startswith("proven: "):
        raise SystemExit("demo: msprobe graft should have proven the fault")


if __name__ == "__main__":
    main()
