"""Measures whether `msprobe compare` names the first wrong call: `python benchmarks/bugs/run.py`.

Collects trainings with seeded faults and clean pairs in all regimes (README.md), compares them by the command
and compares the answers with the truth. `--keep DIR` leaves the dumps there, `--reuse DIR` takes those that are there:
with both steps apart a method can be measured many times on the same dumps.
"""

import argparse
import fnmatch
import json
import sys
import tempfile
import time
from pathlib import Path

import noise
import reference
import table
from cases import REGIMES, TASKS, cases
from collect import collect
from fault import SETS, load
from older import OLDER, interpreter
from score import score

HERE = Path(__file__).parent


def main(argv=None):
    args = _arguments(argv)
    if args.reuse:
        return _score(args, args.reuse)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        return _collect_and_score(args, args.keep)
    with tempfile.TemporaryDirectory() as folder:
        return _collect_and_score(args, Path(folder))


def _arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regime", action="append", choices=REGIMES, help="only these; may be repeated")
    parser.add_argument("--task", action="append", choices=TASKS, help="only these; may be repeated")
    parser.add_argument("--case", action="append", metavar="PATTERN", help="only these names, as `decoder-*`")
    parser.add_argument("--set", default="all", choices=[*SETS, "all"], help="which faults")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="collect there and leave the dumps")
    parser.add_argument("--reuse", type=Path, metavar="DIR", help="collect nothing, score what is there")
    parser.add_argument("--collect-only", action="store_true", help="with --keep: do not score")
    parser.add_argument(
        "--older", type=Path, metavar="DIR", help=f"an environment with {OLDER} for the reruns; made there if needed"
    )
    parser.add_argument(
        "--other", type=Path, metavar="DIR", help="environments of mindstudio-probe; made there if needed"
    )
    parser.add_argument("--every", type=int, default=8, metavar="N", help="with --other: every Nth case, default 8")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--scores", type=Path, metavar="FILE", help="write every score there, a line of JSON for each")
    parser.add_argument("--results", type=Path, default=None, metavar="FILE", help="default: RESULTS.md of a whole run")
    return parser.parse_args(argv)


def _collect_and_score(args, folder):
    pythons = {OLDER: interpreter(args.older)} if args.older else {}
    every = cases(args.set, older=bool(pythons))
    chosen = [case for case in every if _is_wanted(args, case.regime, case.task, case.name)]
    began = time.perf_counter()
    failed = collect(chosen, folder, pythons, args.processes)
    noise.add(folder, [folder / case.folder for case in chosen if (folder / case.folder / "truth.json").exists()])
    for line in failed:
        print(f"NOT COLLECTED {line}", file=sys.stderr)
    print(f"{len(chosen)} cases are in {folder} ({time.perf_counter() - began:.0f} s)", file=sys.stderr)
    return (1 if failed else 0) if args.collect_only else _score(args, folder) or (1 if failed else 0)


def _score(args, folder):
    names = {fault.name for fault in load(args.set)}
    wanted = []
    for file in sorted(folder.glob("*/*/*/truth.json")):
        truth = json.loads(file.read_text())
        is_of_set = "fault" not in truth or truth["fault"] in names
        if is_of_set and _is_wanted(args, truth["regime"], truth["task"], truth["case"]):
            wanted.append(file.parent)
    began = time.perf_counter()
    scores = score(folder, wanted, args.processes)
    sets = {fault.name: chosen for chosen in SETS for fault in load(chosen)}
    for one in scores:
        one["set"] = sets.get(one["fault"], "")
    if args.other:
        reference.add(scores, folder, args.other, args.every)
    print(f"{len(scores)} cases were compared ({time.perf_counter() - began:.0f} s)", file=sys.stderr)
    if args.scores:
        args.scores.write_text("".join(json.dumps(one) + "\n" for one in scores))
    text = table.markdown(scores)
    print(text)
    is_whole = not (args.regime or args.task or args.case) and args.set == "all"
    results = args.results or (HERE / "RESULTS.md" if is_whole else None)
    if results:
        results.write_text(table.page(scores))
    return 0


def _is_wanted(args, regime, task, name):
    return (
        (not args.regime or regime in args.regime)
        and (not args.task or task in args.task)
        and (not args.case or any(fnmatch.fnmatch(name, pattern) for pattern in args.case))
    )


if __name__ == "__main__":
    sys.exit(main())
