"""Compare two monitored trainings and name the stage, target, step and rank at which they diverge first.

  msprobe monitor compare A B [--calibrate C] [-o FOLDER]

A is under suspicion, B is trusted. Each is the output of a monitor: the folder of TrainerMon, TrainerMonitorV2 or
grad_probe, of one rank or of all. Steps are compared by number. The band in which two correct trainings remain is
learned from the previous steps, or from C, another correct run of B's training. The last line is the answer. Exit code:
0 everything was judged and is within the band, 1 something leaves the band or could not be judged, 2 nothing could be
judged.
"""

from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.options.declaration import OUTPUT, option, positional
from msprobe.options.groups import AnswerFormat, ExitZero, output_option
from msprobe.options.kinds import FLAG, PATH
from msprobe.report.file import check_page


@dataclass(frozen=True, kw_only=True)
class Options(AnswerFormat, ExitZero):
    """The options of the command."""

    target: Path = positional(PATH, "A", help="the monitor of the training under suspicion", zh="待定位训练的监控输出")
    golden: Path = positional(PATH, "B", help="the monitor of the trusted training", zh="标杆训练的监控输出")
    calibrate: Path | None = option(
        PATH,
        "--calibrate",
        metavar="C",
        help="the monitor of another correct run of B's training",
        zh="B 的训练另一次正确运行的监控输出",
    )
    output: Path | None = output_option(
        metavar="FOLDER",
        help="write the answer there as JSON and as a page with curves",
        zh="把结论写到该文件夹：JSON，以及带曲线的页面",
    )
    html: bool = option(
        FLAG,
        "--html",
        default=False,
        role=OUTPUT,
        help="with -o: also write monitor_report.html, a page with all curves",
        zh="与 -o 一起使用：另外写出带全部曲线的页面 monitor_report.html",
    )


def run(options: Options) -> int:
    """Read, compare, write, print the answer."""
    from msprobe.findings.document import printed
    from msprobe.store.monitor.reader import read_output  # here: the help of the command does not need numpy

    from .compare import compare_outputs
    from .output import document_of, write, write_report
    from .report import TARGETS, command_of, lines

    if options.html:
        if options.output is None:
            raise UsageError(
                translated(
                    "--html writes into the folder of -o; give -o FOLDER too",
                    "--html 写入 -o 的文件夹；请同时给出 -o FOLDER",
                )
            )
        check_page()
    a, b = read_output(options.target), read_output(options.golden)
    clean = read_output(options.calibrate) if options.calibrate else None
    result = compare_outputs(a, b, clean, targets=TARGETS if options.html else 0)
    written = write(result, options.output) if options.output else {}
    if options.html and options.output:
        command = command_of(str(options.target), str(options.golden), str(options.calibrate or ""))
        written["report"] = write_report(result, options.output, command)
    exit_code = result.verdicts.exit_code_of(options.exit_zero)
    if options.is_json:
        printed(document_of(result, exit_code, written))
    else:
        answer = list(lines(result))
        for line in answer[:-1]:
            print(terminal_line(line))
        if written:
            print(terminal_line(f"written: {', '.join(map(str, written.values()))}"))
        print(terminal_line(answer[-1]))
    return exit_code
