"""How long both tools take for the same pairs of dumps, and how much memory: a markdown table.

    python benchmarks/compat/speed.py [--parts start statistics small large million] [--calls 20000 100000] [--rounds 3]
                                      [--versions 26.2.0 8.1.1] [--ours PYTHON] [--folder DIR]

Whole commands, run in turns, none at the same time as another; of each cell the median over the rounds. Every command
writes the call stacks. CPU seconds and the peak of the memory are of a command's whole tree of processes (`watch.py`);
where others use the machine meanwhile, CPU seconds say more than seconds. Ratios are to the release of the other tool
that writes the same kind of file, 26.2.0 for csv and 8.1.1 for xlsx; of the memory, ours as a share of its.

| part | dumps |
|---|---|
| start | 20 calls: what starting a tool costs |
| statistics | 20,000 and 100,000 calls, 2.4 records each |
| small | 4,000 tensors of 1,024 elements |
| large | 200 tensors of 16 MiB: 6.7 GB of disk in DIR, freed afterwards |
| million | 10^6 rows of statistics, to csv, ours only |
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from other_tool import ENVIRONMENTS, VERSIONS, OtherTool, clean_environment, install
from speed_dumps import statistics_pair, tensor_pair

Pair = tuple[Path, Path]
WATCH = Path(__file__).with_name("watch.py")
PARTS = ("start", "statistics", "small", "large", "million")
ROWS_IN_A_CALL = 2.4


class Measured(NamedTuple):
    """What one command took."""

    seconds: float
    cpu: float
    peak: float


@dataclass(frozen=True)
class Form:
    """One way to compare a pair: what it is called, the file it writes, its command."""

    name: str
    file: str
    command: Callable[[Path, Path, Path], list[str]]
    is_ours: bool = True


@dataclass(frozen=True)
class Part:
    """One pair of dumps, and how to make it."""

    name: str
    make: Callable[[Path], Pair]
    is_ours_only: bool = False


def ours(python: str) -> Iterator[Form]:
    """Our command, to each kind of file."""

    def form(name: str, file: str, *start: str) -> Form:
        def command(target: Path, golden: Path, output: Path) -> list[str]:
            sides = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(output)]
            return [python, *start, *sides, "--format", file, "-s"]

        return Form(f"ours, {name}", file, command)

    yield form("csv", "csv", "-m", "msprobe")
    yield form("xlsx", "xlsx", "-m", "msprobe")


def theirs(tool: OtherTool) -> Form:
    """The other tool's command: 8.1 writes a sheet, 26 a csv."""
    return Form(f"mindstudio-probe {tool.version}", "xlsx" if tool.is_old else "csv", tool.command, False)


def parts(names: list[str], calls: list[int]) -> Iterator[Part]:
    """The pairs that were asked for."""
    if "start" in names:
        yield Part("20 calls, statistics", lambda folder: statistics_pair(folder, 20))
    if "statistics" in names:
        for count in calls:
            yield Part(f"{count:,} calls, statistics", lambda folder, count=count: statistics_pair(folder, count))
    if "small" in names:
        yield Part("4,000 tensors of 4 KiB", lambda folder: tensor_pair(folder, 4000, 2**10))
    if "large" in names:
        yield Part("200 tensors of 16 MiB", lambda folder: tensor_pair(folder, 200, 2**22))
    if "million" in names:
        count = round(10**6 / ROWS_IN_A_CALL)
        yield Part("10^6 rows, statistics", lambda folder: statistics_pair(folder, count), True)


def measure(command: list[str], output: Path) -> Measured:
    """One command, which has to leave a table in `output`."""
    watched = [sys.executable, "-I", "-S", str(WATCH), *command]
    done = subprocess.run(
        watched, cwd=output.parent, env=clean_environment(), capture_output=True, text=True, check=True
    )
    if not list(output.glob("compare_result_*")):
        raise SystemExit(f"{' '.join(command)} wrote no table")
    _, *measured = map(float, done.stdout.split())
    return Measured(*measured)


def run(part: Part, forms: list[Form], rounds: int, root: Path) -> None:
    """Print the rows of one pair of dumps."""
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        folder = Path(scratch)
        target, golden = part.make(folder)
        seen: dict[Form, list[Measured]] = {form: [] for form in forms}
        for turn in range(rounds):
            for at, form in enumerate(forms):
                output = folder / f"table-{turn}-{at}"
                seen[form].append(measure(form.command(target, golden, output), output))
                print(f"{part.name}: {form.name}: {seen[form][-1]}", file=sys.stderr, flush=True)
    middle = {form: Measured(*map(median, zip(*runs, strict=True))) for form, runs in seen.items()}
    yardstick = {form.file: found for form, found in middle.items() if not form.is_ours}
    for form, found in middle.items():
        ratios = "| | | |"
        if form.is_ours and form.file in yardstick:
            other = yardstick[form.file]
            faster, thriftier = other.seconds / found.seconds, other.cpu / found.cpu
            ratios = f"| {faster:.1f} x | {thriftier:.1f} x | {found.peak / other.peak:.2f} |"
        numbers = f"{found.seconds:.2f} | {found.cpu:.2f} | {found.peak:.0f}"
        print(f"| {part.name} | {form.name} | {numbers} {ratios}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--calls", type=int, nargs="*", default=[20_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--versions", nargs="*", default=VERSIONS, help="of the other tool; none: ours only")
    parser.add_argument("--without-ours", action="store_true", help="the other tool only")
    parser.add_argument("--ours", default=sys.executable, help="a Python with msprobe-ms")
    parser.add_argument("--folder", type=Path, help="where the dumps are written, default the system's")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the other tool is installed")
    args = parser.parse_args()
    own = [] if args.without_ours else list(ours(args.ours))
    forms = own + [theirs(install(version, args.environments)) for version in args.versions]
    print("| dumps | command | seconds | CPU s | peak MB | faster | less CPU | share of the memory |")
    print("|---|---|---|---|---|---|---|---|")
    for part in parts(args.parts, args.calls):
        chosen = [form for form in own if form.file == "csv"] if part.is_ours_only else forms
        run(part, chosen, args.rounds, args.folder or Path(tempfile.gettempdir()))


if __name__ == "__main__":
    main()
