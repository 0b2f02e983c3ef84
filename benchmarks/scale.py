"""What thousands of ranks cost: constants of one rank, 256 ranks measured, 4,096 by a replay of the recorded tasks.

    python benchmarks/scale.py constants [--calls 20000]
    python benchmarks/scale.py ranks [--ranks 256] [--calls 500]
    python benchmarks/scale.py replay [--ranks 4096] [--calls 20000]

All dumps are generated: cells with three API calls each, and an all_reduce after every so many calls. *constants*: one
rank; CPU seconds of this process, bytes and files on disk, bytes of what a cluster sends. *ranks*: whole commands, on
two processes and on a local Dask cluster of two workers (extra `cluster`), in three cases: all ranks equal; one rank
wrong before the first exchange, so that all others receive it there; all ranks apart by rounding from half of their
calls on. Rounds are interleaved, medians. *replay*: the tasks of a comparison of so many ranks, each as long as one
that was recorded here, go through a model of the scheduler: one task after the other is sent, in the time that Dask
took for an empty task, to the worker that is free first; the files come from a storage that all workers share. What the
command does by itself (finding the dumps, joining the exchanges of all ranks) is measured with so many ranks.
"""

import argparse
import heapq
import json
import pickle
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cluster import cluster

from msprobe.compare.jobs.digested import read_digests, write_digests
from msprobe.compare.jobs.first import _compare_one
from msprobe.compare.jobs.outcome import Task, compare_job
from msprobe.compare.jobs.plan import Job, Place, SideSource, plan
from msprobe.compare.ranks.collectives import RankSummary, connect
from msprobe.compare.request import Request
from msprobe.compare.workers.run import run

RECORDS_IN_A_CALL = 4
STORAGE = 10e9
"""Bytes a second of the storage that all workers of a replay share."""


def write_rank(folder: Path, calls: int, exchanges: int, wrong_from: int, noise: float) -> Path:
    """Write a dump of so many calls with exchanges in equal distances, wrong from one of its calls on; an exchange that
    is the first wrong one was given what is right."""
    folder.mkdir(parents=True)
    draw = random.Random(1)
    every = distance(calls, exchanges)
    data: dict[str, Any] = {}
    construct: dict[str, Any] = {}
    groups: dict[int, list[str]] = {}
    for at in range(calls):
        layer, kind = at // RECORDS_IN_A_CALL, at % RECORDS_IN_A_CALL
        cell = f"Cell.model.layers.{layer}.attention.Attention.forward.0"
        name = cell if kind == 3 else f"Functional.{('matmul', 'add', 'relu')[kind]}.{layer}.forward"
        if is_exchange := at % every == every - 1:
            name = f"Distributed.all_reduce.{at}.forward"
        records = []
        for place in range(RECORDS_IN_A_CALL):
            is_right = at < wrong_from or (at == wrong_from and is_exchange and place < 3)
            top, low, mean, norm = (draw.gauss(0, 1) * (1 if is_right else 1 + noise) for _ in range(4))
            statistics = {"Max": abs(top), "Min": -abs(low), "Mean": mean, "Norm": abs(norm) * 32}
            records.append({"type": "mindspore.Tensor", "dtype": "Float32", "shape": [32, 128], **statistics})
        data[name] = {"input_args": records[:3], "input_kwargs": {}, "output": records[3:]}
        construct[name] = None if name == cell or is_exchange else cell
        groups.setdefault(at % 50, []).append(name)
    frames = [f"File /home/user/net/layer{n}.py, line {n}, in construct, \n y = self.layer{n}(x)" for n in range(15)]
    head = {"task": "statistics", "level": "mix", "framework": "mindspore", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(head, indent=1))
    (folder / "construct.json").write_text(json.dumps(construct, indent=1))
    (folder / "stack.json").write_text(json.dumps({n: [names, frames] for n, names in groups.items()}, indent=1))
    return folder


def distance(calls: int, exchanges: int) -> int:
    """Calls from one exchange to the next; of a multiple of four, so that no cell is in the way."""
    return max(1, calls // (exchanges + 1) // RECORDS_IN_A_CALL) * RECORDS_IN_A_CALL + 1


@dataclass(frozen=True)
class Case:
    """From which call on one rank, and all others, are wrong, and by how much."""

    name: str
    of_one: int
    of_others: int
    noise: float

    def write(self, root: Path, ranks: int, calls: int, exchanges: int) -> Path:
        """Write the step of a run."""
        made: dict[int, Path] = {}
        for rank in range(ranks):
            wrong_from, folder = self.of_one if rank == 5 else self.of_others, root / "step0" / f"rank{rank}"
            if wrong_from in made:
                shutil.copytree(made[wrong_from], folder)
            else:
                made[wrong_from] = write_rank(folder, calls, exchanges, wrong_from, self.noise)
        return root


def cases(calls: int, exchanges: int) -> tuple[Case, ...]:
    """All ranks equal, one wrong and all others reached by it, all apart by rounding."""
    exchange = distance(calls, exchanges) - 1
    return (
        Case("all equal", calls, calls, 0.0),
        Case("one rank wrong, the others received it", exchange // 2, exchange, 2.0),
        Case("all differ", calls // 2, calls // 2, 1e-3),
    )


class Taken(NamedTuple):
    """Seconds by the clock, and of the processors for all processes of a command."""

    clock: float
    cpu: float


def seconds(*words: str) -> Taken:
    """The time of one command."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "msprobe", *words], capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        raise RuntimeError(f"msprobe {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return Taken(took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def cpu(function: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """The median of the CPU seconds of so many runs, and what the last returned."""
    taken = []
    for _ in range(times):
        begun = time.process_time()
        result = function()
        taken.append(time.process_time() - begun)
    return median(taken), result


@dataclass
class Constants:
    """What one rank costs: CPU seconds, bytes of files, bytes of what is sent."""

    dump_bytes: int
    digest_bytes: int
    digest: float
    look_equal: float
    look_differing: float
    whole: float
    whole_equal: float
    table: float
    task_bytes: int
    look_bytes: int
    outcome_bytes: int
    summary: RankSummary


def _task(target: Path, golden: Path, output: Path, **more: Any) -> Task:
    job = Job(SideSource("dump", (target,)), SideSource("dump", (golden,)), Place(None, 0, 0))
    request = Request(target, golden, output=output, format="csv", resume=False, **more)
    return Task(job, request, output / "table.csv", 1, "", True)


def constants(root: Path, calls: int, exchanges: int) -> Constants:
    """Measure one rank."""
    golden, equal, other = (
        write_rank(root / side / "step0" / "rank0", calls, exchanges, wrong_from, 1e-3) / "dump.json"
        for side, wrong_from in (("golden", calls), ("equal", calls), ("other", calls // 2))
    )
    digest = median(cpu(lambda file=file: write_digests(file))[0] for file in (golden, equal, other))
    first_only = _task(other, golden, root / "o", tables=False, first_only=True)
    looks = _task(equal, golden, root / "o", tables=False, first_only=True)
    look_equal, look = cpu(lambda: _compare_one(looks), 9)
    look_differing, _ = cpu(lambda: _compare_one(first_only), 9)
    if look.outcome is None or _compare_one(first_only).stretch is None:
        raise RuntimeError("the digests do not say what is equal")
    whole, outcome = cpu(lambda: compare_job(first_only), 2)
    whole_equal, _ = cpu(lambda: compare_job(looks), 2)
    table, _ = cpu(lambda: compare_job(_task(other, golden, root / "o")))
    found = read_digests(golden)
    assert found is not None
    files = [golden, golden.with_name("construct.json"), golden.with_name("stack.json")]
    return Constants(
        sum(file.stat().st_size for file in files),
        golden.with_name("digest.json").stat().st_size,
        digest,
        look_equal,
        look_differing,
        whole,
        whole_equal,
        table,
        len(pickle.dumps(first_only)),
        len(pickle.dumps(look)),
        len(pickle.dumps(outcome)),
        found.summary,
    )


def print_constants(args: argparse.Namespace, root: Path) -> None:
    """The table of one rank."""
    found = constants(root, args.calls, args.exchanges)
    print(f"| one rank of {args.calls:,} calls, {args.exchanges} exchanges | |\n|---|---|")
    print(f"| dump.json, construct.json, stack.json, MB | {found.dump_bytes / 1e6:.1f} |")
    print(f"| digest.json, kB | {found.digest_bytes / 1e3:.0f} |")
    print(f"| `msprobe digest`, CPU s | {found.digest:.2f} |")
    print(f"| `--first-only`, equal by digests, CPU s | {found.look_equal:.4f} |")
    print(f"| `--first-only`, differs by digests, not read, CPU s | {found.look_differing:.4f} |")
    print(f"| compared in full without a table, half of it differs, CPU s | {found.whole:.2f} |")
    print(f"| compared in full without a table, equal, CPU s | {found.whole_equal:.2f} |")
    print(f"| compared in full with a table in csv, half of it differs, CPU s | {found.table:.2f} |")
    print(f"| sent to a worker, kB | {found.task_bytes / 1e3:.1f} |")
    print(f"| sent back, not read / read, kB | {found.look_bytes / 1e3:.1f} / {found.outcome_bytes / 1e3:.1f} |")


def print_ranks(args: argparse.Namespace, root: Path) -> None:
    """Whole commands on many ranks."""
    golden = Case("", args.calls, args.calls, 0.0).write(root / "golden", args.ranks, args.calls, args.exchanges)
    digest = seconds("digest", str(golden), "--workers", "2")
    rows = args.calls * RECORDS_IN_A_CALL
    print(f"{args.ranks} ranks of {rows:,} statistics rows; msprobe digest of a side: {digest.cpu:.1f} CPU s\n")
    print("| s by the clock (CPU s) | whole, csv | `--first-only` | `--first-only` on Dask |")
    print("|---|---|---|---|", flush=True)
    with cluster(2) as address:
        for case in cases(args.calls, args.exchanges):
            target = case.write(root / "target", args.ranks, args.calls, args.exchanges)
            seconds("digest", str(target))
            sides = ("compare", "-tp", str(target), "-gp", str(golden), "-o", str(root / "output"))
            ways = {
                "whole": ("--format", "csv", "--workers", "2"),
                "first": ("--first-only", "--workers", "2"),
                "Dask": ("--first-only", "--scheduler", address),
            }
            times: dict[str, list[Taken]] = {way: [] for way in ways}
            for _ in range(args.rounds):
                for way, words in ways.items():
                    times[way].append(seconds(*sides, *words))
            shutil.rmtree(target)
            shutil.rmtree(root / "output")
            cells = [
                f"{median(t.clock for t in taken):.1f}" + f" ({median(t.cpu for t in taken):.1f})" * (way != "Dask")
                for way, taken in times.items()
            ]
            print(f"| {case.name} | {' | '.join(cells)} |", flush=True)


# The replay.


@dataclass(frozen=True)
class Step:
    """Tasks that may run at once: how many, the CPU seconds of one, the bytes of files that it reads."""

    tasks: int
    seconds: float
    reads: float


def replay(steps: Sequence[Step], workers: int, dispatch: float) -> float:
    """Seconds until all steps are done, one behind the other."""
    now = 0.0
    for step in steps:
        free = [now] * workers
        share = STORAGE / min(workers, max(step.tasks, 1))
        takes = step.seconds + step.reads / share
        end = now
        for number in range(step.tasks):
            begin = max(heapq.heappop(free), now + (number + 1) * dispatch)
            heapq.heappush(free, begin + takes)
            end = max(end, begin + takes)
        now = end
    return now


def nothing(number: int) -> int:
    """An empty task."""
    return number


def pace() -> float:
    """Seconds from one empty task to the next on Dask."""
    with cluster(2) as address:
        list(run(nothing, range(100), scheduler=address))
        begun = time.perf_counter()
        list(run(nothing, range(4000), scheduler=address))
        return (time.perf_counter() - begun) / 4000


def print_replay(args: argparse.Namespace, root: Path) -> None:
    """The answer for thousands of ranks, by the recorded tasks of one."""
    found = constants(root, args.calls, args.exchanges)
    dispatch = args.dispatch or pace()
    many = write_empty(root / "many", args.ranks)
    planning, made = cpu(lambda: plan(*many))
    stories = {rank: replace(found.summary, exchanges=found.summary.exchanges) for rank in range(args.ranks)}
    joining, _ = cpu(lambda: connect(stories))
    print(f"an empty task on Dask: {dispatch * 1e3:.2f} ms")
    print(f"finding {len(made.jobs):,} pairs of dumps: {planning:.2f} CPU s; joining exchanges: {joining:.1f} CPU s\n")
    together = 64
    look = Step(-(-args.ranks // together), together * found.look_differing, 2 * together * found.digest_bytes)
    whole = {
        "all equal": [replace(look, seconds=together * found.look_equal)],
        "one rank wrong, the others received it": [look, Step(1, found.whole, 2 * found.dump_bytes)],
        "all differ": [look, Step(args.ranks, found.whole, 2 * found.dump_bytes)],
        "all differ, with tables": [Step(args.ranks, found.table, 2 * found.dump_bytes)],
    }
    counts = (2, 64, 512, 4096)
    print(f"| {args.ranks:,} ranks of {args.calls:,} calls, s on so many workers | {' | '.join(map(str, counts))} |")
    print(f"|---|{'---|' * len(counts)}")
    for name, steps in whole.items():
        joins = 0 if name == "all equal" else 1 if name.endswith("tables") else 2
        cells = [f"{planning + joins * joining + replay(steps, workers, dispatch):,.0f}" for workers in counts]
        print(f"| {name} | {' | '.join(cells)} |")


def write_empty(root: Path, ranks: int) -> tuple[Path, Path]:
    """Two steps of so many ranks with nothing in their files, to be planned."""
    for side in ("t", "g"):
        for rank in range(ranks):
            folder = root / side / "step0" / f"rank{rank}"
            folder.mkdir(parents=True)
            (folder / "dump.json").touch()
    return root / "t", root / "g"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("constants", "ranks", "replay"))
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--calls", type=int)
    parser.add_argument("--exchanges", type=int)
    parser.add_argument("--dispatch", type=float, help="replay: seconds to send a task; default: what Dask takes here")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the dumps are generated; default: the folder for temporary files")
    args = parser.parse_args()
    is_small = args.what == "ranks"
    args.ranks = args.ranks or (256 if is_small else 4096)
    args.calls = args.calls or (500 if is_small else 20_000)
    args.exchanges = args.exchanges or (10 if is_small else 200)
    printing = {"constants": print_constants, "ranks": print_ranks, "replay": print_replay}[args.what]
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        printing(args, Path(scratch))


if __name__ == "__main__":
    main()
