"""Measure what each C extension is worth: commands and collected steps with it, without it, and with a library instead.

    python benchmarks/extensions/run.py steps [--sets 3] [--rounds 10] [--nets tiny transformer torch] [--levels L1 mix]
    python benchmarks/extensions/run.py commands [--pairs 10] [--only NAME ...]

An extension is switched off for a process and its children by `sitecustomize.py`, which makes its import fail;
`instead.py` puts libraries in the place of our code. CPU time is user and system time, of a command with all its
children: it depends less than wall time on the load of the machine. Both sides alternate; a ratio is that of one pair,
without by with, and the table has the median and the quartiles of the ratios.

`steps`: one process per variant takes turns with the others; each turn is so many collected steps. All processes are
started anew `--sets` times, since two processes of the same code differ by a percent or two.
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
sys.path.append(str(HERE.parent / "against"))

from against.process import WORKER, Kind, Process  # noqa: E402 - the lines above say where it is

from compare import write_dump  # noqa: E402

OF_STEPS = {
    "_gradients": ("msprobe.cell_dump._gradients",),
    "_statistic": ("msprobe.base._statistic",),
}
"""The modules that are missing in a variant of a collected step."""

STEPS_PER_TURN = 8


def environment(without: Sequence[str] = ()) -> dict[str, str]:
    """Return what a process needs to run without some extensions; the same hashes and one thread for each."""
    return {
        "PYTHONPATH": str(HERE),
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "MSPROBE_BENCHMARK_WITHOUT": " ".join(without),
    }


@dataclass
class Measured:
    """One comparison: seconds of CPU and of the clock, in pairs."""

    extension: str
    of: str
    instead: str
    cpu: list[tuple[float, float]] = field(default_factory=list)
    wall: list[tuple[float, float]] = field(default_factory=list)

    def row(self) -> str:
        with_it, without = (statistics.median(side) for side in zip(*self.cpu, strict=True))
        ratios = [b / a for a, b in self.cpu]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        of_wall = statistics.median(b / a for a, b in self.wall)
        return (
            f"| `{self.extension}` | {self.of} | {self.instead} | {len(ratios)} | {with_it:.3f} | {without:.3f} "
            f"| {middle:.3f} ({low:.3f} to {high:.3f}) | {of_wall:.2f} |"
        )


HEADINGS = (
    "| Extension | Measured | Instead | Pairs | CPU s with | CPU s without | Ratio (quartiles) | Ratio of wall time |",
    "|---|---|---|---|---|---|---|---|",
)


# --- Collected steps ---


def steps(args: argparse.Namespace) -> Iterable[Measured]:
    kinds = [(net, Kind(level, task)) for net in args.nets for level in args.levels for task in args.tasks]
    for net, kind in kinds:
        found = {name: Measured(name, f"{net}, {kind.level}, {kind.task}", "Python") for name in OF_STEPS}
        found["everything"] = Measured("all of these", f"{net}, {kind.level}, {kind.task}", "Python")
        found["nothing"] = Measured("none", f"{net}, {kind.level}, {kind.task}", "the same again")
        for _ in range(args.sets):
            with tempfile.TemporaryDirectory(dir=args.folder) as scratch, ExitStack() as stack:
                every = {name: tuple(OF_STEPS.get(name, ())) for name in ("", *found)}
                every["everything"] = tuple(itertools.chain(*OF_STEPS.values()))
                workers = {}
                for name, without in every.items():
                    (Path(scratch) / f"w-{name}").mkdir()
                    workers[name] = Process(
                        sys.executable,
                        "ours",
                        net,
                        kind,
                        Path(scratch) / f"w-{name}",
                        False,
                        environment(without),
                        HERE / "torch_worker.py" if net == "torch" else WORKER,
                    )
                    stack.callback(workers[name].end)
                for turn in range(-2, args.rounds):
                    # Each runs as many steps as the others, for a step may depend on how many there were before.
                    names, at = list(workers), turn % len(workers)
                    order = [*names[at:], *names[:at]]
                    seconds = {name: _turn(workers[name]) for name in (order if turn % 2 else order[::-1])}
                    for name in found if turn >= 0 else ():
                        found[name].cpu.append((seconds[""][0], seconds[name][0]))
                        found[name].wall.append((seconds[""][1], seconds[name][1]))
        yield from found.values()


def _turn(worker: Process) -> tuple[float, float]:
    """CPU and wall seconds of a step, over some of them."""
    cpu = wall = 0.0
    for _ in range(STEPS_PER_TURN):
        found = worker.ask("collect")
        cpu += found["cpu"] / STEPS_PER_TURN
        wall += found["seconds"] / STEPS_PER_TURN
        worker.ask("empty")
    return cpu, wall


# --- Commands ---


@dataclass(frozen=True)
class Case:
    """A command, and what is missing or in the place of our code while it runs without."""

    extension: str
    of: str
    instead: str
    arguments: Callable[["Dumps", Path], list[str]]
    without: tuple[str, ...] = ()
    library: str = ""

    @property
    def name(self) -> str:
        return f"{self.extension}:{self.of}:{self.instead}"


class Dumps:
    """Generated dumps, each written when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pair(self, rows: int, noise: float = 1e-3) -> list[str]:
        """Options that compare two dumps of so many rows, of which half differ unless the noise is 0."""
        return ["-tp", str(self._dump(rows, noise)), "-gp", str(self._dump(rows, 0))]

    def ranks(self, count: int, rows: int, noise: float = 1e-3) -> list[str]:
        """The same for folders of so many ranks."""
        sides = []
        for side, amount in (("target", noise), ("golden", 0)):
            folder = self._folder / f"{side}-{count}-ranks-{rows}-{amount}"
            if not folder.exists():
                one = write_dump(folder / "once", rows, amount)
                for rank in range(count):
                    place = folder / "all" / "step0" / f"rank{rank}"
                    place.parent.mkdir(parents=True, exist_ok=True)
                    subprocess.run(["cp", "-r", str(one), str(place)], check=True)
            sides.append(str(folder / "all"))
        return ["-tp", sides[0], "-gp", sides[1]]

    def one(self, rows: int) -> str:
        return str(self._dump(rows, 0))

    def _dump(self, rows: int, noise: float) -> Path:
        folder = self._folder / f"{rows}-{noise}"
        return folder / "step0" / "rank0" if folder.exists() else write_dump(folder, rows, noise)


ENTRIES, CELLS = "msprobe.store._entries", "msprobe.compare.tables._cells"


def _compared(form: str, rows: int, noise: float = 1e-3, *more: str) -> Callable[[Dumps, Path], list[str]]:
    return lambda dumps, output: ["compare", *dumps.pair(rows, noise), "-o", str(output), "--format", form, *more]


def _ranks(*more: str) -> Callable[[Dumps, Path], list[str]]:
    return lambda dumps, output: ["compare", *dumps.ranks(8, 8_000), "-o", str(output), "--format", "csv", *more]


CASES = [
    Case("_entries", "compare, 20,000 rows, csv", "Python", _compared("csv", 20_000), (ENTRIES,)),
    Case("_entries", "compare, 200,000 rows, csv", "Python", _compared("csv", 200_000), (ENTRIES,)),
    Case("_entries", "compare, 200,000 equal rows, csv", "Python", _compared("csv", 200_000, 0), (ENTRIES,)),
    Case(
        "_entries",
        "overflow-check, 200,000 rows",
        "Python",
        lambda dumps, output: ["overflow-check", dumps.one(200_000), "-o", str(output)],
        (ENTRIES,),
    ),
    Case("_entries", "compare, 8 ranks of 8,000 rows, csv", "Python", _ranks("--workers", "1"), (ENTRIES,)),
    Case("_entries", "compare, 200,000 equal rows, csv", "orjson", _compared("csv", 200_000, 0), (ENTRIES,), "orjson"),
    Case(
        "_entries", "compare, 200,000 equal rows, csv", "msgspec", _compared("csv", 200_000, 0), (ENTRIES,), "msgspec"
    ),
    Case("_cells", "compare, 20,000 rows, csv", "Python", _compared("csv", 20_000), (CELLS,)),
    Case("_cells", "compare, 200,000 rows, csv", "Python", _compared("csv", 200_000), (CELLS,)),
    Case("_cells", "compare, 200,000 rows, csv, -s", "Python", _compared("csv", 200_000, 1e-3, "-s"), (CELLS,)),
    Case("_cells", "compare, 20,000 rows, csv", "module csv", _compared("csv", 20_000), (CELLS,), "csv"),
    Case("_cells", "compare, 20,000 rows, csv", "pyarrow.csv", _compared("csv", 20_000), (CELLS,), "pyarrow"),
    Case("_cells", "compare, 20,000 rows, xlsx", "Python", _compared("xlsx", 20_000), (CELLS,)),
    Case(
        "_cells", "compare, 20,000 rows, xlsx, -s -hl", "Python", _compared("xlsx", 20_000, 1e-3, "-s", "-hl"), (CELLS,)
    ),
    Case("sheet writer", "compare, 20,000 rows, xlsx", "XlsxWriter", _compared("xlsx", 20_000), (CELLS,), "xlsxwriter"),
    Case("sheet writer", "compare, 20,000 rows, xlsx", "openpyxl", _compared("xlsx", 20_000), (CELLS,), "openpyxl"),
    Case(
        "worker pool", "compare, 8 ranks of 8,000 rows, csv", "concurrent.futures", _ranks("--workers", "2"), (), "pool"
    ),
]


def commands(args: argparse.Namespace) -> Iterable[Measured]:
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        dumps, output = Dumps(Path(scratch)), Path(scratch) / "output"
        for case in CASES:
            if args.only and not any(word in case.name for word in args.only):
                continue
            found = Measured(case.extension, case.of, case.instead)
            words = case.arguments(dumps, output)
            for turn in range(-1, args.pairs):
                pair = {}
                for is_without in (False, True) if turn % 2 else (True, False):
                    pair[is_without] = _command(words, case if is_without else None, args.libraries)
                    subprocess.run(["rm", "-rf", str(output)], check=True)
                if turn >= 0:
                    found.cpu.append((pair[False][0], pair[True][0]))
                    found.wall.append((pair[False][1], pair[True][1]))
            yield found


def _command(words: list[str], case: Case | None, libraries: str) -> tuple[float, float]:
    """CPU seconds of a command and all its children, and wall seconds."""
    extra = environment(case.without if case else ())
    extra["PYTHONPATH"] += os.pathsep + libraries
    command = [sys.executable, str(HERE / "instead.py"), case.library if case and case.library else "-", *words]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **extra}, capture_output=True, text=True)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1 or "Traceback" in done.stderr:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where dumps are written; default: the temporary folder")
    parser.add_argument("--json", type=Path, help="append the measured seconds to this file")
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_steps = verbs.add_parser("steps")
    of_steps.add_argument("--sets", type=int, default=3)
    of_steps.add_argument("--rounds", type=int, default=10)
    of_steps.add_argument("--nets", nargs="+", default=["tiny", "transformer", "torch"])
    of_steps.add_argument("--levels", nargs="+", default=["L1", "mix"])
    of_steps.add_argument("--tasks", nargs="+", default=["statistics"])
    of_commands = verbs.add_parser("commands")
    of_commands.add_argument("--pairs", type=int, default=10)
    of_commands.add_argument("--only", nargs="+", help="cases whose name has one of these words")
    of_commands.add_argument("--libraries", default="", help="a folder with packages that are not installed here")
    args = parser.parse_args()
    print(*HEADINGS, sep="\n", flush=True)
    for found in steps(args) if args.verb == "steps" else commands(args):
        print(found.row(), flush=True)
        if args.json:
            with args.json.open("a") as file:
                print(json.dumps(vars(found)), file=file)
    print(f"Load: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
