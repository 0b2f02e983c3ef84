"""Pack two dumps and the answer of their comparison into one file, to report a wrong verdict.

  msprobe bundle A B [-o bundle.zip]

A is under suspicion, B is trusted; both are what `msprobe compare` takes, with the same options. The file holds calls,
statistics, structure, call stacks, the options, the versions and what `msprobe compare` answers; tensors only with
--tensors. Secrets, folders, users and hosts are replaced (--anonymous: texts and source code, too). Whoever receives it
runs `msprobe compare bundle.zip`, and also `report` and `diagnose`. The command does so as well, and its last line
tells whether the verdicts are the same. Exit code: 0 they are, 1 they differ or something is left out, 2 nothing was
written.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.base.errors import UsageError
from msprobe.base.files import refuse_existing
from msprobe.base.log import few, visible
from msprobe.compare import verb as compare
from msprobe.store.bundle import STORED, SUFFIX

if TYPE_CHECKING:
    from msprobe.compare.request import Request

    from .pack import Made

FILE = "msprobe_bundle.zip"

_LISTED = 8
_UNITS = ("bytes", "KiB", "MiB", "GiB")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options. Those of the comparison are the options of `msprobe compare`."""
    parser.add_argument("target", metavar="A", help="the dump under suspicion")
    parser.add_argument("golden", metavar="B", help="the dump that is trusted")
    packed = parser.add_argument_group("what is packed")
    packed.add_argument(
        "-o", "--output", metavar="FILE", default=FILE, help=f"the file, which must not exist; default: {FILE}"
    )
    packed.add_argument(
        "--tensors", action="store_true", help="pack the tensors, too; else only their statistics are compared"
    )
    packed.add_argument(
        "--scramble",
        action="store_true",
        help="with --tensors: permute the elements, in the same way on both sides; their values remain",
    )
    packed.add_argument(
        "--anonymous",
        action="store_true",
        help="replace texts among the arguments by numbers, and leave out the source code in call stacks",
    )
    packed.add_argument(
        "--dry-run", action="store_true", help="print the entries that the file would have, and write nothing"
    )
    how = parser.add_argument_group("how it is compared, as of msprobe compare")
    for action in _of_compare()._actions:
        if action.dest in (*STORED, "workers"):
            how._add_action(action)


def _of_compare() -> argparse.ArgumentParser:
    """Return the parser of `msprobe compare`."""
    made = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    compare.add(made)
    return made


def run(args: argparse.Namespace) -> int:
    """Pack, and print what was packed and whether it gives the same verdicts."""
    output = Path(args.output)
    if output.suffix.lower() != SUFFIX:
        raise UsageError(f"-o {output}: a bundle ends in {SUFFIX}; add it")
    if args.scramble and not args.tensors:
        raise UsageError("--scramble is for tensors; give --tensors too, or leave it out")
    if not args.dry_run:
        refuse_existing(output, "give another file with -o")
    options = {name: value for name in STORED if (value := getattr(args, name)) not in (None, False)}

    def request_of(target: Path, golden: Path, chosen: Mapping[str, Any]) -> "Request":
        command = _of_compare().parse_args([])
        for name, value in {**chosen, "workers": args.workers}.items():
            setattr(command, name, value)
        command.target_path, command.golden_path = str(target), str(golden)
        return compare.request_of(command)

    from .pack import Wanted, make_bundle  # here: the help of the command is there before numpy is

    tensors = "scrambled" if args.scramble else "original" if args.tensors else "none"
    wanted = Wanted(Path(args.target), Path(args.golden), options, request_of, tensors, args.anonymous)
    made = make_bundle(wanted, None if args.dry_run else output)
    for line in _lines(made, output, args.dry_run):
        print(visible(line))
    return 0 if made.is_faithful else 1


def _lines(made: "Made", output: Path, is_dry: bool) -> list[str]:
    if is_dry:
        written = [f"{name}: {_size(size)}" for name, size in made.entries.items()]
        written.append("nothing was written (--dry-run)")
    else:
        tensors = (
            f"{made.tensors} tensors"
            if made.tensors
            else f"without {made.skipped} tensors"
            if made.skipped
            else "no tensors"
        )
        written = [f"{output}: {_size(made.size)}, {len(made.entries)} entries, {tensors}"]
    answered = made.answer.failure or (made.answer.lines[-1] if made.answer.lines else "nothing")
    lines = [*written, f"the answer of msprobe compare: exit code {made.answer.exit_code}, {answered}"]
    replaced = ", ".join(f"{number} {kind}" for kind, number in sorted(made.replaced.items())) or "nothing"
    lines.append(f"replaced: {replaced}")
    if made.left_out:
        lines.append(f"left out: {few([f'{name}: {why}' for name, why in made.left_out.items()], _LISTED)}")
    if made.differ:
        hint = f"; add --tensors for the {made.skipped} tensors that are left out" if made.skipped else ""
        return [
            *lines,
            f"the bundle gives other verdicts than the dumps in {made.differ} places, of {made.pairs} pairs{hint}",
        ]
    ending = f"; {len(made.left_out)} left out" if made.left_out else ""
    return [*lines, f"the bundle gives the verdicts of the dumps: {made.pairs} pairs{ending}"]


def _size(size: int) -> str:
    number, unit = float(size), 0
    while number >= 1024 and unit + 1 < len(_UNITS):
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} {_UNITS[0]}"
