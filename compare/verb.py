"""Compare two dumps and name the first wrong call.

Give the dump under suspicion with -tp and the trusted one with -gp: a dump.json, its folder, or the folder of a step.
The table goes to the output folder, the answer to standard output; its last line names the first wrong call.
Exit code: 0 all judged pairs pass, 1 something differs or could not be compared, 2 the command was wrong or a
side cannot be read.
"""

import argparse
import gc
import time
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder
from msprobe.base.log import logger
from msprobe.store.read import read

from .locate.find import Located, locate
from .report.columns import columns
from .report.console import lines
from .report.csv_file import write_csv
from .report.json_file import write_json
from .report.rows import rows
from .report.sheet import write_sheet
from .request import Request, read_compare_json
from .run import Comparison, compare

_HERE = "this version matches by name and order: leave the flag out"
_NOT_BUILT = {
    "-am --api_mapping": f"mapping of API names is not in this version; {_HERE}",
    "-cm --cell_mapping": f"mapping of cell names is not in this version; {_HERE}",
    "-dm --data_mapping": f"mapping of records is not in this version; {_HERE}",
    "-lm --layer_mapping": f"mapping of layers is not in this version; {_HERE}",
    "--rank": "comparing many ranks at once is not in this version: give the folders of one rank with -tp and -gp",
    "--step": "comparing many steps at once is not in this version: give the folders of one step with -tp and -gp",
    "-hl --highlight": "the sheet marks errors and warnings without a flag: leave it out",
    "-da --diff_analyze": "the first wrong call is named without a flag: leave it out",
    "-m --mode": "only dumps of dynamic graphs are compared in this version: leave the flag out",
    "--consistent_check": "the check of training against inference is not in this version: leave the flag out",
    "--backend": "the check of training against inference is not in this version: leave the flag out",
}


class _NotBuilt(argparse.Action):
    """A flag of msprobe 8.1 or 26 that is known and not there yet: says what to do instead."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        parser.error(f"{option}: {self.help_text}")

    def __init__(self, *args: Any, help_text: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help_text = help_text


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    sides = parser.add_argument_group("what is compared")
    sides.add_argument("-tp", "--target_path", metavar="PATH", help="the dump under suspicion")
    sides.add_argument("-gp", "--golden_path", metavar="PATH", help="the dump that is trusted")
    sides.add_argument("-i", "--input_path", metavar="FILE", help="compare.json with npu_path and bench_path, instead")
    report = parser.add_argument_group("where the answer goes")
    report.add_argument(
        "-o", "--output_path", metavar="DIR", nargs="?", default="./output", const="./output", help="default: ./output"
    )
    report.add_argument("--format", choices=("xlsx", "csv", "json"), help="default: xlsx")
    report.add_argument("--xlsx", action="store_true", help="the same as --format xlsx")
    report.add_argument("-s", "--stack_mode", action="store_true", help="show the column of call stacks")
    report.add_argument("--top", type=int, default=10, metavar="N", help="list at most N next beginnings, default 10")
    report.add_argument("--exit-zero", action="store_true", help="exit with 0 also where something differs")
    old = parser.add_argument_group("accepted from msprobe 8.1 and 26, without effect")
    old.add_argument("-c", "--compare_only", action="store_true", help="no advisor file is ever written")
    old.add_argument("-f", "-fm", "--fuzzy_match", action="store_true", help="shifted calls are always aligned")
    old.add_argument("-tensor_log", "--is_print_compare_log", action="store_true", help="there is no line per record")
    for flags, text in _NOT_BUILT.items():
        parser.add_argument(*flags.split(), action=_NotBuilt, help_text=text, nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Compare, report, and say with the exit code how it went."""
    request = request_of(args)
    # Hundreds of thousands of records, none of them in a cycle: looking for cycles only costs time.
    gc.disable()
    try:
        return _run(request)
    finally:
        gc.enable()


def _run(request: Request) -> int:
    target = read(request.target, stack=request.stack_file)
    golden = read(request.golden)
    if not target.calls and not golden.calls:
        raise UsageError(f"{target.where} and {golden.where} hold no calls; there is nothing to compare")
    comparison = compare(target, golden)
    located = locate(comparison)
    path = report(comparison, located, request)
    logger.info("the table is in %s", path)
    for line in lines(comparison, located, request.top):
        print(line)
    return 0 if comparison.is_clean or request.exit_zero else 1


def request_of(args: argparse.Namespace) -> Request:
    """The command line as a request; UsageError where it cannot be meant."""
    if args.stray:
        if args.stray[0].lower() in ("mindspore", "pytorch"):
            raise UsageError(
                f"the framework stands before the verb: msprobe -f {args.stray[0]} compare ...; "
                "after compare, -f means fuzzy matching"
            )
        raise UsageError(f"{args.stray[0]!r} belongs to no option; write -tp TARGET -gp GOLDEN")
    if args.top < 0:
        raise UsageError("--top must not be negative")
    if args.xlsx and args.format not in (None, "xlsx"):
        raise UsageError(f"--xlsx and --format {args.format} contradict each other; give one")
    with_stack: bool | None = args.stack_mode
    stack = None
    if args.input_path:
        if args.target_path or args.golden_path:
            raise UsageError("-i names both sides already; give either -i, or -tp and -gp")
        sides = read_compare_json(Path(args.input_path))
        target, golden, stack = sides.target, sides.golden, sides.stack
        if stack is None:
            with_stack = None  # 8.1: the stack beside the dump is shown where there is one
    elif args.target_path and args.golden_path:
        target, golden = Path(args.target_path), Path(args.golden_path)
    else:
        raise UsageError("two dumps are needed: -tp TARGET -gp GOLDEN, or -i compare.json")
    return Request(
        target=target,
        golden=golden,
        output=Path(args.output_path),
        format=args.format or "xlsx",
        with_stack=with_stack,
        stack_file=stack,
        top=args.top,
        exit_zero=args.exit_zero,
    )


def report(comparison: Comparison, located: Located, request: Request) -> Path:
    """Write the table in the form that was asked for; gives its path."""
    with_stack = request.with_stack
    if with_stack is None:
        with_stack = any(call.stack for call in comparison.target.calls)
    path = request.output / f"compare_result_{time.strftime('%Y%m%d%H%M%S')}.{request.format}"
    shown = columns(comparison.mode, with_stack)
    table = rows(comparison, located, with_stack)
    try:
        make_folder(request.output)
        if request.format == "csv":
            write_csv(path, shown, table)
        elif request.format == "json":
            write_json(path, comparison, located, shown, table)
        else:
            write_sheet(path, shown, table)
    except OSError as err:
        raise UsageError(f"{path}: cannot be written ({err.strerror}); give another folder with -o") from err
    return path
