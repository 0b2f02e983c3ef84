"""Write the network of a dump, or of two, into a file for msprobe's TensorBoard plugin (tb-graph-ascend).

  msprobe graph_visualize -tp TARGET -o OUT               one graph: OUT/build_{time}.vis.db
  msprobe graph_visualize -tp TARGET -gp GOLDEN -o OUT    two, compared: OUT/compare_{time}.vis.db
  msprobe graph_visualize ... --rank_size 4 1 --tp 2 1 --pp 2 1   ranks that share a model out are merged first

TARGET and GOLDEN are folders of a rank, of a step or of a whole run, collected with level L0 or mix; of folders every
step and rank that both sides hold is drawn. Then start TensorBoard on OUT. Exit code: 0 written, 1 written, and a
step or rank is missing in it, whose dump cannot be read, or that has no dump, no calls or no counterpart, 2 the command
was wrong or no dump can be drawn.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msprobe.base.errors import UsageError
from msprobe.base.log import logger, visible
from msprobe.base.verdicts import Gap, Verdicts, last_line
from msprobe.compare.core.layouts import Layouts, add_options, layouts_of
from msprobe.mapping.user_files import user_mapping

if TYPE_CHECKING:
    from .draw import Drawings, Request


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
    merging = parser.add_argument_group("ranks that share one model out, which are merged first")
    add_options(merging)
    merging.add_argument(
        "--file_type",
        choices=("db", "json"),
        default="db",
        help="json: no graph, but the merged dump.json, stack.json and construct.json of -tp; default: db",
    )


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
    layouts = layouts_of(args, has_golden=args.golden_path is not None)
    if args.file_type == "json":
        return _write_merged(args, layouts)
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
    return conclude(draw_request(request) if layouts is None else _draw_merged(request, layouts))


def conclude(drawn: "Drawings") -> int:
    """Print the files and what was not drawn; returns the exit code."""
    for path in drawn.paths:
        print(visible(str(path)))
    gaps = {
        Gap.UNREADABLE_DUMP: len(drawn.unreadable),
        Gap.NO_DUMP: len(drawn.absent),
        Gap.NO_RECORDS: drawn.empty,
    }
    verdicts = Verdicts(drawn.dumps - drawn.empty, gaps=gaps)
    if verdicts.exit_code:
        print(visible(last_line("drawn", verdicts)))
    return verdicts.exit_code


def _draw_merged(request: "Request", layouts: Layouts) -> "Drawings":
    """Draw the models that the ranks have together; their dumps are not kept."""
    from msprobe.compare.parallel.merge import merge_sides

    from .draw import draw_request

    with TemporaryDirectory(prefix="msprobe-merged-") as folder:
        merged = merge_sides(request.target, request.golden, layouts, Path(folder))
        for sentence in merged.notes:
            logger.warning("%s", sentence)
        return draw_request(replace(request, target=merged.target, golden=merged.golden))


def _write_merged(args: argparse.Namespace, layouts: Layouts | None) -> int:
    """Write the merged dumps of one side, and print their folder."""
    if args.golden_path is not None:
        raise UsageError("--file_type json writes the merged dumps of one side; leave -gp out, or --file_type json")
    if layouts is None or layouts.target.is_whole:
        raise UsageError("--file_type json writes merged dumps; give --rank_size, and --tp or --pp greater than 1")
    from msprobe.compare.parallel.merge import merge_sides

    output = Path(args.output_path)
    for sentence in merge_sides(Path(args.target_path), None, layouts, output).notes:
        logger.warning("%s", sentence)
    print(visible(str(output)))
    return 0
