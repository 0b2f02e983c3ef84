"""How long both tools take for the same two dumps: whole commands that take turns, as a markdown table.

    python benchmarks/compat/side_by_side.py [--rows 20000] [--rounds 3] [--versions 26.2.0 8.1.1]

Statistics dumps from `benchmarks/compare.py`; a row of 40 records shows what a tool's start costs. Memory is the peak
of the largest process. All tables hold the call stacks. Of each cell the median over the rounds.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from other_tool import ENVIRONMENTS, VERSIONS, clean_environment, install

GENERATOR = Path(__file__).parents[1] / "compare.py"
SMALL = 40


# A process's peak includes what its parent held when it was forked, so a small one stands in between.
LAUNCHER = """
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


def measure(command: list[str], output: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of one command, which has to leave a table in `output`."""
    launch = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(
        launch, cwd=output.parent, env=clean_environment(), capture_output=True, text=True, check=True
    )
    if not list(output.glob("compare_result_*")):
        raise SystemExit(f"{' '.join(command)} wrote no table")
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the other tool is installed")
    args = parser.parse_args()
    spec = importlib.util.spec_from_file_location("generator", GENERATOR)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    tools = [install(version, args.environments) for version in args.versions]
    print("| rows | command | seconds | peak MB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for rows in [SMALL, *args.rows]:
            target = generator.write_dump(root / f"target{rows}", rows, 1e-3).parent
            golden = generator.write_dump(root / f"golden{rows}", rows, 0).parent
            seen: dict[str, list[tuple[float, float]]] = {}
            for round_ in range(args.rounds):
                for form in ("csv", "xlsx"):
                    output = root / f"ours-{rows}-{round_}-{form}"
                    ours = [sys.executable, "-m", "msprobe", "compare", "-tp", str(target), "-gp", str(golden)]
                    command = [*ours, "-o", str(output), "--format", form, "-s"]
                    seen.setdefault(f"msprobe-ms, {form}", []).append(measure(command, output))
                for tool in tools:
                    output = root / f"other-{rows}-{round_}-{tool.version}"
                    name = f"mindstudio-probe {tool.version}, {'xlsx' if tool.is_old else 'csv'}"
                    seen.setdefault(name, []).append(measure(tool.command(target, golden, output), output))
            for name, runs in seen.items():
                seconds, peak = (median(column) for column in zip(*runs, strict=True))
                print(f"| {rows:,} | {name} | {seconds:.2f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
