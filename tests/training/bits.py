"""Trainings as processes of their own, with and without the debugger: which there are, and whether they are equal."""

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter

from calls import CALLS, GRAPH_CALLS, Calls, named, recorded

NETS = tuple(CALLS)
GRAPHS = tuple(GRAPH_CALLS)
LEVELS = ("L0", "L1", "mix", "debug")
TASKS = {
    "statistics": (),
    "md5": ("--summary", "md5"),
    "crc32c": ("--summary", "crc32c"),
    "tensor": ("--task", "tensor"),
}
"""What a collection writes down, and how train.py is asked for it."""
MODES = {False: (), True: ("--asynchronous",)}
"""Whether the pipeline is asynchronous, and how train.py is asked for it."""

MONITOR, EVERYTHING = "monitor", "everything"
MONITORED = ("actv", "actv_grad", "grad_unreduced", "grad_reduced", "param_origin", "param_updated", "local")
"""Kinds of rows that every step of a monitored training has."""
COLUMNAR, PACKED = "columnar", "packed"
WATCHING, CHECKS, SECOND_RUNS, GRAPH = "watching", "acc_check", "free_benchmark", "graph"
AT_ONCE, SAVE = "at once", "save"
DISTRIBUTED = "distributed"
SHARDED = Path(__file__).parents[1] / "end_to_end/sharded/sharded.py"
RANKS = {
    **{
        f"{kind}-{ranks}": (kind, ranks, ("clip=torch",))
        for kind in ("ddp", "fsdp", "fsdp_recompute")
        for ranks in (2, 4)
    },
    "uneven-4": ("uneven", 4, ("clip=torch",)),
    "tp-2": ("tp", 2, ("clip=hand",)),
    "tp-4": ("tp", 4, ("clip=hand",)),
    "2d-4": ("2d", 4, ("clip=hand",)),
    "fsdp1-2": ("fsdp1", 2, ()),
    "zero-2": ("zero", 2, ()),
}
"""Trainings of PyTorch on several ranks: the kind that `sharded.py` calls it, the number of ranks, and options."""


@dataclass(frozen=True)
class Kind:
    """Trainings that are collected in one way: what each task adds to the options that all have, and which there are.

    `options` begin with the one that a folder follows.
    """

    options: tuple[str, ...]
    tasks: Mapping[str, tuple[str, ...]]
    nets: tuple[str, ...] = NETS
    modes: tuple[bool, ...] = tuple(MODES)


KINDS = {
    **{level: Kind(("--collect", "--level", level), TASKS) for level in LEVELS},
    COLUMNAR: Kind(("--collect", "--level", "mix", "--format", "columnar"), TASKS),
    PACKED: Kind(("--collect", "--level", "mix", "--format", "packed"), {"tensor": TASKS["tensor"]}),
    WATCHING: Kind(
        ("--collect", "--level", "mix"),
        {task: ("--task", task) for task in ("overflow_check", "trigger", "exception_dump")},
    ),
    CHECKS: Kind(("--collect", "--level", "mix", "--task", CHECKS), {AT_ONCE: ()}),
    SECOND_RUNS: Kind(
        ("--collect", "--level", "L1", "--task", SECOND_RUNS),
        {
            "forward": ("--perturb", "bit_noise", "forward"),
            "backward": ("--perturb", "change_value", "backward"),
        },
    ),
    MONITOR: Kind(("--monitor",), {EVERYTHING: ()}),
    GRAPH: Kind(("--collect",), {**TASKS, SAVE: ("--task", SAVE)}, GRAPHS, modes=(False,)),
    DISTRIBUTED: Kind(
        (), {"statistics": (), "md5": ("mode=md5",), "tensor": ("task=tensor",)}, tuple(RANKS), modes=(False,)
    ),
}
"""By what a row of the grid calls its level."""


@dataclass(frozen=True)
class Run:
    """A training that is collected."""

    net: str
    level: str
    task: str
    asynchronous: bool


def grid() -> list[Run]:
    """Every network of every kind with every task, in every mode."""
    return [
        Run(net, level, task, mode)
        for level, kind in KINDS.items()
        for net in kind.nets
        for task in kind.tasks
        for mode in kind.modes
    ]


def covering() -> list[Run]:
    """One run of each network; over all of them every level meets every task, and each of these both modes."""
    pairs = tuple(product(LEVELS, TASKS))
    places = [(net, *divmod(i % len(pairs), len(TASKS))) for i, net in enumerate(NETS)]
    return [Run(net, LEVELS[at], tuple(TASKS)[task], asynchronous=(at + task) % 2 == 1) for net, at, task in places]


@dataclass(frozen=True)
class Outcome:
    """What became of a run: `word` is `equal`, `different`, `miscounted`, `failed` or `no control`; `why` in a line."""

    word: str
    seconds: float
    why: str = ""


PYTHON: str | Path = sys.executable
"""What runs the programs; the tests have one that need not import MindSpore for each run."""


def digest(net: str, steps: int, *options: str) -> str:
    """What the program that trains a network prints last. Raises RuntimeError with its complaint where it fails."""
    if net in RANKS:
        with tempfile.TemporaryDirectory(prefix="msprobe-bits-") as folder:
            return digest_of_ranks(net, steps, Path(folder), "collects=0")
    done = subprocess.run(
        [PYTHON, "graph_train.py" if net in GRAPHS else "train.py", net, "--steps", str(steps), *options],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        env={**os.environ, "MSPROBE_LOG_LEVEL": "2"},
        check=False,
    )
    if done.returncode:
        complaint = " ".join(done.stderr.split("Traceback")[-1].splitlines()[-1:])
        raise RuntimeError(f"{net} {' '.join(options)}: {complaint or f'exit code {done.returncode}'}")
    return done.stdout.split()[-1]


def digest_of_ranks(net: str, steps: int, folder: Path, *options: str) -> str:
    """Train on several ranks; return what the ranks report of their losses, parameters, gradients and states."""
    kind, ranks, more = RANKS[net]
    pairs = [f"steps={steps}", *more, *options]
    commands = [[sys.executable, str(SHARDED), str(folder), str(at), str(ranks), kind, *pairs] for at in range(ranks)]
    environment = {**os.environ, "MSPROBE_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    running = [
        subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        for each in commands
    ]
    errors = [process.communicate()[1] for process in running]
    if any(process.returncode for process in running):
        complaint = next(error for error, process in zip(errors, running, strict=True) if process.returncode)
        raise RuntimeError(f"{net} {' '.join(options)}: {' '.join(complaint.splitlines()[-1:])}")
    reports = [json.loads((folder / f"rank{at}.json").read_text()) for at in range(ranks)]
    (steps_of_ranks,) = zip(*(report.values() for report in reports), strict=True)
    return hashlib.sha256(json.dumps(steps_of_ranks).encode()).hexdigest()[:16]


def judge(run: Run, steps: int, control: Sequence["Future[str]"]) -> Outcome:
    """Run a collected training and hold it to the digests of its bare twins, and its dump to the hand count.

    `control` has a bare twin in each of `MODES`, or in some: the mode changes no bit either, so that they check each
    other.
    """
    folder = Path(tempfile.mkdtemp(prefix="msprobe-bits-"))
    begin = perf_counter()
    try:
        bare, *others = (each.result() for each in control)
        if any(other != bare for other in others):
            return Outcome("no control", 0, f"without the debugger {bare}, asynchronous {', '.join(others)}")
        begin = perf_counter()
        kind = KINDS[run.level]
        if run.level == DISTRIBUTED:
            found = digest_of_ranks(run.net, steps, folder, "collects=1", *kind.tasks[run.task])
        else:
            where, *how = kind.options
            found = digest(run.net, steps, where, str(folder), *how, *kind.tasks[run.task], *MODES[run.asynchronous])
        counted, wanted = _counted(run, steps, folder)
    except RuntimeError as cause:
        return Outcome("failed", perf_counter() - begin, str(cause))
    finally:
        shutil.rmtree(folder)
    seconds = perf_counter() - begin
    if found != bare:
        return Outcome("different", seconds, f"{found} instead of {bare}")
    for step, each in enumerate(counted):
        if each != wanted:
            return Outcome("miscounted", seconds, f"step {step} has {each}, counted by hand {wanted}")
    return Outcome("equal", seconds)


def _counted(run: Run, steps: int, folder: Path) -> tuple[list[object], object]:
    """What each step has left in the folder, and what it should have."""
    if run.level == MONITOR:
        return [_kinds(folder, step) for step in range(steps)], set(MONITORED)
    if run.level == DISTRIBUTED:
        return [_parameters(folder, step) for step in range(steps)], [True] * RANKS[run.net][1]
    if run.level == CHECKS:
        return [_checks(folder)], bool(CALLS[run.net].at("L1"))
    if run.level == SECOND_RUNS:
        return [_second_runs(folder, steps)], {"every step": True, "some compared": bool(CALLS[run.net].at("L1"))}
    if run.task == SAVE:
        return [_saved(folder, step) for step in range(steps)], ["loss", "rows", "rows_grad"]
    ranks = [folder / f"step{step}" / "rank" for step in range(steps)]
    if run.level == GRAPH:
        return [recorded(rank) for rank in ranks], GRAPH_CALLS[run.net]
    if run.task == "overflow_check":
        return [(named(rank), recorded(rank)) for rank in ranks], (CALLS[run.net].at("mix"), Calls())
    if run.task == "exception_dump":
        return [rank.exists() for rank in ranks], run.net == "raising"
    if run.task == "trigger":
        return [recorded(rank) != Calls() for rank in ranks[1:]], True
    level = "mix" if run.level in (COLUMNAR, PACKED) else run.level
    return [recorded(rank) for rank in ranks], CALLS[run.net].at(level)


def _parameters(folder: Path, step: int) -> list[bool]:
    """By rank: whether a step has a gradient of each parameter, and some."""
    found = []
    for rank in sorted((folder / "dump" / f"step{step}").iterdir()):
        data = json.loads((rank / "dump.json").read_text())["data"]
        parameters, gradients = set(), set()
        for call, entry in data.items():
            if ".parameters_grad" in call:
                gradients |= {(call.partition(".parameters_grad")[0], key) for key in entry}
            else:
                parameters |= {(call.rsplit(".", 2)[0], key) for key in entry.get("parameters", ())}
        found.append(bool(parameters) and parameters == gradients)
    return found


def _saved(folder: Path, step: int) -> list[str]:
    """The names of what one step has saved."""
    lines = (folder / f"step{step}" / "rank0" / "saves.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["name"] for line in lines)


def _checks(folder: Path) -> bool:
    """Whether any call was checked."""
    [file] = folder.glob("accuracy_checking_result_*.csv")
    return len(file.read_text(encoding="utf-8-sig").splitlines()) > 1


def _second_runs(folder: Path, steps: int) -> dict[str, bool]:
    """Whether the summary has every step, and any call that was run a second time; and if one of these failed."""
    found = json.loads((folder / "free_benchmark_summary.json").read_text())
    failed = {"failed": True} if "failed" in found["skipped"] else {}
    return {"every step": found["steps"] == list(range(steps)), "some compared": found["compared"] > 0, **failed}


def _kinds(folder: Path, step: int) -> set[str]:
    """Those kinds of `MONITORED` that have rows of a step, and `lost` where something could not be measured."""
    found = set()
    for file in folder.glob("*-rank0-*/*.csv"):
        kind = file.name.partition(".")[0].rpartition("_")[0] or file.stem
        with file.open(newline="") as opened:
            if any(row.get("step") == str(step) for row in csv.DictReader(opened)):
                found.add(kind)
    return found & {*MONITORED, "lost"}


def judge_all(
    runs: Sequence[Run],
    steps: int,
    jobs: int,
    report: Callable[[Run, Outcome], None] = lambda run, outcome: None,
) -> dict[Run, Outcome]:
    """Judge many runs, `jobs` processes at once; each network is first trained without the debugger, in both modes."""
    outcomes = {}
    with ThreadPoolExecutor(jobs) as pool:
        nets = dict.fromkeys(run.net for run in runs)
        alone = {*GRAPHS, *RANKS}
        modes = {net: KINDS[GRAPH].modes if net in alone else tuple(MODES) for net in nets}
        control = {net: [pool.submit(digest, net, steps, *MODES[mode]) for mode in modes[net]] for net in nets}

        def judged(run: Run) -> None:
            # its controls were submitted before it, so they are done or another worker is at them
            outcomes[run] = judge(run, steps, control[run.net])
            report(run, outcomes[run])

        try:
            for work in [pool.submit(judged, run) for run in runs]:
                work.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # whoever interrupts does not mean to wait for the rest
            raise
    return outcomes


def processes() -> int:
    """How many trainings fit on this machine at once."""
    return min(2, len(os.sched_getaffinity(0)))
