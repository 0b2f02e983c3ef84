"""Compare two checkpoints, parameter by parameter.

  msprobe config_check --compare A B [-o ckpt_similarity.json] [-dm names.yaml]

A is under suspicion, B is trusted. Each is a .ckpt of MindSpore, a .safetensors, a .pt, .pth or .bin of PyTorch, or a
folder: shards with their index, rank_0, rank_1, ..., or a layout of Megatron-LM. A model of MindSpore and its original
in PyTorch are compared through the names and layouts of their layers.

The answer is a JSON object with l2, cos, numel, shape and the verdict of each parameter; the worst are on standard
output. Exit code 0: every parameter is on both sides and passes. 1: something differs, or stands on one side only. 2:
the command was wrong, or a side cannot be read.
"""

import argparse
from pathlib import Path
from typing import Any, NoReturn

from msprobe.base.errors import UsageError
from msprobe.base.files import refuse_existing
from msprobe.base.log import visible

NOT_BUILT = "collecting and comparing configurations is not in this version: give two checkpoints with --compare"

REFUSED = (("-d", "--dump"), ("-vc",), ("-vv",))
"""Flags of msprobe 8.1 and 26 that ask for it."""


class _Refused(argparse.Action):
    """A flag of msprobe 8.1 that is known and not there yet."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        parser.error(f"{'/'.join(self.option_strings)}: {NOT_BUILT}")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "-c", "--compare", nargs=2, metavar=("A", "B"), help="the checkpoint under suspicion, and the trusted one"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="./ckpt_similarity.json", help="default: ./ckpt_similarity.json"
    )
    parser.add_argument(
        "-dm",
        "--data_mapping",
        metavar="YAML",
        help="names and layouts of parameters, or of all below a path, as in `backbone.layers: model.h`",
    )
    parser.add_argument("--top", type=int, default=10, metavar="N", help="name at most N of the worst, default 10")
    for flags in REFUSED:
        parser.add_argument(*flags, nargs="*", action=_Refused, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Compare, write the answer, print the worst."""
    if not args.compare:
        raise UsageError(f"--compare A B is needed; {NOT_BUILT}")
    if any(path.endswith(".zip") for path in args.compare):
        raise UsageError(NOT_BUILT)
    if args.top < 0:
        raise UsageError("--top must not be negative")
    output = Path(args.output)
    from msprobe.mapping.user_files import read_data  # here: the help of the command is there before numpy is

    from .compare import ANOTHER, compare_checkpoints, write

    refuse_existing(output, ANOTHER)

    rules = read_data(Path(args.data_mapping)) if args.data_mapping else None
    target, golden = map(Path, args.compare)
    result = compare_checkpoints(target, golden, rules)
    write(result, output)
    for line in result.lines(args.top):
        print(visible(line))
    print(visible(f"every parameter: {output}"))
    return 0 if result.is_clean else 1
