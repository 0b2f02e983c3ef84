"""Proves the bugs of `benchmarks/ports` by grafts: public models of PyTorch against their ports to MindSpore.

    python ports.py --work DIR [--set tuning | held-out] [--model NAME ...] [--case NAME ...] [--clean] [--jobs N]

The dumps of task tensor are collected as in `benchmarks/ports`, unless DIR has them already. `msprobe graft` runs the
port of each case again, with its bug, and its answer is compared with the truth that was written down there before any
comparison. With --clean, the ports without a bug. Results are appended to `DIR/ports-*.jsonl`; `run.py --write` makes
the tables.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import run

PORTS = run.HERE.parent / "ports"
sys.path.append(str(PORTS))

import environments  # noqa: E402  # the modules of benchmarks/ports
import truth  # noqa: E402

from msprobe.compare.locate.find import cell_of  # noqa: E402
from msprobe.graft.runs import studied  # noqa: E402

PACKAGES = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Variables that keep the libraries of the models from the network."""


def chosen(options):
    """The cases by name, with the model: the bug as it is written, or the real difference of a clean port, or None."""
    if options.clean:
        names = [path.name for path in sorted((options.work / "tensor").iterdir())]
        return {f"clean-{name}": (name, truth.real_differences().get(name)) for name in options.model or names}
    found = {name: (bug["model"], bug) for name, bug in truth.bugs([options.set.replace("-", " ")]).items()}
    if options.model:
        found = {name: case for name, case in found.items() if case[0] in options.model}
    return {name: case for name, case in found.items() if not options.case or name in options.case}


def collected(options):
    """Collect the dumps that the work folder does not have."""
    command = [sys.executable, PORTS / "run.py", "--keep", options.work, "--task", "tensor"]
    command += ["--model", *options.model] if options.model else []
    command += ["--case", *(options.case or (["clean"] if options.clean else chosen(options)))]
    subprocess.run([str(word) for word in command], check=True)


def scored(work, name, model, written, budget, interpreter):
    """One line of the results."""
    is_clean = name.startswith("clean-")
    case = work / "tensor" / model / ("clean" if is_clean else name)
    scratch = work / "scratch" / name
    scratch.mkdir(parents=True, exist_ok=True)
    item = {"model": model, "case": case.name, "task": "tensor", "golden": str(case.parent)}
    item |= {"out": str(scratch / "run"), "bug": None if is_clean else written}
    plan = scratch / "plan.json"
    plan.write_text(json.dumps([item]))
    words = ["graft", case / "target", case / "golden", "--json", "--budget", budget]
    began = time.perf_counter()
    command = [sys.executable, "-m", "msprobe", *words, "--", interpreter, PORTS / "target.py", plan]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    line = {"case": name, "regime": "ports", "class": model, "seconds": round(time.perf_counter() - began, 1)}
    tests = [partial(is_right, written, case / "target", case / "golden")] if written else []
    try:
        return run.entered(line, json.loads(done.stdout), "", tests)
    except ValueError:
        return line | {"failed": done.stderr[-2000:]}


def is_right(written, target, golden, finding):
    """Whether a proven call is one that may be named, or one of the region that was replaced with it."""
    accepted, place = truth.truth_of(written), finding["place"]
    if accepted.accepts({"name": place["name"], "cell": place["cell"] or ""}):
        return True
    covers = set(finding["fields"]["covers"])
    events = [event for step in studied(target, golden).steps for event in step.events] if covers else []
    return any(
        accepted.accepts({"name": event.called, "cell": cell_of(event)}) for event in events if event.called in covers
    )


def main():
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--set", default="tuning", choices=["tuning", "held-out"])
    parser.add_argument("--model", nargs="+", metavar="NAME")
    parser.add_argument("--case", nargs="+", metavar="NAME")
    parser.add_argument("--clean", action="store_true", help="ports without a bug")
    parser.add_argument("--budget", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at the same time")
    options = parser.parse_args()
    options.work = options.work.absolute()
    collected(options)
    os.environ |= PACKAGES
    interpreter = environments.FOLDER / environments.SIDES["target"] / "bin" / "python"
    kind = "ports-clean" if options.clean else f"ports-{options.set}"
    with open(options.work / f"{kind}.jsonl", "a") as file, ThreadPoolExecutor(options.jobs) as pool:
        cases = [(options.work, name, *case, options.budget, interpreter) for name, case in chosen(options).items()]
        for done in as_completed([pool.submit(scored, *case) for case in cases]):
            line = done.result()
            file.write(json.dumps(line) + "\n")
            file.flush()
            run.shown(line)


if __name__ == "__main__":
    main()
