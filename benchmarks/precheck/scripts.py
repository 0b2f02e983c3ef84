"""Scripts of faulty kernels: each must fail with the fault and pass without it, in processes of their own.

    python scripts.py WORK OUT [--first 20]

WORK is what run.py recorded. Each call is reduced on the faulty kernel first.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE))


def run(*command, cwd):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, cwd=cwd)
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--numbers", type=int, nargs="*")
    args = parser.parse_args()
    import faults

    args.out.mkdir(parents=True, exist_ok=True)
    good = small = 0
    numbers = args.numbers or range(0, len(faults.FAULTS), 2)
    print("| fault | lines | bytes | with the fault | without |\n|---|---|---|---|---|")
    for number in numbers:
        fault = faults.FAULTS[number]
        call = f"{fault.stem}.0.{fault.where.partition('.')[0]}"
        folder = args.out / f"{number:02d}"
        dump = args.work / f"{number:02d}" / "step0"
        made, words = run(
            HERE / "with_fault.py",
            number,
            "msprobe",
            "repro",
            call,
            "-api_info",
            dump,
            "-o",
            folder,
            "--reduce",
            cwd=args.out,
        )
        script, data = folder / f"{call}.py", folder / f"{call}.npz"
        if made:
            print(f"| {fault.name} | | | {words} | |")
            continue
        with_it, _ = run(HERE / "with_fault.py", number, script, cwd=folder)
        without, _ = run(script, cwd=folder)
        lines = len(script.read_text().splitlines())
        size = data.stat().st_size
        good += with_it == 1 and without == 0 and lines < 80
        small += size < 1 << 20
        print(f"| {fault.name} | {lines} | {size} | exit {with_it} | exit {without} |", flush=True)
    print(f"\n{good} of {len(numbers)} fail with the fault and pass without; {small} are below 1 MiB")


if __name__ == "__main__":
    main()
