"""Run everything, in parts that can be resumed; `make verify` calls this.

    python tests/support/verify.py --bare MARKERS --frameworks MARKERS --mindtorch MARKERS --layer FOLDER

A part is a folder of tests in one environment with all of its cases, MindSpore's other pipeline, the grid of trainings
that are compared bit by bit, or the planted faults. FILE keeps a line for each run of a part. A part that passed on
these very sources is not run again; of the others those that were never run come first, then the one that was run
longest ago. With --minutes (or MSPROBE_VERIFY_MINUTES) no part begins after that time and one that lasts longer is
ended, to be begun again the next time; what was not reached is printed.

Exit code: 0 all that was run has passed, 1 a part failed.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from selection import ROOT, commit, satisfies

PASSED, FAILED, ENDED = "passed", "failed", "not finished"

SPLIT = {"cell_dump", "compare", "end_to_end", "graph_save", "store"}
"""Folders whose inner folders are parts of their own."""

PAGE = "docs/en/explanation/bit-identity.md"

NO_TESTS = 5
"""Exit code of pytest: no test was collected."""


@dataclass(frozen=True)
class Part:
    """A command that takes some minutes; with its environment beside this process's."""

    name: str
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Run:
    """A run of a part: its result, of which sources, from when on, in how many seconds."""

    part: str
    result: str
    sources: str
    begin: float
    seconds: float


def main():
    args = arguments()
    every, sources, begin = parts(args), source_state(), time.monotonic()
    last = last_runs(args.results)
    rest = in_order(every, last, sources)
    print(f"{len(every)} parts, {len(every) - len(rest)} passed before on these sources", flush=True)
    failed, reached = [], 0
    for part in rest:
        left = args.minutes * 60 - (time.monotonic() - begin) if args.minutes else None
        if left is not None and left <= 0:
            break
        run = run_part(part, sources, left)
        with args.results.open("a") as results:
            print(json.dumps(asdict(run)), file=results)
        print(f"== {part.name}: {run.result} in {run.seconds:.0f} s", flush=True)
        if run.result == FAILED:
            failed.append(part.name)
        reached += run.result != ENDED
    if reached < len(rest):
        print(f"not reached in {args.minutes:g} minutes: {len(rest) - reached} of {len(every)} parts")
        for part in rest[reached:]:
            before = last.get(part.name)
            print(
                f"  {part.name}: {'never run here' if before is None else f'last {before.result}, {day(before.begin)}'}"
            )
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bare", required=True, metavar="MARKERS", help="tests of the environment without a framework")
    parser.add_argument("--frameworks", required=True, metavar="MARKERS", help="tests of this Python")
    parser.add_argument("--mindtorch", required=True, metavar="MARKERS", help="tests of PyTorch's API on MindSpore")
    parser.add_argument(
        "--layer", required=True, type=os.path.abspath, metavar="FOLDER", help="where that API is installed"
    )
    parser.add_argument("--bare-python", default=str(ROOT / ".venv-bare/bin/python"), type=os.path.abspath)
    parser.add_argument(
        "--minutes",
        type=float,
        default=float(os.environ.get("MSPROBE_VERIFY_MINUTES") or 0),
        help="0: until all is done",
    )
    results = os.environ.get("MSPROBE_VERIFY_RESULTS") or ROOT / ".venv/verify.jsonl"
    parser.add_argument("--results", type=Path, default=Path(results), metavar="FILE", help="what was run")
    parser.add_argument("--list", action="store_true", help="print the parts in their order and run none")
    args = parser.parse_args()
    if args.list:
        for part in in_order(parts(args), last_runs(args.results), source_state()):
            print(part.name)
        sys.exit(0)
    return args


def parts(args):
    """Return every part; folders in the order of their names."""
    grid = (sys.executable, "tests/training/grid.py", "--results", ".venv/bit-identity.jsonl")
    faults = (sys.executable, "tests/mutations/run.py", "--bare-python", args.bare_python)
    every = [
        Part("bit identity", (*grid, "--write", PAGE)),
        Part("planted faults", (*faults, "--results", ".venv/mutations.jsonl")),
        Part("asynchronous pipeline", (*pytest(sys.executable, "pipeline"), "--asynchronous", "tests")),
    ]
    every += of_extensions(args)
    environments = [
        ("without a framework", args.bare_python, args.bare, ()),
        ("with frameworks", sys.executable, args.frameworks, ()),
        ("PyTorch's API on MindSpore", sys.executable, args.mindtorch, (("PYTHONPATH", args.layer),)),
    ]
    for name, python, expression, variables in environments:
        chosen = [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if satisfies(file, expression)]
        for folder, paths in grouped(chosen).items():
            every.append(Part(f"{folder}, {name}", (*pytest(python, expression), *paths), variables))
    return every


OF_EXTENSIONS = {
    "without a framework": (
        "tests/base",
        "tests/compare/measure",
        "tests/compare/tables",
        "tests/store/columnar",
        "tests/store/test_columns.py",
        "tests/store/test_entries.py",
        "tests/store/test_read.py",
    ),
    "with frameworks": (
        "tests/base/test_in_place.py",
        "tests/frameworks/pytorch",
        "tests/frameworks/mindspore/test_gradient.py",
        "tests/frameworks/mindspore/test_without_extensions.py",
        "tests/graph_save/transport",
    ),
}
"""The tests that run on extensions with sanitizers: those whose values pass through the most code in C."""


def of_extensions(args):
    """Return the parts that search the C sources for errors: sanitizers, fuzzing and static analysis."""
    sanitized = "tests/support/sanitized.py"
    fuzzed = ("tests/support/fuzz_entries.py", "--cases", "200000")
    bare = (args.bare_python, sanitized, *pytest("", args.bare)[1:], *OF_EXTENSIONS["without a framework"])
    full = (sys.executable, sanitized, *pytest("", args.frameworks)[1:], *OF_EXTENSIONS["with frameworks"])
    return [
        Part("static analysis of C", (sys.executable, "tests/support/analyzed.py")),
        Part("fuzzed entries with sanitizers", (args.bare_python, sanitized, *fuzzed)),
        Part("sanitizers without a framework", bare),
        Part("sanitizers with frameworks", full),
    ]


def grouped(files):
    """Return the folders of the parts, each with its paths: the folder, or its own files where parts lie inside it."""
    found = {}
    for file in (file.relative_to(ROOT) for file in files):
        depth = 3 if file.parts[1] in SPLIT and len(file.parts) > 3 else 2
        inner = Path(*file.parts[: min(depth, len(file.parts) - 1)])
        found.setdefault(inner, []).append(str(file))
    return {folder: names if any_inside(folder, found) else [str(folder)] for folder, names in found.items()}


def any_inside(folder, found):
    return any(other != folder and other.is_relative_to(folder) for other in found)


def pytest(python, expression):
    """Return the command that runs all cases of what satisfies the expression."""
    processes = ("--numprocesses", "logical", "--maxprocesses", "4", "--dist", "loadfile", "--no-loadscope-reorder")
    return (python, "-m", "pytest", "-q", "--timeout", "1800", *processes, "--all-cases", "-m", expression)


def source_state():
    """Return a digest of the commit and of what was changed since, but for the page that a part writes."""
    command = ["git", "-C", str(ROOT), "diff", "HEAD", "--", ".", f":!{PAGE}"]
    changed = subprocess.run(command, capture_output=True, check=False).stdout
    return f"{commit()}{'-' + hashlib.sha256(changed).hexdigest()[:8] if changed else ''}"


def last_runs(results):
    """Return the last run of each part; a line that was cut off is left out."""
    found = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        with suppress(ValueError, TypeError):
            run = Run(**json.loads(line))
            found[run.part] = run
    return found


def in_order(every, last, sources):
    """Return the parts that have not passed on these sources, the one that was run longest ago first.

    Where nothing was ever run, as in a fresh clone, each commit begins at another part.
    """
    start = int(hashlib.sha256(sources.encode()).hexdigest(), 16) % len(every)
    turned = [*every[start:], *every[:start]]
    rest = [
        part
        for part in turned
        if (run := last.get(part.name)) is None or (run.result, run.sources) != (PASSED, sources)
    ]
    return sorted(rest, key=lambda part: last[part.name].begin if part.name in last else 0)


def run_part(part, sources, seconds):
    """Run a part; end it and all that it started after so many seconds."""
    print(f"== {part.name}", flush=True)
    wheel = " ".join(map(str, Path(part.command[0]).parents[1].glob("wheel/*.whl")))
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "MSPROBE_WHEEL": wheel, **dict(part.variables)}
    begin, at = time.time(), time.monotonic()
    with subprocess.Popen(
        part.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            code = process.wait(seconds)
            result = PASSED if code in (0, NO_TESTS) else FAILED
        except subprocess.TimeoutExpired:
            result = ENDED
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM if process.poll() is None else signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return Run(part.name, result, sources, begin, time.monotonic() - at)


def day(seconds):
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


if __name__ == "__main__":
    sys.exit(main())
