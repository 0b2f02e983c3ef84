"""Train every network at every level, with every task, in both modes, with and without the debugger; bits are compared.

    python tests/training/grid.py [--jobs N] [--steps N] [--nets NET ...] [--results FILE] [--write PAGE]

What is done stands in FILE, one line a run; repeated with the same sources and steps, only the rest is run. Exit code:
0 every run is equal to its bare twin and its dump holds what was counted by hand, 1 not so.
"""

import argparse
import hashlib
import json
import platform
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import bits
from bits import GRAPHS, KINDS, NETS, RANKS, Outcome, Run, grid, judge_all, processes

sys.path.append(str(Path(__file__).parents[1] / "preloaded"))
from preloaded import python

COMMANDS = ("compare", "diagnose", "report", "report_verb")
"""Packages that only commands use: no process that trains imports them."""

NAMES = {False: "synchronous", True: "asynchronous"}

INTRODUCTION = """\
# Bit-identity

Written by `make verify`. Each training of `tests/training/` is run in processes of its own, forked from one that has
imported MindSpore: without the debugger in both modes of MindSpore's pipeline, which must agree, and with it for each
level, task and mode. `equal`: over all steps the losses, the returned gradients, the parameters, the states of the
optimizer, and the states of the random generators of Python, numpy and MindSpore have the same bits (SHA-256), and each
step's dump holds as many calls as were counted by hand (`tests/training/calls.py`). Each kind of training has a table.

"""


ABOUT = {
    "L0": "Trainings in PyNative mode.",
    "columnar": "Trainings at level mix whose dump is columnar (`format`).",
    "packed": "Trainings at level mix whose tensors lie in one file of each step (`format`).",
    "watching": """\
Trainings at level mix that write only what shows something: `overflow_check`, `statistics` with a `trigger` that fires
at nearly every call, and `exception_dump`. Of the first the names of all calls are counted, of the last that there is a
dump where something was raised, and only there.""",
    "acc_check": """\
Trainings whose calls are held to float64 while they run, at level mix and within 200 ms of each step; some call must
have been checked.""",
    "free_benchmark": """\
Trainings in which every function is run a second time: `forward` with the lowest bit of an input flipped, and its
outputs are compared; `backward` with two values of an input exchanged, and its gradients are compared. No second run
may have failed.""",
    "monitor": """\
Trainings in which nothing is dumped; a `TrainerMon` measures everything that it can at every step, with alerts, and
each step must have left rows of activations, gradients, weights and the loss.""",
    "graph": """\
Trainings in graph mode, held to bare ones in graph mode: their losses and weights have the same bits. Operators that
collect are planted in the graph, at level L0; `save` has those of `save` and `save_grad` that a user wrote.""",
    "distributed": """\
Trainings of PyTorch on 2 and 4 processes with gloo, at level mix, with AdamW and clipped gradients: DDP, FSDP2, FSDP2
with recomputation inside, FSDP2 with shards of unequal lengths, tensor parallel, both together (2d), and without
clipping FSDP1 and a `ZeroRedundancyOptimizer`. On each rank the losses and all bits of parameters, gradients and states
of the optimizer are equal after every step, and each dump has a gradient of each parameter.""",
}
"""What is to be said before the rows of a level."""


def main() -> int:
    args = arguments()
    bits.PYTHON = python("mindspore")
    runs = [run for run in grid() if run.net in args.nets and run.level in args.levels]
    header = {"steps": args.steps, **environment()}
    known = done_before(args.results, header)
    rest = [run for run in runs if run not in known]
    print(f"{len(runs)} runs of {args.steps} steps, {len(runs) - len(rest)} done before", flush=True)
    with args.results.open("a") as results:
        if not known:
            results.truncate(0)
            print(json.dumps(header), file=results, flush=True)

        def report(run: Run, outcome: Outcome) -> None:
            known[run] = outcome
            print(json.dumps([asdict(run), asdict(outcome)]), file=results, flush=True)
            words = (run.net, run.level, run.task, NAMES[run.asynchronous], outcome.word, outcome.why)
            print(f"{len(known)}/{len(runs)}", *words, flush=True)

        judge_all(rest, args.steps, args.jobs, report)
    if args.write:
        args.write.write_text(page(known, header))
    wrong = [run for run in runs if known[run].word != "equal"]
    print(f"{len(runs) - len(wrong)} equal, {len(wrong)} not")
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=processes(), help="trainings at once")
    parser.add_argument("--steps", type=int, default=20)
    nets, levels = (*NETS, *GRAPHS, *RANKS), tuple(KINDS)
    parser.add_argument("--nets", nargs="+", choices=nets, default=nets, metavar="NET", help="some of them only")
    parser.add_argument(
        "--levels", nargs="+", choices=levels, default=levels, metavar="LEVEL", help="the same of levels"
    )
    parser.add_argument("--results", type=Path, default=Path("bit-identity.jsonl"), help="what is done; taken up again")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the Markdown page to write")
    return parser.parse_args()


def environment() -> dict[str, str]:
    """What the outcomes hold for: versions, the processor, and a digest of the sources that collect and train."""
    return {
        "msprobe-ms": version("msprobe-ms"),
        "MindSpore": version("mindspore"),
        "Python": platform.python_version(),
        "numpy": version("numpy"),
        "processor": processor(),
        "sources": sources(),
    }


def processor() -> str:
    """The processor's own name, and how many of its cores there are for us."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names) or 1} cores"


def sources() -> str:
    """Return a short digest of the Python and C files of this folder and of msprobe, but for those of `COMMANDS`."""
    folders = [*(find_spec("msprobe").submodule_search_locations), str(Path(__file__).parent)]
    folders += [place for package in ("cell_dump", "graph_save") for place in _places(f"msprobe.{package}")]
    suffixes = (".py", ".c", ".cpp", ".h", ".inc", ".so")
    commands = {place for name in COMMANDS for place in _places(f"msprobe.{name}")}
    folders.append(str(bits.SHARDED.parent))
    files = sorted(
        f
        for f in {f for folder in folders for f in Path(folder).rglob("*") if f.suffix in suffixes}
        if commands.isdisjoint(map(str, f.parents))
    )
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _places(name: str) -> list[str]:
    return list(find_spec(name).submodule_search_locations)


def done_before(results: Path, header: dict[str, object]) -> dict[Run, Outcome]:
    """What stands in the file of an earlier call under the same header; a line that was cut off does not count."""
    lines = results.read_text().splitlines() if results.exists() else []
    if not lines or lines[0] != json.dumps(header):
        return {}
    found = {}
    for line in lines[1:]:
        try:
            run, outcome = json.loads(line)
        except ValueError:
            continue
        found[Run(**run)] = Outcome(**outcome)
    return found


def page(known: dict[Run, Outcome], header: dict[str, object]) -> str:
    """The page of the documentation: a table for each level that `ABOUT` has, with the levels behind it."""
    equal = sum(outcome.word == "equal" for outcome in known.values())
    trained = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    facts = [*((key, str(value)) for key, value in header.items()), ("date", trained)]
    facts += [("seconds", f"{sum(outcome.seconds for outcome in known.values()):.0f} in the collected trainings")]
    lines = [
        f"**{equal} of {len(grid())} trainings are equal.**",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in facts),
    ]
    groups: list[list[str]] = []
    for level in KINDS:
        groups += [[]] if level in ABOUT else []
        groups[-1].append(level)
    for levels in groups:
        lines += ["", ABOUT[levels[0]], "", *_table(levels, known)]
    return INTRODUCTION + "\n".join(lines) + "\n"


def _table(levels: list[str], known: dict[Run, Outcome]) -> list[str]:
    """The outcomes at some levels that have the same networks, tasks and modes."""
    kind = KINDS[levels[0]]
    columns = [(task, mode) for task in kind.tasks for mode in kind.modes]
    titles = ["network", "level", *(f"{task}, {NAMES[mode]}" for task, mode in columns), "seconds"]
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for net, level in product(kind.nets, levels):
        outcomes = [known.get(Run(net, level, task, mode)) for task, mode in columns]
        seconds = sum(outcome.seconds for outcome in outcomes if outcome)
        lines.append(f"| {' | '.join([net, level, *map(_shown, outcomes), f'{seconds:.0f}'])} |")
    return lines


def _shown(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    return outcome.word if outcome.word == "equal" else f"**{outcome.word}**"


if __name__ == "__main__":
    sys.exit(main())
