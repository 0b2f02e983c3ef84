"""Write the graph of one or two dumps into a file for msprobe's TensorBoard plugin (tb-graph-ascend).

  msprobe graph-visualize -tp TARGET -o OUT               one graph: OUT/build_{time}.vis.db
  msprobe graph-visualize -tp TARGET -gp GOLDEN -o OUT    two graphs, compared: OUT/compare_{time}.vis.db
  msprobe graph-visualize ... --rank-size 4 1 --tp 2 1 --pp 2 1   merge the ranks of each model first

TARGET and GOLDEN are folders of a rank, of a step or of a whole run, collected with level L0 or mix; for folders, every
step and rank that both sides have is drawn. To view the result, start TensorBoard on OUT. Exit code: 0 written, 1
written without a step or rank whose dump is missing, unreadable, without calls or without counterpart, 2 the command
was wrong or no dump can be drawn.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger, terminal_line
from msprobe.base.verdicts import Gap, Verdicts, last_line
from msprobe.compare.core.layouts import LayoutOptions, Layouts, layouts_of
from msprobe.mapping.user_files import user_mapping
from msprobe.options.declaration import OptionGroup, option
from msprobe.options.groups import Fuzzy, JsonAnswer, LayerMapping, output_option
from msprobe.options.kinds import FLAG, PATH, one_of

if TYPE_CHECKING:
    from .draw import Drawings, Request


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(LayerMapping):
    """The options of both commands that draw."""

    TITLE: ClassVar[tuple[str, str]] = OptionGroup.TITLE

    output: Path = output_option(required=True, help="the folder for the files", zh="文件所在的文件夹")
    overflow_check: bool = option(
        FLAG,
        "-oc",
        "--mark-overflow",
        default=False,
        help="mark the calls that create or propagate NaN and infinities",
        zh="标出产生或传播 NaN 和无穷大的调用",
    )


@dataclass(frozen=True, kw_only=True)
class Options(DrawingOptions, Fuzzy, LayoutOptions, JsonAnswer):
    """The options of the command."""

    target_path: Path = option(
        PATH, "-tp", "--target", required=True, help="the dump under suspicion", zh="待定位的 dump"
    )
    golden_path: Path | None = option(
        PATH,
        "-gp",
        "--golden",
        help="the trusted dump; without it, one graph is written",
        zh="标杆 dump；不给出则为单图",
    )
    complete_stack: bool = option(
        FLAG,
        "-cs",
        "--complete-stack",
        default=False,
        hidden=True,
        help="accepted from msprobe 8.3; call stacks are always complete",
        zh="为兼容 msprobe 8.3 而保留；调用栈总是完整的",
    )
    is_print_compare_log: bool = option(
        FLAG,
        "--log-each",
        default=False,
        hidden=True,
        help="accepted from msprobe 26",
        zh="为兼容 msprobe 26 而保留",
    )
    is_print_progress_log: bool = option(
        FLAG,
        "--log-progress",
        default=False,
        hidden=True,
        help="accepted from msprobe 26",
        zh="为兼容 msprobe 26 而保留",
    )
    file_type: str = option(
        one_of("db", "json"),
        "--file-type",
        default="db",
        help="json: write the merged dump.json, stack.json and construct.json of -tp instead of a graph",
        zh="json：不画图，只写出 -tp 合并后的 dump.json、stack.json 和 construct.json",
    )


def run(options: Options) -> int:
    """Draw, and print the path of the file."""
    layouts = layouts_of(options, has_golden=options.golden_path is not None)
    if options.file_type == "json":
        return _write_merged(options, layouts)
    if options.golden_path is None and (options.layer_mapping or options.fuzzy):
        logger.warning("-lm and -fm apply to two dumps; they have no effect with only -tp")
    from .draw import Request, draw_request  # here: the help of the command does not need numpy

    request = Request(
        target=options.target_path,
        golden=options.golden_path,
        output=options.output,
        mapping=user_mapping({"layer_mapping": options.layer_mapping}, "--"),
        fuzzy=options.fuzzy,
        overflow=options.overflow_check,
    )
    drawn = draw_request(request) if layouts is None else _draw_merged(request, layouts)
    return conclude(drawn, is_json=options.is_json)


def conclude(drawn: "Drawings", *, is_json: bool = False) -> int:
    """Print the files and what was not drawn; return the exit code."""
    gaps = {
        Gap.UNREADABLE_DUMP: len(drawn.unreadable),
        Gap.NO_DUMP: len(drawn.absent),
        Gap.NO_RECORDS: drawn.empty,
    }
    verdicts = Verdicts(drawn.dumps - drawn.empty, gaps=gaps)
    line = last_line("drawn", verdicts)
    if is_json:
        from msprobe.findings.catalogue import dumps as kinds
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer, Finding, Place

        found = (*drawn.unreadable, *(Finding(kinds.NO_DUMP, Place(text)) for text in drawn.absent))
        answer = Answer("unjudged" if verdicts.exit_code else "shown", line, next=found)
        details = {"dumps": drawn.dumps, "empty": drawn.empty, "absent": drawn.absent}
        details["unreadable"] = [finding.place.name for finding in drawn.unreadable]
        files = {"graphs": drawn.paths}
        printed(Document("graph-visualize", answer, verdicts, verdicts.exit_code, files=files, details=details))
        return verdicts.exit_code
    for path in drawn.paths:
        print(terminal_line(str(path)))
    if verdicts.exit_code:
        print(terminal_line(line))
    return verdicts.exit_code


def _draw_merged(request: "Request", layouts: Layouts) -> "Drawings":
    """Draw the models of the merged ranks; their dumps are not kept."""
    from msprobe.compare.parallel.merge import merge_sides

    from .draw import draw_request

    with TemporaryDirectory(prefix="msprobe-merged-") as folder:
        merged = merge_sides(request.target, request.golden, layouts, Path(folder))
        for finding in merged.findings:
            logger.warning("%s", finding.reason)
        return draw_request(replace(request, target=merged.target, golden=merged.golden))


def _write_merged(options: Options, layouts: Layouts | None) -> int:
    """Write the merged dumps of one side, and print their folder."""
    if options.golden_path is not None:
        raise UsageError(
            translated(
                "--file-type json writes the merged dumps of one side; omit -gp or --file-type json",
                "--file-type json 写出一侧合并后的 dump；请去掉 -gp 或 --file-type json",
            )
        )
    if layouts is None or layouts.target.is_whole:
        raise UsageError(
            translated(
                "--file-type json writes merged dumps; give --rank-size, and --tp or --pp greater than 1",
                "--file-type json 写出合并后的 dump；请给出 --rank-size，以及大于 1 的 --tp 或 --pp",
            )
        )
    from msprobe.compare.parallel.merge import merge_sides

    output = options.output
    findings = merge_sides(options.target_path, None, layouts, output).findings
    for finding in findings:
        logger.warning("%s", finding.reason)
    if options.is_json:
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        answer = Answer("shown", f"merged: {output}", next=findings)
        printed(Document("graph-visualize", answer, Verdicts(), 0, files={"dumps": output}))
        return 0
    print(terminal_line(str(output)))
    return 0
