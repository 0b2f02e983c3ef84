"""Do our measures agree with the other tool's, cell by cell, to the printed digits?

    python benchmarks/compat/columns.py [--sources samples special trainings] [--versions 26.2.0 8.1.1]
                                        [--ours PYTHON] [--keep DIR] [--show 10]

Both tools compare the same pairs of dumps by their commands: the samples of `tests/samples`, dumps with one call for
each special case (`special_cases.py`), and steps of trainings (`collect.py`; these need MindSpore). In every row that
both matched with the same partner, the columns of measures have to agree: two numbers if they are one number in 15
digits, what a sum of float64 is good for in whatever order it is taken; two texts if they are equal. A
disagreement has to be one of `warts.py`, where the other tool is wrong and a proof stands; of these only the number is
printed. Moreover, each of our values has to be the one that `worked.py` works out without either tool. Exit code 0:
nothing else disagrees; 1: something does, and what.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cells import Pair, Tally, held, not_worked_out
from other_tool import ENVIRONMENTS, VERSIONS, OtherTool, Row, clean_environment, install, read_table
from special_cases import MODES, broken_cases, cases, write_pair
from warts import BY_ID

SAMPLES = Path(__file__).parents[2] / "tests" / "samples"
COLLECT = Path(__file__).with_name("collect.py")
BROKEN = "cut off files, tensor"
FIRST = 100
TRAININGS = [
    ("transformer", "mix", "half"),
    ("transformer", "L0", "scale"),
    ("transformer", "L1", "transposed"),
    ("values", "mix", "scale"),
]


def sample_pairs() -> Iterator[Pair]:
    """Every pair of MindSpore dumps that the samples hold: a dump with itself, and with the one of a changed weight."""
    for version in sorted(folder.parent.name for folder in SAMPLES.glob("*/dumps")):
        dumps = SAMPLES / version / "dumps"
        for target in sorted(dumps.glob("ms_*_*")):
            (rank,) = target.glob("step0/*")
            yield Pair(f"{version} {target.name}, itself", rank, rank)
            changed = dumps / target.name.replace("ms_", "msp_", 1)
            if changed.exists():
                yield Pair(f"{version} {target.name}, changed weight", next(changed.glob("step0/*")), rank)


def special_pairs(folder: Path) -> Iterator[Pair]:
    """The special cases, in each mode; cut off files apart."""
    for mode in MODES:
        target, golden = write_pair(folder / mode, mode, cases())
        yield Pair(f"special cases, {mode}", target / "rank0", golden / "rank0")
    target, golden = write_pair(folder / "broken", "tensor", broken_cases())
    yield Pair(BROKEN, target / "rank0", golden / "rank0")


def training_pairs(folder: Path, python: str) -> Iterator[Pair]:
    """A step of a clean training and one of a training with a fault."""
    folder.mkdir()
    for net, level, fault in TRAININGS:
        for task in ("tensor", "statistics"):
            ranks = []
            for how in (fault, "clean"):
                root = folder / f"{net}-{level}-{task}-{how}"
                command = [python, str(COLLECT), net, level, task, how, str(root)]
                done = subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
                ranks.append(next((root / "step0").iterdir()))
            yield Pair(f"{net} {level}, {task}", *ranks)


def gathered(pairs: list[Pair], folder: Path) -> list[Pair]:
    """The pairs as ranks of two steps, so that the other tool has to be started once only.

    Numbers are of three digits because 8.1 takes them in the order of their texts, and a pair may end its run. 26 takes
    statistics in several processes if the first pair is of statistics, and fails at tensors then.
    """
    found = []
    for at, pair in enumerate(sorted(pairs, key=lambda pair: pair.name == BROKEN), FIRST):
        sides = [folder / side / "step0" / f"rank{at}" for side in ("target", "golden")]
        for rank, values in zip(sides, (pair.target, pair.golden), strict=True):
            shutil.copytree(values, rank)
        found.append(Pair(pair.name, *sides))
    return found


def theirs(tool: OtherTool, pairs: list[Pair], folder: Path) -> dict[str, list[Row]]:
    """The other tool's table of each pair. A pair that ends its run is asked for again on its own; it may have none."""
    steps = pairs[0].target.parent, pairs[0].golden.parent
    tables, _ = tool.compare_ranks(*steps, folder / f"all-{tool.version}")
    for pair in pairs:
        rank = pair.target.name
        if rank not in tables:
            alone = gathered([pair], folder / f"alone-{tool.version}-{rank}")[0]
            again, _ = tool.compare_ranks(alone.target.parent, alone.golden.parent, folder / f"{rank}-{tool.version}")
            tables[rank] = again.get(f"rank{FIRST}", [])
    return {pair.name: tables[pair.target.name] for pair in pairs}


def ours(python: str, pairs: list[Pair], folder: Path) -> dict[str, list[Row]]:
    """Our csv of each pair."""
    tables = {}
    for pair in pairs:
        output = folder / f"ours-{pair.target.name}"
        sides = ["-tp", str(pair.target), "-gp", str(pair.golden), "-o", str(output), "--format", "csv"]
        done = subprocess.run(
            [python, "-m", "msprobe", "compare", *sides],
            cwd=folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
        )
        found = list(output.glob("compare_result_*.csv"))
        if len(found) != 1:
            raise SystemExit(f"ours wrote {len(found)} tables of {pair.name}:\n{done.stdout}{done.stderr}")
        tables[pair.name] = read_table(found[0])
    return tables


def main() -> int:
    """Print the summary, and what disagrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sources = ("samples", "special", "trainings")
    parser.add_argument("--sources", nargs="+", choices=sources, default=sources)
    parser.add_argument("--versions", nargs="+", default=VERSIONS, help="of mindstudio-probe, from the package index")
    parser.add_argument("--ours", default=sys.executable, help="a Python with msprobe-ms, for the comparison")
    parser.add_argument("--collect", default=sys.executable, help="a Python with msprobe-ms and MindSpore")
    parser.add_argument("--show", type=int, default=10, help="of each pair's disagreements")
    parser.add_argument("--keep", type=Path, help="write dumps and tables here and leave them")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the other tool is installed")
    args = parser.parse_args()
    tools = [install(version, args.environments) for version in args.versions]
    with tempfile.TemporaryDirectory() as scratch:
        root = (args.keep or Path(scratch)).absolute()
        root.mkdir(parents=True, exist_ok=True)
        samples = list(sample_pairs()) if "samples" in args.sources else []
        samples += special_pairs(root / "special") if "special" in args.sources else ()
        samples += training_pairs(root / "trainings", args.collect) if "trainings" in args.sources else ()
        pairs = gathered(samples, root)
        mine = ours(args.ours, pairs, root)
        tables = {tool.version: theirs(tool, pairs, root) for tool in tools}
        bad = [f"{pair.name}: {line}" for pair in pairs for line in _not_worked_out(pair, mine[pair.name], args.show)]
    return report(mine, tables, args.show, bad)


def _not_worked_out(pair: Pair, rows: list[Row], show: int) -> list[str]:
    return [] if pair.name == BROKEN else list(not_worked_out(pair, rows))[:show]


def report(mine: dict[str, list[Row]], tables: dict[str, dict[str, list[Row]]], show: int, bad: list[str]) -> int:
    """Print one line for each pair and version, and what is bad; give the exit code."""
    print("| pair | version | rows both matched | other rows | cells | equal | warts |\n|---|---|---|---|---|---|---|")
    total: dict[str, Tally] = {version: Tally() for version in tables}
    for name, rows in mine.items():
        for version, table in ((version, found[name]) for version, found in tables.items()):
            if not table and name != BROKEN:
                bad.append(f"{name}: {version} wrote no table")
                continue
            tally, sum_ = held(rows, table, version), total[version]
            warts = ", ".join(f"{wart} {count}" for wart, count in sorted(tally.warts.items()))
            numbers = " | ".join(map(str, (tally.rows, tally.apart, tally.cells, tally.equal)))
            print(f"| {name} | {version} | {numbers} | {warts or '-'} |")
            bad += [f"{name}: {line}" for line in tally.wrong[:show]]
            sum_.rows, sum_.apart = sum_.rows + tally.rows, sum_.apart + tally.apart
            sum_.cells, sum_.equal = sum_.cells + tally.cells, sum_.equal + tally.equal
            sum_.warts += tally.warts
    for version, tally in total.items():
        warts = ", ".join(f"{wart} {count}" for wart, count in sorted(tally.warts.items()))
        print(f"| all | {version} | {tally.rows} | {tally.apart} | {tally.cells} | {tally.equal} | {warts} |")
    for wart in sorted({wart for tally in total.values() for wart in tally.warts}):
        print(f"\n{wart}: {BY_ID[wart].does}\n  {BY_ID[wart].proof}")
    print("\n".join(["", *(f"DISAGREES {line}" for line in bad)]) if bad else "\nnothing else disagrees")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
