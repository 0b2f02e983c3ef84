"""Write the graph of one or two dumps as JSON, as msprobe 8.1 does; graph-visualize writes the newer database.

  msprobe -f mindspore graph -i compare.json -o OUT

compare.json gives both sides: {"npu_path": "TARGET", "bench_path": "GOLDEN"}; without bench_path there is one graph.
One file is written for each rank of each step: OUT/build_{time}.vis or OUT/compare_{time}.vis. Exit code: 0 written, 1
written, and a folder has no dump or no counterpart, 2 the command was wrong or a dump cannot be drawn.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import user_path
from msprobe.compare.request import object_of
from msprobe.mapping.user_files import user_mapping
from msprobe.options.declaration import option
from msprobe.options.groups import Fuzzy
from msprobe.options.kinds import FLAG, PATH

from .verb import DrawingOptions, conclude


@dataclass(frozen=True, kw_only=True)
class Options(DrawingOptions, Fuzzy):
    """The options of the command."""

    input_path: Path = option(
        PATH,
        "-i",
        "--input",
        metavar="FILE",
        required=True,
        help="compare.json, which gives both sides",
        zh="给出两侧路径的 compare.json",
    )
    complete_stack: bool = option(
        FLAG,
        "-cs",
        "--complete-stack",
        default=False,
        help="write complete call stacks instead of only the line of the call",
        zh="写出完整的调用栈，而不只是调用所在的行",
    )


def run(options: Options) -> int:
    """Draw, and print the paths of the files."""
    target, golden = _sides(options.input_path)
    from .draw import Request, draw_request  # here: the help of the command does not need numpy

    request = Request(
        target=target,
        golden=golden,
        output=options.output,
        mapping=user_mapping({"layer_mapping": options.layer_mapping}, "--"),
        fuzzy=options.fuzzy,
        overflow=options.overflow_check,
        short_stacks=not options.complete_stack,
        is_old=True,
    )
    return conclude(draw_request(request))


def _sides(file: Path) -> tuple[Path, Path | None]:
    """Return the two paths of a compare.json; a relative one is relative to the working directory, otherwise to the
    folder of the file."""
    contents = object_of(file, "npu_path, and bench_path for two")
    target = _path(file, contents, "npu_path")
    if target is None:
        raise UsageError(f"{file}: npu_path is missing; write the folder of the dump to draw")
    return target, _path(file, contents, "bench_path")


def _path(file: Path, contents: dict[str, Any], key: str) -> Path | None:
    value = contents.get(key)
    if value in (None, ""):
        return None
    if not isinstance(value, str):
        raise UsageError(f"{file}: {key} must be the path of a folder, as a string")
    path = user_path(value)
    return path if path.is_absolute() or path.exists() or not (file.parent / path).exists() else file.parent / path
