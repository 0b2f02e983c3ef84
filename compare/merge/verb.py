"""Put the comparison tables of several ranks side by side.

Give with -i the folder that holds the tables of one step, compare_result_rank0_....xlsx or .csv and so on, and with
-config a YAML file that names the calls:

    api:
    - Mint.add
    - Distributed.all_reduce.0.forward
    compare_index:
    - Max diff

Every record whose name contains an entry of `api` is taken; without `compare_index` all measures are. The answer has
one sheet per measure, with a row per record and a column per rank. A cell is empty where a rank has no such record, as
the stages of a pipeline do; the output says which ranks lack which. Exit code: 0 done, 1 done, and an entry of `api`
has no record on any rank, or a rank's table lacks a column of `compare_index`; 2 the command was wrong.
"""

import argparse
from pathlib import Path

from msprobe.base.log import visible

FORMATS = ("xlsx", "csv")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-i", "--input_dir", required=True, metavar="DIR", help="the folder with the tables")
    parser.add_argument("-o", "--output_dir", required=True, metavar="DIR", help="the folder for the merged table")
    parser.add_argument("-config", "--config-path", required=True, metavar="YAML", help="which calls, which measures")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="default: xlsx; csv: a file per measure")


def run(args: argparse.Namespace) -> int:
    """Merge, and print the paths of the files, and which ranks lack which records."""
    from .merge import merge_tables  # here: the help of the command is there before openpyxl is

    folder, output, config = Path(args.input_dir), Path(args.output_dir), Path(args.config_path)
    paths, merged = merge_tables(folder, output, config, form=args.format)
    for path in paths:
        print(visible(str(path)))
    for line in merged.lines():
        print(visible(line))
    return merged.verdicts.exit_code
