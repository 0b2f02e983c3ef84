"""Write one page that shows everything: the answer, the calls as a tree, ranks and steps, dataflow, curves and tables.

  msprobe report A B [-o page.html]     two sides: A is under suspicion, B is trusted
  msprobe report DIR [-o page.html]     a single dump

A and B are inputs of `msprobe compare` (dumps, kernel dumps, saves, root folders of an RL flow), two outputs of a
monitor, or two packs of `msprobe config-check` (there -c B A). For a single dump, the page shows all calls, the first
call that created NaN or infinities, and the violated invariants. The page is one file that opens in a browser; it needs
no server and no network. The last line on standard output and the exit code are those of the command whose result is
shown: 0 nothing is wrong, 1 something is or could not be compared, 2 the command was wrong or nothing could be read.
--json prints the answer of the page as a document.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger, terminal_line
from msprobe.base.phrase import Words
from msprobe.base.verdicts import Verdicts
from msprobe.compare.core.layouts import LayoutOptions, layouts_of
from msprobe.compare.core.user_limits import UserLimitOptions
from msprobe.compare.request import NoiseOptions
from msprobe.options.declaration import OUTPUT, option, positional
from msprobe.options.groups import ExitZero, Fuzzy, JsonAnswer, Mappings, Selection, Workers
from msprobe.options.kinds import PATH, one_of
from msprobe.report.file import Report, check_page
from msprobe.store.detect import bundle_of, unbundled

PAGE = "msprobe_report.html"

_WHAT = ("compare", "monitor", "config_check", "dump", "overflow_check", "check")


@dataclass(frozen=True, kw_only=True)
class Options(Selection, Fuzzy, NoiseOptions, UserLimitOptions, Mappings, LayoutOptions, Workers, JsonAnswer, ExitZero):
    """The options of the command."""

    target: Path = positional(
        PATH, "A", help="the side under suspicion, or a single dump", zh="待定位侧，或单独的一个 dump"
    )
    golden: Path | None = positional(PATH, "B", default=None, help="the trusted side", zh="标杆侧")
    output: Path = option(
        PATH,
        "-o",
        "--output",
        default=Path(PAGE),
        role=OUTPUT,
        help=f"the page (.html), overwritten if it exists, or a folder for {PAGE}, created if missing",
        zh=f"页面（.html），已有则替换；或存放 {PAGE} 的文件夹，没有则创建",
    )
    what: str | None = option(
        one_of(*_WHAT),
        "--as",
        help="the command whose result is shown; default: detected",
        zh="展示哪个命令的结论；默认：自动检测",
    )


def run(options: Options) -> int:
    """Find out what the sides hold, report it, print the answer."""
    # Two zip files are packs of a configuration.
    file = bundle_of((options.target,)) if options.golden is None else None
    with unbundled(file, options) as filled:
        return _report(filled)


def _report(options: Options) -> int:
    page = _page_of(options.output)
    check_page()
    from .sides import What, what_of  # here: the help of the command is there before numpy is

    what = what_of(options.target, options.golden, options.what)
    if what is not What.COMPARE and layouts_of(options, has_golden=True) is not None:
        raise UsageError(
            translated(
                "--rank-size: ranks are merged only if two dumps are compared; add the golden dump, or merge the "
                "ranks of one dump with msprobe graph-visualize --file-type json, and report on the merged dump",
                "--rank-size：只有比对两份 dump 时才合并 rank；请同时给出标杆 dump，或先用 "
                "msprobe graph-visualize --file-type json 合并一份 dump，再对合并结果生成报告",
            )
        )
    if what is not What.COMPARE and (own := options.user_limits):
        raise UsageError(
            translated(
                f"{own}: limits apply to the difference of two dumps; give two dumps, or omit the limits",
                f"{own}：阈值针对两份 dump 之间的差异；请给出两份 dump，或去掉这些选项",
            )
        )
    made = {What.COMPARE: _compared, What.MONITOR: _monitored, What.CONFIG_CHECK: _packed}.get(what)
    report, lines, judged, exit_code = made(options) if made is not None else _alone(options, what)
    report.write(page)
    logger.info("the report is in %s", page)
    if options.json:
        from msprobe.findings.document import Document, printed

        head = report.head
        details = {"shown": head.kind, "target": str(options.target), "golden": options.golden and str(options.golden)}
        printed(Document("report", head.answer, judged, exit_code, head.counts, {"page": page}, details))
        return exit_code
    for line in lines:
        print(terminal_line(line))
    return exit_code


def _page_of(output: Path) -> Path:
    """The file of the page: `output` itself, or in the folder of that name, which may not be there yet."""
    if output.is_dir():
        return output / PAGE
    suffix = output.suffix.lower()
    if suffix in (".html", ".htm"):
        return output
    if suffix in _OF_OTHER_FILES or output.exists():
        raise UsageError(
            translated(
                f"-o {output}: the name of a page must end in .html; add it, or give a folder",
                f"-o {output}：页面的文件名以 .html 结尾；请加上，或给出文件夹",
            )
        )
    return output / PAGE


_OF_OTHER_FILES = (".json", ".csv", ".xlsx", ".txt", ".md", ".pdf", ".xml", ".png", ".svg", ".zip", ".db")
"""Names that end so are not taken for those of folders."""

_Made = tuple[Report, Iterable[Words], Verdicts, int]
"""The report, the lines that are printed, what was judged, and the exit code."""


def golden_of(options: Options) -> Path:
    """The trusted side, which a comparison has."""
    assert options.golden is not None  # `what_of` decides for a comparison where both sides are given
    return options.golden


def _compared(options: Options) -> _Made:
    from msprobe.compare.dispatch import compare_paths, pairs_of, report_of, verdicts_of
    from msprobe.compare.request import Request, with_options

    with TemporaryDirectory(prefix="msprobe-report-") as folder:
        request = Request(
            options.target,
            golden_of(options),
            format="csv",
            resume=False,
            html=True,
            tables=False,
        )
        request = replace(with_options(request, options), output=Path(folder))
        result = compare_paths(request, logging.DEBUG)  # what a flow writes goes with the folder
        exit_code = verdicts_of(result).exit_code_of(options.exit_zero)
        return report_of(result, request), list(result.lines()), pairs_of(result), exit_code


def _monitored(options: Options) -> _Made:
    from msprobe.compare.monitor.compare import compare_outputs
    from msprobe.compare.monitor.report import TARGETS, command_of, lines, report_of
    from msprobe.store.monitor.reader import read_output

    a, b = read_output(options.target), read_output(golden_of(options))
    clean = read_output(options.calibrate) if options.calibrate else None
    result = compare_outputs(a, b, clean, targets=TARGETS)
    command = command_of(str(options.target), str(options.golden), str(options.calibrate or ""))
    exit_code = result.verdicts.exit_code_of(options.exit_zero)
    return report_of(result, command), lines(result), result.verdicts, exit_code


def _packed(options: Options) -> _Made:
    from msprobe.compare.config_check.report import lines, report_on_packs

    with TemporaryDirectory(prefix="msprobe-report-") as folder:
        report, compared = report_on_packs(golden_of(options), options.target, Path(folder))
    return report, lines(compared, 10), compared.verdicts, compared.verdicts.exit_code_of(options.exit_zero)


def _alone(options: Options, what: Any) -> _Made:
    from .alone import report_alone

    found = report_alone(options.target, what, options.steps, options.ranks, options.workers or 0)
    return found.report, found.lines, found.verdicts, found.verdicts.exit_code_of(options.exit_zero)
