"""Write the network of a dump, or of two, into JSON, as msprobe 8.1 does; graph_visualize writes the newer database.

  msprobe -f mindspore graph -i compare.json -o OUT

compare.json names the sides: {"npu_path": "TARGET", "bench_path": "GOLDEN"}; without bench_path there is one graph.
For each rank of each step there is a file: OUT/build_{time}.vis or OUT/compare_{time}.vis. Exit code: 0 written, 1
written, and a folder has no dump or no counterpart, 2 the command was wrong or a dump cannot be drawn.
"""

import argparse
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import user_path
from msprobe.compare.request import object_of
from msprobe.mapping.user_files import user_mapping

from .verb import add_common, conclude


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-i", "--input_path", required=True, metavar="FILE", help="compare.json, which names the sides")
    add_common(parser)
    parser.add_argument(
        "-f", "--fuzzy_match", action="store_true", help="also pair what is left over, in order, by name or operation"
    )
    parser.add_argument(
        "-cs", "--complete_stack", action="store_true", help="call stacks whole, not the line of the call"
    )


def run(args: argparse.Namespace) -> int:
    """Draw, and print the paths of the files."""
    target, golden = _sides(Path(args.input_path))
    from .draw import Request, draw_request  # here: the help of the command is there before numpy is

    request = Request(
        target=target,
        golden=golden,
        output=Path(args.output_path),
        mapping=user_mapping({"layer_mapping": args.layer_mapping}, "--"),
        fuzzy=args.fuzzy_match,
        overflow=args.overflow_check,
        short_stacks=not args.complete_stack,
        is_old=True,
    )
    return conclude(draw_request(request))


def _sides(file: Path) -> tuple[Path, Path | None]:
    """The two paths of a compare.json; a relative one counts from where the command runs, else from beside the file."""
    contents = object_of(file, "npu_path, and bench_path for two")
    target = _path(file, contents, "npu_path")
    if target is None:
        raise UsageError(f"{file}: npu_path is missing; write the folder of the dump that is to be drawn")
    return target, _path(file, contents, "bench_path")


def _path(file: Path, contents: dict[str, Any], key: str) -> Path | None:
    value = contents.get(key)
    if value in (None, ""):
        return None
    if not isinstance(value, str):
        raise UsageError(f"{file}: {key} must be the path of a folder, as a text")
    path = user_path(value)
    return path if path.is_absolute() or path.exists() or not (file.parent / path).exists() else file.parent / path
