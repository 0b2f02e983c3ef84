"""Write one page that shows everything: the answer, the calls as a tree, ranks and steps, dataflow, curves and tables.

  msprobe report A B [-o page.html]     two sides: A is under suspicion, B is trusted
  msprobe report DIR [-o page.html]     one dump alone

A and B are what `msprobe compare` takes (dumps, kernel dumps, saves, roots of an RL flow), two outputs of a monitor, or
two packs of `msprobe config_check` (-c B A there); a file of `msprobe bundle` has both sides. Of one dump alone all
calls are shown, the first call that made NaN or infinities, and what does not hold of every training. The page opens
in a browser from the disk or a mail; it needs no server and no network. The last line on standard output is that of
the command whose answer is shown, and so is the exit code: 0 nothing is wrong, 1 something is or could not be compared,
2 the command was wrong or nothing could be read.
"""

import argparse
import logging
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.log import logger, visible
from msprobe.base.phrase import Words
from msprobe.base.scope import numbers_of
from msprobe.compare.core.layouts import add_options, layouts_of
from msprobe.compare.core.user_limits import add_options as add_user_limits
from msprobe.compare.core.user_limits import limits_of_arguments
from msprobe.mapping.user_files import OPTIONS, user_mapping
from msprobe.report.file import Report, check_page
from msprobe.store.detect import bundle_of

PAGE = "msprobe_report.html"

_WHAT = ("compare", "monitor", "config_check", "dump", "overflow_check", "check")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("target", metavar="A", help="the side under suspicion, or one dump alone")
    parser.add_argument("golden", metavar="B", nargs="?", help="the side that is trusted")
    parser.add_argument(
        "-o",
        "--output_path",
        metavar="PATH",
        default=PAGE,
        help=f"the page (.html), replaced if there, or a folder for {PAGE}, created if missing; default: {PAGE}",
    )
    parser.add_argument(
        "--as", dest="what", choices=_WHAT, help="the command whose answer is shown; default: by itself"
    )
    parser.add_argument("--rank", metavar="N,..", help="only these ranks, as in 0-3 or 0,2,5-7")
    parser.add_argument("--step", metavar="N,..", help="only these steps, in the same form")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that share the work, default one per core")
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 also where something is wrong")
    of_dumps = parser.add_argument_group("two dumps, as of msprobe compare")
    file: dict[str, Any] = {"metavar": "FILE", "nargs": "?", "const": True}
    of_dumps.add_argument("-am", "--api_mapping", **file, help="functions and their arguments")
    of_dumps.add_argument("-cm", "--cell_mapping", **file, help="cells")
    of_dumps.add_argument("-lm", "--layer_mapping", **file, help="layers")
    of_dumps.add_argument("-dm", "--data_mapping", metavar="FILE", help="single rows")
    of_dumps.add_argument("-f", "--fuzzy_match", action="store_true", help="also pair what is left over, in order")
    of_dumps.add_argument("--noise", metavar="MODE", help="auto (default), exact, or the path of a noise.json")
    add_user_limits(of_dumps)
    add_options(parser.add_argument_group("ranks that share one model out, which are merged first; of two dumps"))
    parser.add_argument("--calibrate", metavar="CLEAN", help="another correct run of B's training: dumps, or a monitor")


def run(args: argparse.Namespace) -> int:
    """Find out what the sides hold, report it, print the answer."""
    # Two zip files are packs of a configuration.
    if args.golden is not None or (file := bundle_of([args.target])) is None:
        return _report(args)
    from msprobe.store.bundle import unpacked

    with unpacked(file) as bundle:
        args.target, args.golden = str(bundle.target), str(bundle.golden)
        bundle.fill(args)
        return _report(args)


def _report(args: argparse.Namespace) -> int:
    if args.workers is not None and args.workers < 1:
        raise UsageError("--workers must be at least 1")
    page = _page_of(Path(args.output_path))
    check_page()
    from .sides import What, what_of  # here: the help of the command is there before numpy is

    what = what_of(Path(args.target), Path(args.golden) if args.golden else None, args.what)
    if what is not What.COMPARE and layouts_of(args, has_golden=True) is not None:
        raise UsageError(
            "--rank_size: ranks are merged where two dumps are compared; give the golden dump too, or merge those of "
            "one with msprobe graph_visualize --file_type json, and report on the merged dump"
        )
    if what is not What.COMPARE and (own := limits_of_arguments(args)):
        raise UsageError(f"{own}: limits are for the difference of two dumps; give two dumps, or leave them out")
    made = {What.COMPARE: _compared, What.MONITOR: _monitored, What.CONFIG_CHECK: _packed}.get(what)
    report, lines, exit_code = made(args) if made is not None else _alone(args, what)
    report.write(page)
    logger.info("the report is in %s", page)
    for line in lines:
        print(visible(line))
    return exit_code


def _page_of(output: Path) -> Path:
    """The file of the page: `output` itself, or in the folder of that name, which may not be there yet."""
    if output.is_dir():
        return output / PAGE
    suffix = output.suffix.lower()
    if suffix in (".html", ".htm"):
        return output
    if suffix in _OF_OTHER_FILES or output.exists():
        raise UsageError(f"-o {output}: the name of a page ends in .html; add it, or give a folder")
    return output / PAGE


_OF_OTHER_FILES = (".json", ".csv", ".xlsx", ".txt", ".md", ".pdf", ".xml", ".png", ".svg", ".zip", ".db")
"""Names that end so are not taken for those of folders."""

_Made = tuple[Report, Iterable[Words], int]
"""The report, the lines that are printed, and the exit code."""


def _numbers(args: argparse.Namespace, name: str) -> tuple[int, ...] | None:
    """The steps or ranks that were chosen."""
    text = getattr(args, name)
    return None if text is None else numbers_of(f"--{name}", text)


def _compared(args: argparse.Namespace) -> _Made:
    from msprobe.compare.dispatch import compare_paths, report_of, verdicts_of
    from msprobe.compare.request import Request, limits_named

    limits = limits_named(args.noise or "", args.calibrate, ("--noise", "--calibrate"))
    with TemporaryDirectory(prefix="msprobe-report-") as folder:
        request = Request(
            Path(args.target),
            Path(args.golden),
            Path(folder),
            format="csv",
            fuzzy=args.fuzzy_match,
            mapping=user_mapping({option: getattr(args, option) for option in OPTIONS}, "--"),
            workers=args.workers,
            resume=False,
            limits=limits,
            calibrate=Path(args.calibrate) if args.calibrate else None,
            html=True,
            tables=False,
            ranks=_numbers(args, "rank"),
            steps=_numbers(args, "step"),
            layouts=layouts_of(args, has_golden=True),
            user_limits=limits_of_arguments(args),
        )
        result = compare_paths(request, logging.DEBUG)  # what a flow writes goes with the folder
        return report_of(result, request), list(result.lines()), verdicts_of(result).exit_code_of(args.exit_zero)


def _monitored(args: argparse.Namespace) -> _Made:
    from msprobe.compare.monitor.compare import compare_outputs
    from msprobe.compare.monitor.report import TARGETS, command_of, report_of
    from msprobe.compare.monitor.wording import lines
    from msprobe.store.monitor.reader import read_output

    a, b = read_output(Path(args.target)), read_output(Path(args.golden))
    clean = read_output(Path(args.calibrate)) if args.calibrate else None
    result = compare_outputs(a, b, clean, targets=TARGETS)
    command = command_of(args.target, args.golden, args.calibrate or "")
    return report_of(result, command), lines(result), 0 if result.is_clean or args.exit_zero else 1


def _packed(args: argparse.Namespace) -> _Made:
    from msprobe.compare.config_check.report import report_on_packs
    from msprobe.compare.config_check.wording import lines

    with TemporaryDirectory(prefix="msprobe-report-") as folder:
        report, compared = report_on_packs(Path(args.golden), Path(args.target), Path(folder))
    return report, lines(compared, 10), compared.verdicts.exit_code_of(args.exit_zero)


def _alone(args: argparse.Namespace, what: Any) -> _Made:
    from .alone import report_alone

    steps, ranks = _numbers(args, "step"), _numbers(args, "rank")
    found = report_alone(Path(args.target), what, steps, ranks, args.workers or 0)
    return found.report, found.lines, found.verdicts.exit_code_of(args.exit_zero)
