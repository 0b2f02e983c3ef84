"""The whole story in one command: train twice, once with a fault, and ask msprobe where they part.

    python demo.py [--work DIR] [--fault NAME]

Repeating it replaces what the last time left in DIR. Exit code 0 when the comparison found a difference, as it must.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from network import FAULTS

HERE = Path(__file__).parent
DIFFERS = 1  # the exit code of `msprobe compare` for two dumps that are not alike


def train(dump, *options):
    """Train in a process of its own and show it; gives the losses as they were printed."""
    command = [sys.executable, str(HERE / "train.py"), "--dump", str(dump), *options]
    losses = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as training:
        for line in training.stdout:
            losses.append(line.split()[-1])
            print(".", end="", flush=True)
    print(flush=True)
    if training.returncode:
        raise SystemExit(f"demo: the training failed with exit code {training.returncode}")
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("out"), help="the folder to write to, default: out")
    parser.add_argument("--fault", choices=FAULTS, default="eps", help="the mistake to plant, default: eps")
    args = parser.parse_args()

    golden, target, report = (args.work / name for name in ("golden", "target", "report"))
    for folder in (golden, target, report):
        shutil.rmtree(folder, ignore_errors=True)

    print("A two-block transformer learns to count. Step 0 of 20 is collected: statistics of every cell and API.")
    print("golden ", end="", flush=True)
    right = train(golden)
    print(f"The same again with a fault: {FAULTS[args.fault]}.")
    print("target ", end="", flush=True)
    wrong = train(target, "--fault", args.fault)

    print("\n  step   golden loss   target loss")
    for step in range(0, len(right), 3):
        print(f"{step:6}{right[step]:>14}{wrong[step]:>14}")

    options = ["compare", "-tp", f"{target}/step0", "-gp", f"{golden}/step0", "-o", str(report)]
    print(f"\n$ msprobe {' '.join(options)}", flush=True)
    found = subprocess.run([sys.executable, "-m", "msprobe", *options], check=False).returncode
    if found != DIFFERS:
        raise SystemExit(f"demo: msprobe compare gave exit code {found}; it should have found a difference ({DIFFERS})")


if __name__ == "__main__":
    main()
