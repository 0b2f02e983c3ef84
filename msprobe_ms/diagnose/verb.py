"""Find out where two runs part, why that is known, and what to collect next.

  msprobe diagnose A B [--write-config next.json]

A is under suspicion, B is trusted. Each is what `msprobe compare` takes (a dump, the folder of a rank, of a step or of
a run), what a monitor or grad_probe wrote, a checkpoint, a pack of a configuration, or a folder with any of these in
it. A file that `msprobe bundle` wrote has both sides. What belongs together on both sides is compared, the coarsest
first: monitors tell the step, dumps the call.

One page goes to standard output: the answer, its evidence, what was ruled out and how surely, what was not recorded,
and, where the records do not suffice, a configuration for the next collection. For the same dumps the answer is that
of `msprobe compare`. Exit code: 0 nothing differs, 1 something differs or could not be compared, 2 the command was
wrong or nothing could be read.
"""

import argparse
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msprobe.base.errors import UsageError
from msprobe.base.files import creating, make_folder
from msprobe.base.log import logger, visible
from msprobe.base.scope import numbers_of
from msprobe.compare.core.user_limits import add_options as add_user_limits
from msprobe.compare.core.user_limits import limits_of_arguments
from msprobe.compare.request import Request, check_workers
from msprobe.mapping.user_files import OPTIONS, user_mapping
from msprobe.store.detect import bundle_of

if TYPE_CHECKING:
    from .diagnosis import NextCollection


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    sides = parser.add_argument_group("what is compared")
    sides.add_argument("target", metavar="A", help="the run under suspicion: a dump, a monitor, or a folder of these")
    sides.add_argument("golden", metavar="B", nargs="?", help="the run that is trusted, in the same form")
    sides.add_argument("--rank", metavar="N,..", help="only these ranks, as in 0-3 or 0,2,5-7")
    sides.add_argument("--step", metavar="N,..", help="only these steps, in the same form")
    how = parser.add_argument_group("how it is compared")
    file: dict[str, Any] = {"metavar": "FILE", "nargs": "?", "const": True}
    how.add_argument("-am", "--api_mapping", **file, help="functions and their arguments, as of msprobe compare")
    how.add_argument("-cm", "--cell_mapping", **file, help="cells, as of msprobe compare")
    how.add_argument("-lm", "--layer_mapping", **file, help="layers, as of msprobe compare")
    how.add_argument("-dm", "--data_mapping", metavar="FILE", help="single rows, as of msprobe compare")
    add_user_limits(how)
    how.add_argument("--workers", type=int, metavar="N", help="processes that share the work, default one per core")
    report = parser.add_argument_group("where the answer goes")
    report.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    report.add_argument(
        "--write-config", metavar="FILE", help="write the next collection's configuration there; the name ends in .json"
    )
    report.add_argument(
        "-o",
        "--output_path",
        metavar="DIR",
        help="keep the tables of the comparisons there; default: not kept",
    )
    report.add_argument("--exit-zero", action="store_true", help="exit with 0 also where something differs")


def run(args: argparse.Namespace) -> int:
    """Diagnose, print the page, and say with the exit code how it went."""
    if (file := bundle_of([args.target, args.golden])) is None:
        if args.golden is None:
            raise UsageError(f"{args.target}: the trusted run is missing; give both: msprobe diagnose A B")
        return _diagnose(args)
    from msprobe.store.bundle import unpacked

    with unpacked(file) as bundle:
        args.target, args.golden = str(bundle.target), str(bundle.golden)
        bundle.fill(args)
        return _diagnose(args)


def _diagnose(args: argparse.Namespace) -> int:
    check_workers(args.workers, None)
    config = Path(args.write_config) if args.write_config else None
    for path in (config, _golden(config)) if config is not None else ():
        # Refused before anything is compared.
        if path.suffix != ".json":
            raise UsageError(
                f"--write-config {path}: PrecisionDebugger reads files whose name ends in .json; rename it"
            )
        if os.path.lexists(path):
            raise UsageError(f"--write-config {path}: is there already; give another file, or remove it")
    from .page import as_object, page  # here: the help of the command is there before numpy is
    from .walk import diagnose

    with TemporaryDirectory(prefix="msprobe-diagnose-") as temporary:
        found = diagnose(_request(args, Path(args.output_path or temporary)))
    files = _write(found.next, config) if config is not None else []
    if args.format == "json":
        print(json.dumps(as_object(found), ensure_ascii=False, indent=1))
    else:
        print("\n".join(page(found, files)))
    return found.verdicts.exit_code_of(args.exit_zero)


def _request(args: argparse.Namespace, output: Path) -> Request:
    ranks, steps = (numbers_of(f"--{n}", v) if (v := getattr(args, n)) is not None else None for n in ("rank", "step"))
    return Request(
        target=Path(args.target),
        golden=Path(args.golden),
        output=output.absolute(),
        format="xlsx" if args.output_path else "csv",
        with_stack=False,
        ranks=ranks,
        steps=steps,
        mapping=user_mapping({option: getattr(args, option) for option in OPTIONS}, "--"),
        workers=args.workers,
        resume=bool(args.output_path),
        user_limits=limits_of_arguments(args),
    )


def _golden(config: Path) -> Path:
    """Where the golden's configuration goes, where it is another."""
    return config.with_name(f"{config.stem}_golden{config.suffix}")


def _write(found: "NextCollection | None", config: Path) -> list[str]:
    """Write the configuration of each side; gives the files."""
    if found is None:
        logger.info("%s: not written, for no further collection is needed", visible(str(config)))
        return []
    from .page import shown  # here, as above

    wanted = [(config, found.of(found.sides[0]))]
    if not found.is_one:
        wanted.append((_golden(config), found.golden))
    for path, configuration in wanted:
        try:
            make_folder(path.parent)
            with creating(path) as file:
                file.write("\n".join(shown(configuration)).encode() + b"\n")
        except OSError as err:
            raise UsageError(f"--write-config {path}: cannot be written ({err.strerror}); give another file") from err
    return [str(path) for path, _ in wanted]
