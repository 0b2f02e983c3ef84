"""Add the source lines to the values of a kernel dump.

  msprobe code-mapping --ir FILE --dump-data FILE|DIR [--output DIR] [--in-place]

FILE is the text of the graph after its last pass: graph_build_0_*.ir (anf_after_graph_build_*.ir of older versions) in
the folder of MS_DEV_SAVE_GRAPHS_PATH, or graphs/ms_output_trace_code_graph_0.ir, which a kernel dump contains. The dump
is a folder of npy files or of statistic.csv, any parent folder, or one file.

The result is OUT/code_mapping_{time}.csv. Exit code 0: every kernel is in the graph. 1: some are not; the line on
standard output names them. 2: the command was wrong, or nothing could be read.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.log import join_names, terminal_line
from msprobe.options.declaration import OUTPUT, option
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import FLAG, PATH
from msprobe.store.lock import claimed


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    ir: Path = option(
        PATH, "--ir", metavar="FILE", required=True, help="the text of the dumped graph", zh="所 dump 的计算图的文本"
    )
    dump_data: Path = option(
        PATH,
        "--dump-data",
        required=True,
        help="the kernel dump, a folder in it, or a file",
        zh="kernel dump、其中的文件夹或文件",
    )
    output: Path = option(
        PATH,
        "-o",
        "--output",
        metavar="DIR",
        default=Path(),
        role=OUTPUT,
        help="folder for the table",
        zh="表所在的文件夹",
    )
    in_place: bool = option(
        FLAG,
        "--in-place",
        default=False,
        help="append the columns to the statistic.csv files themselves, as msprobe 8.1 does",
        zh="把各列追加到 statistic.csv 文件中，与 msprobe 8.1 相同",
    )


def run(options: Options) -> int:
    """Write the table, and print how many values have source lines."""
    from .table import Graph, map_dump  # lazy: --help does not import the readers

    ir, data, output = options.ir, options.dump_data, options.output
    graph = Graph(ir)
    with ExitStack() as stack:
        timestamp = ""
        if not options.in_place:
            task = f"code_mapping {ir.absolute()} {data.absolute()}"
            timestamp = stack.enter_context(claimed(output, task, lambda timestamp: [_table(output, timestamp)]))
        result = map_dump(graph, data, _table(output, timestamp), in_place=options.in_place)
    where = join_names(result.files)
    parts = [f"{where}: {result.mapped} of {result.values} values have source lines"]
    if result.parameters:
        parts.append(f"{result.parameters} belong to parameters, which have no source line")
    if result.without_line:
        parts.append(f"the graph has no source line for {join_names(result.without_line)}")
    if result.unknown:
        parts.append(f"the graph does not contain {join_names(result.unknown)}; give the text of the dumped graph")
    line, exit_code = "; ".join(parts), int(bool(result.unknown))
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.catalogue.collecting import NOT_IN_GRAPH
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer, Finding, Place

        findings = [Finding(NOT_IN_GRAPH, Place(name), f"not in {ir}") for name in result.unknown]
        state = "differs" if findings else "shown"
        answer = Answer(state, line, findings[0] if findings else None, tuple(findings[1:]))
        details = {
            "values": result.values,
            "mapped": result.mapped,
            "parameters": result.parameters,
            "without_line": list(result.without_line),
        }
        verdicts, files = Verdicts(result.mapped, len(findings)), {"tables": result.files}
        printed(Document("code-mapping", answer, verdicts, exit_code, files=files, details=details))
        return exit_code
    print(terminal_line(line))
    return exit_code


def _table(output: Path, timestamp: str) -> Path:
    return output / f"code_mapping_{timestamp}.csv"
