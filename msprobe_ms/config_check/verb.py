"""Pack the configuration of a run, compare two packs, or compare two checkpoints.

  msprobe config_check -d [train.sh config.yaml ...] [-o pack.zip]     pack
  msprobe config_check -d [train.sh config.yaml ...] --dry-run         print what a pack would hold
  msprobe config_check -c bench.zip cmp.zip [-o DIR]                   compare two packs
  msprobe config_check -c A B [-o FILE] [-dm names.yaml] [--standard NAME]   compare two checkpoints

Packed are the environment, the packages, and the settings in scripts and yaml files, without secrets; `ConfigChecker`
(from msprobe.core.config_check) packs inputs, weights, random calls and the framework's settings of a training as well.
The comparison of packs writes DIR/result.xlsx, one sheet for each checker.

Of checkpoints A is under suspicion, B is trusted. Each is a .ckpt of MindSpore, a .safetensors, a .pt, .pth or .bin of
PyTorch, or a folder: shards with their index, rank_0, rank_1, ..., or a layout of Megatron-LM.

What differs that matters is on standard output, the most important thing in the last line. Exit code 0: everything was
compared and passes. 1: something differs, or could not be compared. 2: the command was wrong, or a side cannot be read.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NoReturn

from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder, refuse_existing, writing
from msprobe.base.log import visible
from msprobe.compare.core.standard import ACCEPTANCES, DTYPE
from msprobe.store import config_pack

PACK = "./config_check_pack.zip"
RESULT = "./config_check_result"
ANOTHER = "give another file with -o"

REFUSED = (("-vc", "--verl-compare"), ("-vv", "--verl-verify"), ("-sc", "--slime-compare"))
"""Flags of msprobe 26 that ask for what is not there."""

_LISTED = 20  # redacted places that are printed for each entry

_NOT_BUILT = "logs of other trainers are not compared; pack both runs with -d, and compare the packs with -c"


class _Refused(argparse.Action):
    """A flag of msprobe 26 that is known and not there."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        parser.error(f"{'/'.join(self.option_strings)}: {_NOT_BUILT}")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "-d", "--dump", nargs="*", metavar="FILE", help="pack; shell scripts and yaml files with the run's settings"
    )
    what.add_argument("-c", "--compare", nargs=2, metavar=("A", "B"), help="compare two packs, or two checkpoints")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help=f"default: {PACK} of -d, {RESULT} of two packs, ./ckpt_similarity.json of two checkpoints",
    )
    parser.add_argument(
        "-dm",
        "--data_mapping",
        metavar="YAML",
        help="names and layouts of parameters of checkpoints, or of all below a path, as in `backbone.layers: model.h`",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with -d: print what the pack would hold, and write nothing"
    )
    parser.add_argument(
        "--standard",
        choices=(DTYPE, *ACCEPTANCES),
        help="limits for checkpoints: dtype (default), for equal weights; msprobe, for weights after many steps: "
        "cosine at least 0.99, l2 below 1",
    )
    parser.add_argument("--top", type=int, default=10, metavar="N", help="name at most N of the worst, default 10")
    for flags in REFUSED:
        parser.add_argument(*flags, nargs="*", action=_Refused, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Pack, or compare; print the answer."""
    if args.top < 0:
        raise UsageError("--top must not be negative")
    if args.dump is not None:
        _refuse_mapping(args, "-d")
        return _pack([Path(path) for path in args.dump], Path(args.output or PACK), args.dry_run)
    if args.dry_run:
        raise UsageError("--dry-run is for packing; give it with -d")
    if not args.compare:
        raise UsageError("give -d [FILE ...] to pack, or --compare A B to compare two packs or two checkpoints")
    zips = [path.lower().endswith(".zip") for path in args.compare]
    if any(zips):
        if not all(zips):
            raise UsageError("--compare takes two packs (.zip), or two checkpoints; one of each cannot be compared")
        _refuse_mapping(args, "of two packs")
        bench, cmp = map(Path, args.compare)
        return _compare_packs(bench, cmp, Path(args.output or RESULT), args.top)
    from msprobe.compare.checkpoint import verb  # here: the help of the command is there before numpy is

    return verb.run(args)


def _refuse_mapping(args: argparse.Namespace, where: str) -> None:
    for option, value in (("--data_mapping", args.data_mapping), ("--standard", args.standard)):
        if value:
            raise UsageError(f"{option} is of two checkpoints and says nothing {where}; leave it out")


def _pack(scripts: list[Path], output: Path, dry_run: bool) -> int:
    if output.suffix != ".zip":
        raise UsageError(f"{output}: a pack must end in .zip")
    if not dry_run:
        refuse_existing(output, ANOTHER)
    from msprobe.base.redaction import Redactor

    from .pack_writer import write_zip
    from .static import entries, of_scripts

    redactor = Redactor()
    found = entries(of_scripts(scripts, redactor), redactor)
    if dry_run:
        for name, content in found.items():
            print(f"{name}:")
            for line in content.decode("utf-8", "replace").splitlines():
                print(visible(f"  {line}"))
    else:
        with writing(output, ANOTHER):
            make_folder(output.parent)
            write_zip(output, found)
    redacted = json.loads(found[config_pack.ABOUT])[config_pack.REDACTED]
    for entry, places in redacted.items():
        more = f" and {len(places) - _LISTED} more, which pack.json lists" if len(places) > _LISTED else ""
        print(visible(f"redacted in {entry}: {', '.join(places[:_LISTED])}{more}"))
    written = f"packed {', '.join(found)}: {output}"
    print(visible("nothing was written (--dry-run)" if dry_run else written))
    return 0


def _compare_packs(bench: Path, cmp: Path, output: Path, top: int) -> int:
    from msprobe.compare.config_check.compare import compare_packs
    from msprobe.compare.config_check.wording import lines

    compared = compare_packs(bench, cmp, output)
    print(visible(f"every row: {compared.result}"))
    for line in lines(compared, top):
        print(visible(line))
    return compared.verdicts.exit_code
