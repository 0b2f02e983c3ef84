"""Sort the anomalies that a monitor's alerts wrote, and list the earliest ones.

  msprobe monitor anomalies -d DIR [-o OUT] [-k 8] [-s "[]"]

DIR is the folder anomaly_detected of a monitor's output, or that output. The anomalies of all ranks are ordered by
step, micro step, stage of the step (forward, backward, optimizer), and place in the model. The earliest go to standard
output, and to anomaly_analyse.json with all their fields. Exit code: 0 there is no anomaly, 1 there are some, 2 the
command was wrong or nothing could be read.
"""

import argparse
import json
from pathlib import Path

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.files import make_root, writing
from msprobe.base.log import visible


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-d", "--data_path", metavar="DIR", required=True, help="the folder with the ranks' folders")
    parser.add_argument("-o", "--out_path", metavar="OUT", help="where anomaly_analyse.json goes; default: DIR")
    parser.add_argument("-k", "--topk", metavar="K", type=int, default=8, help="how many anomalies; default: 8")
    parser.add_argument(
        "-s", "--step", metavar="STEPS", default="[]", help='only these steps, as in "[3,4]"; default: all'
    )


def run(args: argparse.Namespace) -> int:
    """List and write the earliest anomalies, and say with the exit code whether there are any."""
    if args.topk < 1:
        raise UsageError(f"-k {args.topk}: write a whole number from 1 on")
    from .anomalies import ANALYSIS, earliest, read_anomalies, write_analysis  # here: the help is there before numpy is

    folder = Path(args.data_path)
    every = read_anomalies(folder)
    found = earliest(every, args.topk, _steps(args.step))
    out = Path(args.out_path or folder)
    make_root(out, "-o")
    with writing(out / ANALYSIS):
        write_analysis(out / ANALYSIS, found)
    for each in found:
        print(visible(each.message or each.key))
    print(f"{len(found)} of {len(every)} anomalies; {visible(str(out / ANALYSIS))}")
    return 1 if found else 0


def main(prog: str) -> int:
    """Run the command line of a module that `prog` names, as in `python -m MODULE`; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add(parser)
    try:
        return run(parser.parse_args())
    except MsprobeError as err:
        parser.exit(2, f"{prog}: {err}\n")


def _steps(text: str) -> frozenset[int]:
    try:
        steps = json.loads(text)
    except (ValueError, RecursionError):
        steps = None
    if not isinstance(steps, list) or not all(isinstance(each, int) and not isinstance(each, bool) for each in steps):
        raise UsageError(f'-s {text}: not a list of steps; write one such as "[3,4]", or "[]" for all')
    return frozenset(steps)
