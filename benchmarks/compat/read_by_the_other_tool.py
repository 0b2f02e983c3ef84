"""Let the other tool compare two dumps of ours, and hold its table to what our dumps say.

    python benchmarks/compat/read_by_the_other_tool.py [--versions 26.2.0 8.1.1] [--show 4] [--keep DIR]

Run it with a Python that has MindSpore and msprobe-ms. It collects each pair of dumps (one clean training, one with a
fault), runs the other tool's `compare` on them in an environment of its own, and prints the head of its table. Exit
code 0: every record of every pair became a row with our digits; 1: something was not read, and what.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from check import SIDES, WITHOUT_PARTNER, complaints, measured
from other_tool import ENVIRONMENTS, VERSIONS, OtherTool, Row, clean_environment, install

from msprobe.store.reader import read

# "half" and "transposed" make calls that golden has not, "half" also tensors of float16
TRAININGS = [
    ("transformer", "mix", "half"),
    ("transformer", "L0", "scale"),
    ("transformer", "L1", "transposed"),
    ("values", "mix", "scale"),
]
PAIRS = [(net, level, task, fault) for net, level, fault in TRAININGS for task in ("statistics", "tensor")]
SHOWN = [f"{side} {what}" for what in ("Name", "Dtype", "Tensor Shape", "max") for side in SIDES]
WIDEST = 42
MOST = 10


def collect(net: str, level: str, task: str, fault: str, folder: Path) -> Path:
    """Run a training in a process of its own; gives the step's folder."""
    script = Path(__file__).parent / "collect.py"
    command = [sys.executable, str(script), net, level, task, fault, str(folder)]
    done = subprocess.run(command, cwd=folder.parent, env=clean_environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return folder / "step0"


def as_text(rows: list[Row]) -> str:
    """Rows as lines of equal columns."""
    lines = [SHOWN, *([str(row[column])[:WIDEST] for column in SHOWN] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def show(tool: OtherTool, title: str, target: Path, golden: Path, output: Path, head: int) -> bool:
    """Compare one pair, print what came of it, and tell whether all of it was read."""
    rows, printed = tool.compare(target, golden, output)
    ours, theirs = read(target), read(golden)
    wrong = list(complaints(ours, theirs, rows))
    print(f"\n== {tool.version}: {title}")
    if not rows:
        print("NOT READ: it wrote no table. It said:\n  " + "\n  ".join(printed.splitlines()[-MOST:]))
        return False
    print(as_text(rows[:head]))
    records = sum(len(call.records) for call in ours.calls)
    pairs = sum(row["Bench Name"] != WITHOUT_PARTNER for row in rows)
    files = f", {sum(map(measured, rows))} measured from npy files" if "MaxAbsErr" in rows[0] else ""
    print(f"... {len(rows)} rows of {records} records, {pairs} with a partner{files}", flush=True)
    print("\n".join(f"NOT READ: {line}" for line in wrong[:MOST]) if wrong else "read: every record, every digit")
    return not wrong


def main() -> int:
    """Print one section for each version and pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", default=VERSIONS, help="of mindstudio-probe, from the package index")
    parser.add_argument("--show", type=int, default=4, help="rows of each table")
    parser.add_argument("--keep", type=Path, help="write dumps and tables here and leave them")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the other tool is installed")
    args = parser.parse_args()
    tools = [install(version, args.environments) for version in args.versions]
    with tempfile.TemporaryDirectory() as scratch:
        root = (args.keep or Path(scratch)).absolute()
        root.mkdir(parents=True, exist_ok=True)
        good = []
        for pair, (net, level, task, fault) in enumerate(PAIRS):
            target = collect(net, level, task, fault, root / f"target{pair}")
            golden = collect(net, level, task, "clean", root / f"golden{pair}")
            for tool in tools:
                output = root / f"table{pair}-{tool.version}"
                good.append(show(tool, f"{net}, {level}, {task}", target, golden, output, args.show))
    print(f"\n{sum(good)} of {len(good)} comparisons read everything")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
