"""Merge the comparison tables of several ranks.

-i gives the folder with the tables of one step, such as compare_result_rank0_....xlsx or .csv, and --config a YAML file
with the calls:

    api:
    - Mint.add
    - Distributed.all_reduce.0.forward
    compare_index:
    - Max diff

Every record whose name contains an entry of `api` is merged; without `compare_index`, all measures are. The result has
one sheet per measure, with a row per record and a column per rank. A cell is empty if a rank does not have the record,
as with pipeline stages; the output lists these ranks. Exit code: 0 done, 1 done, and an entry of `api` has no record on
any rank, or a rank's table lacks a column of `compare_index`; 2 the command was wrong.
"""

from dataclasses import dataclass
from pathlib import Path

from msprobe.base.log import terminal_line
from msprobe.options.declaration import option
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import PATH, one_of

FORMATS = ("xlsx", "csv")


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    input_dir: Path = option(
        PATH,
        "-i",
        "--input",
        metavar="DIR",
        required=True,
        help="the folder with the tables",
        zh="各表所在的文件夹",
    )
    output: Path = output_option(required=True, help="the folder for the merged table", zh="合并后的表所在的文件夹")
    config_path: Path = option(
        PATH,
        "--config",
        metavar="YAML",
        required=True,
        help="a YAML file with the calls and the measures",
        zh="给出调用和指标的 YAML 文件",
    )
    format: str = option(
        one_of(*FORMATS),
        "--format",
        default=FORMATS[0],
        help="format; csv: one file per measure",
        zh="格式；csv：每个指标一个文件",
    )


def run(options: Options) -> int:
    """Merge, and print the paths of the files, and which ranks lack which records."""
    from .merge import merge_tables  # here: the help of the command does not need openpyxl

    paths, merged = merge_tables(options.input_dir, options.output, options.config_path, form=options.format)
    verdicts = merged.verdicts
    *notes, line = (*merged.notes(), merged.answer)
    if options.is_json:
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        answer = Answer("unjudged" if verdicts.exit_code else "shown", line, notes=tuple(notes))
        details = {
            "records": len(merged.keys),
            "ranks": list(merged.cells),
            "measures": list(merged.measures),
            "absent": list(merged.absent),
            "ranks_without_measure": {name: list(ranks) for name, ranks in merged.without.items()},
        }
        printed(
            Document("merge-result", answer, verdicts, verdicts.exit_code, files={"tables": paths}, details=details)
        )
        return verdicts.exit_code
    for text in (*paths, *notes, line):
        print(terminal_line(str(text)))
    return verdicts.exit_code
