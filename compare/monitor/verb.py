"""Compare two monitored trainings and name the stage, target, step and rank that part first.

  msprobe monitor compare A B [--calibrate C] [-o FOLDER]

A is under suspicion, B is trusted. Each is what a monitor wrote: the folder of TrainerMon, TrainerMonitorV2 or
grad_probe, of one rank or of all. Steps are compared by number. The band in which two correct trainings stay is learned
from the steps before, or from C, another correct run of B's training. The last line is the answer. Exit code: 0
everything was judged and stays within the band, 1 something leaves it or could not be judged, 2 nothing could be
judged.
"""

import argparse
import json
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.log import visible
from msprobe.report.file import check_page


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("target", metavar="A", help="the monitor of the training under suspicion")
    parser.add_argument("golden", metavar="B", help="that of the trusted one")
    parser.add_argument("--calibrate", metavar="C", help="that of another correct run of B's training")
    parser.add_argument(
        "-o", "--output_path", metavar="FOLDER", help="write the answer as JSON and as a page there, with curves"
    )
    parser.add_argument(
        "--html", action="store_true", help="with -o: also write monitor_report.html there, a page with all curves"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of standard output; default: text")
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 also where something differs")


def run(args: argparse.Namespace) -> int:
    """Read, compare, write, print the answer."""
    from msprobe.store.monitor.reader import read_output  # here: the help of the command is there before numpy is

    from .compare import compare_outputs
    from .output import as_object, write, write_report
    from .report import TARGETS, command_of
    from .wording import lines

    if args.html:
        if not args.output_path:
            raise UsageError("--html writes into the folder of -o; give -o FOLDER too")
        check_page()
    a, b = read_output(Path(args.target)), read_output(Path(args.golden))
    clean = read_output(Path(args.calibrate)) if args.calibrate else None
    result = compare_outputs(a, b, clean, targets=TARGETS if args.html else 0)
    written = write(result, Path(args.output_path)) if args.output_path else []
    if args.html:
        command = command_of(args.target, args.golden, args.calibrate or "")
        written.append(write_report(result, Path(args.output_path), command))
    if args.format == "json":
        print(json.dumps(as_object(result), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        answer = list(lines(result))
        for line in answer[:-1]:
            print(visible(line))
        if written:
            print(visible(f"written: {', '.join(map(str, written))}"))
        print(visible(answer[-1]))
    return 0 if args.exit_zero and result.exit_code == 1 else result.exit_code
