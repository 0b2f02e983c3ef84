"""Write the network of a dump, or of two, into a file for msprobe's TensorBoard plugin (tb-graph-ascend).

  msprobe graph_visualize -tp TARGET -o OUT               one graph: OUT/build_{time}.vis.db
  msprobe graph_visualize -tp TARGET -gp GOLDEN -o OUT    two, compared: OUT/compare_{time}.vis.db

TARGET and GOLDEN are folders of a rank, of a step or of a whole run, collected with level L0 or mix; of folders every
step and rank that both sides hold is drawn. Then start TensorBoard on OUT. Exit code: 0 written, 2 the command was
wrong or a dump cannot be drawn.
"""

import argparse
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.log import logger, visible
from msprobe.mapping.user_files import user_mapping

MERGING = ("--rank_size", "--tp", "--pp", "--vpp", "--order", "--file_type")
"""Options of msprobe 26 that merge the ranks of a parallel layout, which this version refuses."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-tp", "--target_path", required=True, metavar="PATH", help="the dump under suspicion")
    parser.add_argument("-gp", "--golden_path", metavar="PATH", help="the dump that is trusted; without it one graph")
    add_common(parser)
    parser.add_argument(
        "-fm", "--fuzzy_match", action="store_true", help="also pair what is left over, in order, by name or operation"
    )
    parser.add_argument(
        "-cs", "--complete_stack", action="store_true", help="accepted from msprobe 8.3; call stacks are complete"
    )
    accepted: dict[str, Any] = {"action": "store_true", "help": "accepted from msprobe 26"}
    parser.add_argument("-tensor_log", "--is_print_compare_log", **accepted)
    parser.add_argument("-progress_log", "--is_print_progress_log", **accepted)
    for option in MERGING:
        parser.add_argument(option, nargs="*", dest="merging", action="append", help=argparse.SUPPRESS)


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options that both commands have."""
    file: dict[str, Any] = {"metavar": "FILE", "nargs": "?", "const": True}
    parser.add_argument("-o", "--output_path", required=True, metavar="DIR", help="the folder for the files")
    parser.add_argument(
        "-lm", "--layer_mapping", **file, help="layers by the class around them; without FILE equal ones"
    )
    parser.add_argument(
        "-oc", "--overflow_check", action="store_true", help="mark the calls that make or pass on NaN and infinities"
    )


def run(args: argparse.Namespace) -> int:
    """Draw, and print the path of the file."""
    if args.merging:
        raise UsageError(
            f"{', '.join(MERGING[:-2])}: ranks of different parallel layouts are not merged into one graph; leave the "
            "options out, and every rank is drawn by itself, or compare the ranks with msprobe compare"
        )
    if args.golden_path is None and (args.layer_mapping or args.fuzzy_match):
        logger.warning("-lm and -fm are about two dumps; with -tp alone they change nothing")
    from .draw import Request, draw_request  # here: the help of the command is there before numpy is

    request = Request(
        target=Path(args.target_path),
        golden=Path(args.golden_path) if args.golden_path else None,
        output=Path(args.output_path),
        mapping=user_mapping({"layer_mapping": args.layer_mapping}, "--"),
        fuzzy=args.fuzzy_match,
        overflow=args.overflow_check,
    )
    for path in draw_request(request):
        print(visible(str(path)))
    return 0
