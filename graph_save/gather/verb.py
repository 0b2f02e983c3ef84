"""Convert a kernel dump of MindSpore into a dump that `msprobe compare` reads.

  msprobe gather RAW -o OUT [--steps 0,2-4] [--ranks 0] [--task statistics] [--workers N]

RAW is the dump_path of a kernel dump (MINDSPORE_DUMP_CONFIG), or the folder of a rank in it. Every iteration becomes
OUT/step{n}/rank{r}, with the kernels in the order of execution and the source line of each. RAW is not changed; its
tensors are linked, or copied where the file system does not support links. Neither MindSpore nor PyTorch is needed.

Exit code 0: everything was gathered. 1: gathered, and something is missing, or the settings name a kernel that was not
dumped. 2: the command was wrong, or RAW does not contain a kernel dump.
"""

from dataclasses import dataclass
from pathlib import Path

from msprobe.base.log import terminal_line
from msprobe.options.declaration import option, positional
from msprobe.options.groups import JsonAnswer, Selection, Workers, output_option
from msprobe.options.kinds import PATH, one_of


@dataclass(frozen=True, kw_only=True)
class Options(Selection, Workers, JsonAnswer):
    """The options of the command."""

    raw: Path = positional(
        PATH,
        "RAW",
        help="the dump_path of a kernel dump, or the folder of one rank",
        zh="kernel dump 的 dump_path，或某个 rank 的文件夹",
    )
    output: Path = output_option(
        metavar="OUT",
        required=True,
        help="the folder for step{n}/rank{r}",
        zh="step{n}/rank{r} 所在的文件夹",
    )
    task: str | None = option(
        one_of("tensor", "statistics"),
        "--task",
        help="statistics: compute statistics and leave the tensors in RAW; default: the task of the "
        "debugger that made the dump, otherwise tensor",
        zh="statistics：计算张量的统计量，张量留在原处；默认：生成该 dump 的调试器的 task，否则为 tensor",
    )


def run(options: Options) -> int:
    """Gather the selected ranks and iterations, and print a line for each dump."""
    from .run import gather_all  # lazy: --help does not import NumPy

    report = gather_all(
        options.raw,
        options.output,
        steps=options.steps or (),
        ranks=options.ranks or (),
        with_tensors=None if options.task is None else options.task == "tensor",
        workers=options.workers,
    )
    exit_code = 1 if report.has_missing else 0
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        found = report.findings
        state, notes = "differs" if found else "shown", tuple(report.lines[:-1])
        answer = Answer(state, report.lines[-1], found[0] if found else None, tuple(found[1:]), notes=notes)
        verdicts = Verdicts(report.values, len(found))
        details = {"dumps": report.dumps, "values": report.values}
        printed(Document("gather", answer, verdicts, exit_code, files={"dumps": options.output}, details=details))
        return exit_code
    for line in report.lines:
        print(terminal_line(line))
    return exit_code
