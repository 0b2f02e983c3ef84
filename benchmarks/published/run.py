"""Collect the cases, compare each bug with its fix, and score the answers: `python benchmarks/published/run.py -h`."""

import argparse
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import case as cases
import score

VARIANTS = {"fixed": (False, False), "buggy": (True, False), "twin": (False, True), "noisy": (True, True)}
"""name: (is it the buggy variant, are sums in another order)"""
LIMIT_SECONDS = 180
CHILDREN = set()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases whose name has this text")
    parser.add_argument("--half", type=int, choices=[1, 2], help="only the cases of this half")
    parser.add_argument("--framework", choices=cases.PLANNED)
    parser.add_argument("--task", default="tensor", choices=["tensor", "statistics"])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the dumps; dumps that exist are used again")
    parser.add_argument("--reuse-answers", action="store_true", help="with --keep: do not run commands again")
    parser.add_argument("--scores", type=Path, metavar="FILE", help="write each case's score, as JSON")
    parser.add_argument("--other", type=Path, metavar="FILE", help="scores of mindstudio-probe, by other.py")
    parser.add_argument("--results", action="store_true", help="write the tables of RESULTS.md")
    args = parser.parse_args()
    chosen = [
        each
        for each in cases.load_all()
        if (not args.only or any(text in each.name for text in args.only))
        and args.half in (None, each.half)
        and args.framework in (None, each.framework)
    ]
    work = args.keep or Path(tempfile.mkdtemp(prefix="published-"))
    signal.signal(signal.SIGTERM, end_children)
    execute(chosen, work, args.task, args.reuse_answers)
    scores = [score.of(each, work / each.name) for each in chosen]
    if args.other:
        others = json.loads(args.other.read_text())
        scores = [{**s, "other": others.get(c.name)} for c, s in zip(chosen, scores, strict=True)]
    print(score.table(chosen, scores))
    print(score.summary(chosen, scores))
    if args.scores:
        args.scores.write_text(json.dumps(dict(zip([c.name for c in chosen], scores, strict=True)), indent=1))
    if args.results:
        score.write_results(chosen, scores, args.task)
    if not args.keep:
        shutil.rmtree(work)


def execute(chosen, work, task, reuse_answers=False):
    """Train and compare the cases, in one process for each framework, which forks for each rank and each command."""
    for framework in cases.PLANNED:
        wanted = [each for each in chosen if each.framework == framework]
        if wanted:
            wanted = [each for each in wanted if not (reuse_answers and (work / each.name / "answered").exists())]
            arguments = framework, wanted, work, task
            in_fork(lambda arguments=arguments: all_of(*arguments), limit=0)


def all_of(framework, chosen, work, task):
    """Import a framework once, and process its cases."""
    backend = __import__(f"on_{framework}")
    run_class = backend.TorchRun if framework == "pytorch" else backend.MindSporeRun
    for case in chosen:
        folder, started = work / case.name, time.monotonic()
        for variant, (buggy, noise) in VARIANTS.items():
            here = folder / variant
            if (here / "done").exists():
                continue
            shutil.rmtree(here, ignore_errors=True)
            here.mkdir(parents=True)
            if train(case, backend, run_class, here, buggy, noise, task):
                (here / "done").touch()
            else:
                print(f"{case.name} {variant}: FAILED, see {here}/rank*.log", flush=True)
        if framework == "pytorch" and case.ranks == 1:
            in_fork(lambda case=case, folder=folder: hashes(case, backend, run_class, folder), folder / "hashes.log")
        answers(folder)
        (folder / "answered").touch()
        print(f"{case.name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


def train(case, backend, run_class, folder, buggy, noise, task):
    """Train one variant on all of its ranks; return whether every rank ended well."""
    shared, scheduler = {}, None
    if case.ranks > 1 and case.framework == "mindspore":
        shared = {"MS_WORKER_NUM": str(case.ranks), "MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": str(free_port())}
        scheduler = fork(lambda: schedule(shared), folder / "scheduler.log")
    ranks = [
        fork(
            lambda rank=rank: one_rank(
                case, backend, run_class(folder, buggy, rank, case.ranks, task), noise, shared and ("MS_WORKER", shared)
            ),
            folder / f"rank{rank}.log",
        )
        for rank in range(case.ranks)
    ]
    is_well = not any([ended(rank) for rank in ranks])
    if scheduler:  # it waits for messages that ranks do not send that end like this
        os.kill(scheduler, signal.SIGKILL)
        ended(scheduler)
    return is_well


def schedule(shared):
    """Be the scheduler of MindSpore's ranks; `init` returns when they are gone."""
    from mindspore.communication import init

    os.environ.update(shared, MS_ROLE="MS_SCHED")
    init()


def one_rank(case, backend, run, noise, role):
    """Be one rank."""
    if role:
        os.environ.update(role[1], MS_ROLE=role[0], MS_NODE_ID=str(run.rank))
    backend.execute(case, run, noise)


def hashes(case, backend, run_class, folder):
    """Return what DebugMode of PyTorch reports: the first operation with another hash, buggy and twin against fixed."""
    from torch.utils._debug_mode import DebugMode

    logs = {}
    for variant in ("fixed", "buggy", "twin"):
        buggy, noise = VARIANTS[variant]
        scratch = folder / f"hashes_{variant}"
        scratch.mkdir(exist_ok=True)
        mode = DebugMode(record_nn_module=False)
        backend.execute(Hashed(case, mode), run_class(scratch, buggy, collects=False), noise)
        logs[variant] = [(str(call).partition("(")[0], str(call.log)) for call in mode.logs]
        shutil.rmtree(scratch)
    found = {}
    for variant in ("buggy", "twin"):
        pairs = zip(logs[variant], logs["fixed"], strict=False)
        found[variant] = next((a[0] for a, b in pairs if a != b), None)
    (folder / "hashes.json").write_text(json.dumps(found))


@dataclass
class Hashed:
    """A case whose operations are hashed by DebugMode, above kernels with another order of sums."""

    case: cases.Case
    mode: object

    def train(self, run):
        with self.mode, self.mode.log_tensor_hashes(hash_fn="hash_tensor"):
            self.case.train(run)


def answers(folder):
    """Run the commands on the dumps of a case; their JSON is written next to the dumps."""
    dump = {variant: str(folder / variant / "dump") for variant in VARIANTS}
    for variant in ("buggy", "twin", "noisy"):
        output = str(folder / f"report_{variant}")
        command(folder / f"compare_{variant}.json", "compare", dump[variant], dump["fixed"], "-o", output)
    for variant in ("buggy", "fixed"):
        command(folder / f"check_{variant}.json", "check", dump[variant])
    golden = str(folder / "fixed.golden")
    record = ("gate", "record", "--golden", golden, "--overwrite", "--target", dump["fixed"])
    command(folder / "gate_record.json", *record)
    for variant in ("buggy", "twin", "noisy"):
        command(folder / f"gate_{variant}.json", "gate", "check", "--golden", golden, "--target", dump[variant])


def command(file, verb, *arguments):
    """Write what `msprobe VERB ... --json` prints."""
    from msprobe.cli import main as msprobe

    extra = ["--workers", "1", "--no-resume", "--format", "csv"] if verb == "compare" else []
    in_fork(lambda: msprobe([verb, *arguments, "--json", *extra]), file, file.with_suffix(".log"))


def in_fork(function, out=None, err=None, limit=LIMIT_SECONDS):
    """Call a function in a forked process and wait for it; return its exit code."""
    return ended(fork(function, out, err, limit))


def fork(function, out=None, err=None, limit=LIMIT_SECONDS):
    """Call a function in a forked process with its output in files; return the process id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        CHILDREN.add(child)
        return child
    code = 1
    CHILDREN.clear()
    try:
        signal.alarm(limit)
        for path, numbers in ((out, (1, 2)), (err, (2,))):
            for number in numbers if path else ():
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(child):
    """Wait for a process; return its exit code, or minus the signal that ended it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    CHILDREN.discard(child)
    return code


def end_children(*_):
    """End what this process has started, and this process."""
    for child in CHILDREN:
        os.kill(child, signal.SIGTERM)
    os._exit(1)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", MSPROBE_LOG_LEVEL="3", GLOG_v="3")
    main()
