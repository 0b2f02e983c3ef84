"""Collects the dumps of the cases into a folder: `REGIME/TASK/CASE/{target,golden}/step0/rank`, `truth.json` beside.

Golden runs that several cases share stand once under `shared/`, and so do targets of the same run; `target` and
`golden` are then links. What is there already is not collected again.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cases import DEFAULT, Case, Side
from expected import Records, names_of
from fault import KINDS, Fault

HERE = Path(__file__).parent
THREADS = {DEFAULT: "1", "threads": "4"}


def collect(cases: Iterable[Case], folder: Path, pythons: dict[str, str], processes: int = 1) -> list[str]:
    """Collect what is missing of these cases; gives what failed, a line each.

    `pythons`: the interpreter of each environment that is not this one's.
    """
    folder = folder.absolute()
    by_folder = {case.folder: case for case in cases}
    # Where only cells are recorded, the truth is read from the run that records all calls.
    for case in list(by_folder.values()):
        if case.level != "mix" and case.fault is not None:
            by_folder.setdefault(bit_equal(case).folder, bit_equal(case))
    cases = list(by_folder.values())
    wanted: dict[Path, tuple[Side, dict]] = {}
    for case in cases:
        full = replace(case, task="tensor")
        for side, out in zip((case.target, case.golden), places(full, folder), strict=True):
            is_faulty = out.name == "target" and case.fault is not None
            if not _is_there(out, case.collected) or (is_faulty and _is_another(case, folder)):
                wanted[out] = side, full.job(side, str(out), case.fault.planted if is_faulty else None)
    jobs = defaultdict(list)
    for out, (side, job) in wanted.items():
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        jobs[side.framework, side.environment].append(job)
    failed = []
    for (framework, environment), share in jobs.items():
        parts = [share[at::processes] for at in range(processes)]
        print(f"collecting {len(share)} runs: {framework}, {environment}", file=sys.stderr, flush=True)
        failed += _run_all([part for part in parts if part], environment, pythons, folder)
    for case in cases:
        try:
            if case.task == "statistics":
                for out, full in zip(places(case, folder), places(replace(case, task="tensor"), folder), strict=True):
                    _statistics_of(full, out, case.collected)
            write_truth(case, folder)
        except (OSError, ValueError) as why:
            failed.append(f"{case.folder}: {why}")
    return failed


def _is_there(out: Path, steps: Iterable[int]) -> bool:
    return all(any((out / f"step{step}").glob("rank*/dump.json")) for step in steps)


def _is_another(case: Case, folder: Path) -> bool:
    """Whether what was collected for a case was planted or run in another way than it is now."""
    truth = folder / case.folder / "truth.json"
    if not truth.exists():
        return False
    contents = json.loads(truth.read_text())
    same = (
        contents["planted"] == case.fault.planted and contents["seed"] == case.seed and contents["steps"] == case.steps
    )
    return not same or Side(**contents["target"]) != case.target


def _statistics_of(full: Path, out: Path, steps: range) -> None:
    """The dump that task statistics makes of the run whose tensors are in `full`: the same records without files.

    Both tasks write the same statistics, names, stacks and nesting, which a test of the bench shows; so a run that is
    collected once serves both.
    """
    made = [file.stat().st_mtime for side in (full, out) for file in side.glob(f"step{steps[0]}/rank*/dump.json")]
    if _is_there(out, steps) and made[0] <= made[-1]:
        return
    shutil.rmtree(out, ignore_errors=True)
    for file in sorted(full.glob("step*/rank*/*.json")):
        to = out / file.relative_to(full)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.name != "dump.json":
            shutil.copyfile(file, to)
            continue
        dump = json.loads(file.read_text())
        settings = dump["run"]["settings"]
        section = settings.pop("tensor") | {"tensor_list": []}
        settings |= {"task": "statistics", "dump_path": str(out), "statistics": section}
        dump |= {"task": "statistics", "dump_data_dir": None, "data": without_files(dump["data"])}
        to.write_text(json.dumps(dump))


def without_files(value: Any) -> Any:
    """The records as they are where no tensor is saved."""
    if isinstance(value, dict):
        return {key: without_files(inner) for key, inner in value.items() if key != "data_name"}
    return [without_files(inner) for inner in value] if isinstance(value, list) else value


def places(case: Case, folder: Path) -> tuple[Path, Path]:
    """Where the runs of the target and of the golden are, which several cases may share."""
    run = f"{case.net}-{case.size}-s{case.seed}-{case.level}-{case.steps}" + (
        f"-from{case.begin}" if case.begin else ""
    )
    golden = folder / "shared" / case.golden.name / case.task / run
    if case.fault is not None:
        # The same run serves several regimes.
        regime = "bit-equal" if case.target == Side() and case.level == "mix" else case.regime
        return folder / regime / case.task / case.name / "target", golden
    return folder / "shared" / f"again-{case.target.name}" / case.task / run, golden


def write_truth(case: Case, folder: Path) -> None:
    """Link the case's two runs and write its truth; ValueError where the records do not hold what it names."""
    here = folder / case.folder
    here.mkdir(parents=True, exist_ok=True)
    target, golden = places(case, folder)
    for name, run in (("target", target), ("golden", golden)):
        link = here / name
        if link != run and not link.is_symlink():
            link.symlink_to(os.path.relpath(run, here), target_is_directory=True)
    same = {"case": case.name, "regime": case.regime, "task": case.task, "level": case.level, "net": case.net}
    contents = {**same, "variant": case.variant, "seed": case.seed, "size": case.size, "steps": case.steps}
    contents |= {"target": asdict(case.target), "golden": asdict(case.golden)}
    fault = case.fault
    contents["clean"] = fault is None or fault.harmless
    if fault is not None:
        contents |= {"fault": fault.name, "class": fault.subject, "small": fault.small, "harmless": fault.harmless}
        contents |= {"planted": fault.planted, "unseen": fault.unseen.get(case.task, "")}
    if fault is not None and not fault.harmless:
        kinds = list(KINDS) if case.level == "L0" else fault.kinds_of(case.task)
        contents |= {"names": _names(case, fault, folder), "kinds": kinds, "steps_shown": case.shown}
        contents["parameters"] = bool(case.begin)
    (here / "truth.json").write_text(json.dumps(contents, indent=1))


def _names(case: Case, fault: Fault, folder: Path) -> list[str]:
    """The names of the truth; at L0 and L1 those that the dump at level mix has are brought to what is recorded."""
    mixed = case if case.level == "mix" else bit_equal(case)
    target, golden = (run / f"step{case.shown[0]}" for run in places(mixed, folder))
    names = names_of(fault, case.task, target, golden, case.golden.framework == "pytorch")
    if case.level == "L0":
        pairs = (Records(target), Records(golden)), (Records(golden), Records(target))
        shown = (side.cells_that_show(name, other) for side, other in pairs for name in names if name in side.names)
        return sorted({cell for found in shown for cell in found})
    return names


def bit_equal(case: Case) -> Case:
    """The case of the same fault that records all calls, in runs that are otherwise equal to the bit."""
    name = case.name if case.fault is None else case.fault.name
    return replace(case, regime="bit-equal", task="tensor", level="mix", name=name, target=Side(), golden=Side())


def _run_all(parts: list[list[dict[str, Any]]], environment: str, pythons: dict[str, str], folder: Path) -> list[str]:
    """Run each part in a process of the environment, all at once; gives what failed."""
    threads = THREADS.get(environment, "1")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables = {"OMP_NUM_THREADS": threads, "BUGS_RUNTIME_THREADS": threads, "MSPROBE_LOG_LEVEL": "3", "GLOG_v": "3"}
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as files:
        started = []
        for at, part in enumerate(parts):
            jobs, answers, log = (Path(scratch) / f"{at}.{kind}" for kind in ("json", "answers", "log"))
            jobs.write_text(json.dumps(part))
            command = [pythons.get(environment, sys.executable), str(HERE / "train.py"), str(jobs)]
            pipes = {"stdout": files.enter_context(answers.open("w")), "stderr": files.enter_context(log.open("w"))}
            process = subprocess.Popen(command, env=kept | variables, cwd=folder, **pipes)
            started.append((process, answers, log, len(part)))
        return [line for one in started for line in _failed(*one)]


def _failed(process: "subprocess.Popen[bytes]", answers: Path, log: Path, count: int) -> list[str]:
    code = process.wait()
    lines = [json.loads(line) for line in answers.read_text().splitlines() if line.startswith("{")]
    failed = [f"{one['out']}: {one['failed']}" for one in lines if "failed" in one]
    if code or len(lines) < count:
        failed.append(f"a process ended with {code} after {len(lines)} of {count}: {log.read_text()[-2000:]}")
    return failed
