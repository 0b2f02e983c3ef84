"""Turn the files of MindSpore's own kernel dump into a dump that `msprobe compare` reads.

  msprobe gather RAW -o OUT [--step 0,2-4] [--rank 0] [--task statistics] [--workers N]

RAW is the dump_path of a kernel dump (MINDSPORE_DUMP_CONFIG), or a rank's folder in it. Every iteration becomes
OUT/step{n}/rank{r}, with the kernels in the order in which they ran and the line of source of each. RAW is not changed;
its tensors are linked, or copied where the file system cannot link. Neither MindSpore nor PyTorch is needed.

Exit code 0: everything is there. 1: gathered, and something is missing, or the settings name a kernel that was not
dumped. 2: the command was wrong, or RAW holds no kernel dump.
"""

import argparse
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.log import visible
from msprobe.base.scope import numbers_of


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("raw", metavar="RAW", help="the dump_path of a kernel dump, or the folder of one rank")
    parser.add_argument("-o", "--output_path", metavar="OUT", required=True, help="where step{n}/rank{r} is written")
    parser.add_argument("--step", metavar="N,..", help="these iterations only, such as 0,2-4")
    parser.add_argument("--rank", metavar="N,..", help="these ranks only, such as 0-3")
    parser.add_argument(
        "--task",
        choices=("tensor", "statistics"),
        help="statistics: measure the tensors, and leave them where they are; default: the task of the debugger that "
        "made the dump, tensor where none did",
    )
    parser.add_argument("--workers", metavar="N", type=int, help="read so many files at once; default: all processors")


def run(args: argparse.Namespace) -> int:
    """Gather what the arguments name; a line for each dump goes to standard output."""
    from .run import gather_all  # here: the help needs no numpy

    if args.workers is not None and args.workers < 1:
        raise UsageError("--workers must be 1 or more")
    report = gather_all(
        Path(args.raw),
        Path(args.output_path),
        steps=() if args.step is None else numbers_of("--step", args.step),
        ranks=() if args.rank is None else numbers_of("--rank", args.rank),
        with_tensors=None if args.task is None else args.task == "tensor",
        workers=args.workers,
    )
    for line in report.lines:
        print(visible(line))
    return 1 if report.is_lacking else 0
