"""Pack two dumps and the result of their comparison into one file, to report a wrong verdict.

  msprobe bundle A B [-o bundle.zip]

A is under suspicion, B is trusted; both are inputs of `msprobe compare`, and the same options apply. The file contains
calls, statistics, structure, call stacks, the options, the versions and the output of `msprobe compare`; tensors only
with --tensors. Secrets, folders, users and hosts are replaced (with --anonymous also texts and source code). The
receiver runs `msprobe compare bundle.zip`, `report` or `diagnose`. The new file is verified in the same way, and the
last line reports whether its verdicts are the same. Exit code: 0 they are, 1 they differ or something is left out, 2
nothing was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.base.errors import UsageError
from msprobe.base.files import refuse_existing
from msprobe.base.language import translated
from msprobe.base.log import join_names, terminal_line
from msprobe.base.verdicts import Verdicts
from msprobe.compare import verb as compare
from msprobe.compare.core.layouts import LayoutOptions
from msprobe.compare.core.user_limits import UserLimitOptions
from msprobe.compare.request import CompareOptions, NoiseThreshold
from msprobe.findings.catalogue.bundles import OTHER_VERDICTS
from msprobe.findings.document import Document, printed
from msprobe.findings.finding import Answer, Finding, Place
from msprobe.options.declaration import OUTPUT, option, positional
from msprobe.options.groups import Fuzzy, JsonAnswer, Mappings, Selection, Workers, output_option
from msprobe.options.kinds import FLAG, PATH
from msprobe.store.bundle import SUFFIX, stored_of, with_stored

if TYPE_CHECKING:
    from msprobe.compare.request import Request

    from .pack import Made

FILE = "msprobe_bundle.zip"

_LISTED = 8
_UNITS = ("bytes", "KiB", "MiB", "GiB")


@dataclass(frozen=True, kw_only=True)
class Options(Selection, Fuzzy, NoiseThreshold, UserLimitOptions, Mappings, LayoutOptions, Workers, JsonAnswer):
    """The options of the command; those of the comparison are options of `msprobe compare`."""

    target: Path = positional(PATH, "A", help="the dump under suspicion", zh="待定位的 dump")
    golden: Path = positional(PATH, "B", help="the trusted dump", zh="标杆 dump")
    output: Path = output_option(
        metavar="FILE", default=FILE, help="the file, which must not exist", zh="输出文件，不能已存在"
    )
    tensors: bool = option(
        FLAG,
        "--tensors",
        default=False,
        role=OUTPUT,
        help="also pack the tensors; by default only their statistics are packed",
        zh="同时打包张量；否则只比对统计量",
    )
    scramble: bool = option(
        FLAG,
        "--scramble",
        default=False,
        role=OUTPUT,
        help="with --tensors: permute the elements in the same way on both sides; the values are kept",
        zh="与 --tensors 一起使用：以相同方式打乱两侧的元素，数值不变",
    )
    anonymous: bool = option(
        FLAG,
        "--anonymous",
        default=False,
        role=OUTPUT,
        help="replace text arguments with numbers, and omit the source code in call stacks",
        zh="把参数中的文本替换为编号，并去掉调用栈中的源码",
    )
    dry_run: bool = option(
        FLAG,
        "--dry-run",
        default=False,
        role=OUTPUT,
        help="print the entries of the file without writing it",
        zh="打印文件将包含的条目，不写文件",
    )


def run(options: Options) -> int:
    """Pack, and print what was packed and whether it gives the same verdicts."""
    output = options.output
    if output.suffix.lower() != SUFFIX:
        raise UsageError(
            translated(
                f"-o {output}: the name of a bundle must end in {SUFFIX}; add it",
                f"-o {output}：bundle 的文件名以 {SUFFIX} 结尾；请加上",
            )
        )
    if options.scramble and not options.tensors:
        raise UsageError(
            translated(
                "--scramble requires --tensors; add it, or omit --scramble",
                "--scramble 针对张量；请同时给出 --tensors，或去掉它",
            )
        )
    if not options.dry_run:
        refuse_existing(output, "give another file with -o")

    def request_of(target: Path, golden: Path, chosen: Mapping[str, Any]) -> "Request":
        command = CompareOptions(target=target, golden=golden, workers=options.workers)
        return compare.request_of(with_stored(command, chosen))

    from .pack import Wanted, make_bundle  # here: the help of the command is there before numpy is

    tensors = "scrambled" if options.scramble else "original" if options.tensors else "none"
    wanted = Wanted(options.target, options.golden, stored_of(options), request_of, tensors, options.anonymous)
    made = make_bundle(wanted, None if options.dry_run else output)
    exit_code = 0 if made.is_faithful else 1
    *before, line = _lines(made, output, options.dry_run)
    if options.is_json:
        printed(_document(made, line, exit_code, {} if options.dry_run else {"bundle": output}))
        return exit_code
    for text in (*before, line):
        print(terminal_line(text))
    return exit_code


def _document(made: "Made", line: str, exit_code: int, files: Mapping[str, Path]) -> Document:
    finding = None
    if made.differ:
        fields = {"differ": made.differ, "pairs": made.pairs, "tensors_left_out": made.skipped}
        finding = Finding(OTHER_VERDICTS, Place("the bundle"), line, fields=fields)
    state = "differs" if finding is not None else "unjudged" if exit_code else "clean"
    notes = tuple(f"left out: {name}: {why}" for name, why in made.left_out.items())
    details = {
        "compare": {
            "exit_code": made.answer.exit_code,
            "lines": list(made.answer.lines),
            "failure": made.answer.failure or None,
        },
        "entries": made.entries,
        "replaced": made.replaced,
        "tensors": made.tensors,
        "tensors_left_out": made.skipped,
    }
    verdicts = Verdicts(max(made.pairs - made.differ, 0), made.differ)
    return Document("bundle", Answer(state, line, finding, notes=notes), verdicts, exit_code, {}, files, details)


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
    lines = [*written, f"the result of msprobe compare: exit code {made.answer.exit_code}, {answered}"]
    replaced = ", ".join(f"{number} {kind}" for kind, number in sorted(made.replaced.items())) or "nothing"
    lines.append(f"replaced: {replaced}")
    if made.left_out:
        lines.append(f"omitted: {join_names([f'{name}: {why}' for name, why in made.left_out.items()], _LISTED)}")
    if made.differ:
        hint = f"; add --tensors to include the {made.skipped} omitted tensors" if made.skipped else ""
        return [
            *lines,
            f"the verdicts of the bundle differ from those of the dumps for {made.differ} of {made.pairs} pairs{hint}",
        ]
    ending = f"; {len(made.left_out)} omitted" if made.left_out else ""
    return [*lines, f"the verdicts of the bundle equal those of the dumps: {made.pairs} pairs{ending}"]


def _size(size: int) -> str:
    number, unit = float(size), 0
    while number >= 1024 and unit + 1 < len(_UNITS):
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} {_UNITS[0]}"
