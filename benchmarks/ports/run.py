"""Public models and their ports: collect both, compare, and hold the answers to what is true.

    python benchmarks/ports/run.py [--model NAME ...] [--case NAME ...] [--task TASK ...] [--keep DIR | --reuse DIR]

Run it with a Python that has msprobe-ms and PyYAML. See README.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import environments
import scoring
import truth
from models import MODELS

HERE = Path(__file__).parent
RESULTS, HEADING = HERE / "RESULTS.md", "## Measured\n"
TASKS = ("tensor", "statistics")


def arguments():
    """What the user asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--case", nargs="+", help="`clean` and names of bugs; default: all")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS), help="default: both")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the dumps there; nothing is compared")
    parser.add_argument("--reuse", type=Path, metavar="DIR", help="compare the dumps that --keep left there")
    parser.add_argument("--wheel", type=Path, help="of msprobe-ms, to collect with; default: the repository")
    parser.add_argument("--results", action="store_true", help="write the tables into RESULTS.md")
    return parser.parse_args()


def cases_of(wanted):
    """The cases by name: None for the clean one, else the bug as it is written."""
    found = {"clean": None, **truth.bugs()}
    return {name: found[name] for name in wanted or found}


def collect(args, folder):
    """Collect what is not there yet: the originals, then the ports."""
    cases = cases_of(args.case)
    golden, target = [], []
    for task in args.task:
        for model in args.model:
            base = folder / task / model
            mine = {name: bug for name, bug in cases.items() if bug is None or bug["model"] == model}
            missing = [name for name in mine if not (base / name / "agreement.json").exists()]
            if missing and not (base / "losses.npz").exists():
                golden.append({"model": model, "task": task, "out": str(base / "golden"), "golden": str(base)})
            for name, bug in mine.items():
                item = {"model": model, "case": name, "task": task, "golden": str(base), "bug": bug}
                if name in missing:
                    target.append({**item, "out": str(base / name / "target")})
                _beside(base / name, item)
    _run("golden", golden, args, folder)
    _run("target", target, args, folder)


def _run(side, items, args, folder):
    if not items:
        return
    plan = folder / f"plan-{side}.json"
    plan.write_text(json.dumps(items))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    interpreter = environments.python(side, args.wheel)
    with (folder / f"{side}.log").open("a") as log:
        command = [str(interpreter), str(HERE / f"{side}.py"), str(plan)]
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False)
    plan.unlink()


def _beside(case, item):
    """The truth, and the golden that all cases share, beside a target."""
    case.mkdir(parents=True, exist_ok=True)
    if not (case / "golden").is_symlink():
        (case / "golden").symlink_to("../golden")
    written = item["bug"] or truth.real_differences().get(item["model"])
    (case / "truth.json").write_text(json.dumps(written, indent=1))


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.reuse or args.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if not args.reuse:
            collect(args, folder)
        if args.keep:
            return 0
        rows = scoring.score(folder, args.task, args.model, cases_of(args.case))
    table = scoring.table(rows)
    print(table)
    if args.results:
        by_hand = RESULTS.read_text().partition(HEADING)[0]
        RESULTS.write_text(f"{by_hand}{HEADING}\n{table}")
    return 0


if __name__ == "__main__":
    if shutil.which("msprobe") is None and not Path(sys.executable).with_name("msprobe").exists():
        sys.exit("the Python that runs this has no msprobe-ms")
    sys.exit(main())
