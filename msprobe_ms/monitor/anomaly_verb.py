"""List the earliest anomalies that the alerts of a monitor wrote.

  msprobe monitor anomalies -d DIR [-o OUT] [-k 8] [-s 3,5-7]

DIR is the folder anomaly_detected of a monitor's output, or that output. The anomalies of all ranks are ordered by
step, micro step, stage of the step (forward, backward, optimizer), and place in the model. The earliest are printed,
and written to anomaly_analyse.json with all their fields. Exit code: 0 without anomalies, 1 with anomalies, 2 the
command was wrong or nothing could be read.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.checks import quoted
from msprobe.base.errors import MsprobeError, SettingsError
from msprobe.base.files import make_root, writing
from msprobe.base.log import terminal_line
from msprobe.base.scope import parse_number_list
from msprobe.options.declaration import option
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import NUMBERS, PATH, whole
from msprobe.options.parser import parsed

if TYPE_CHECKING:
    from msprobe.findings.finding import Answer

    from .anomalies import Entry


def _checked(value: object) -> frozenset[int]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise SettingsError(f"{quoted(value)} is not a list of steps; write a list such as [3, 4], or [] for all")
    return frozenset(value)


def _steps(text: str) -> frozenset[int]:
    """Read steps as all commands do, or as the list of mindstudio-probe."""
    if not text.startswith("["):
        return frozenset(parse_number_list(text))
    try:
        return _checked(json.loads(text))
    except (ValueError, RecursionError):
        raise SettingsError(f'{text}: is not a list of steps; write a list such as "[3,4]", or "[]" for all') from None


_STEPS = NUMBERS._replace(check=_checked, read=_steps)


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    data_path: Path = option(
        PATH,
        "-d",
        "--data",
        metavar="DIR",
        required=True,
        help="the folder that contains the folders of the ranks",
        zh="包含各 rank 文件夹的文件夹",
    )
    output: Path | None = output_option(
        metavar="OUT",
        help="folder for anomaly_analyse.json; default: DIR",
        zh="anomaly_analyse.json 所在的文件夹；默认：DIR",
    )
    topk: int = option(
        whole(1), "-k", "--top", metavar="K", default=8, help="number of anomalies to list", zh="列出的异常个数"
    )
    steps: frozenset[int] = option(
        _STEPS,
        "-s",
        "--steps",
        default=frozenset(),
        help="only these steps, for example 0-3 or 0,2,5-7; default: all",
        zh="只看这些 step，例如 0-3 或 0,2,5-7；默认：全部",
    )


def run(options: Options) -> int:
    """List and write the earliest anomalies, and return the exit code."""
    from .anomalies import (
        ANALYSIS,
        earliest,
        read_anomalies,
        write_analysis,
    )  # here, because the help does not import numpy

    folder = options.data_path
    every = read_anomalies(folder)
    found = earliest(every, options.topk, options.steps)
    out = options.output or folder
    make_root(out, "-o")
    with writing(out / ANALYSIS):
        write_analysis(out / ANALYSIS, found)
    line = f"{len(found)} of {len(every)} anomalies; {out / ANALYSIS}"
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.document import Document, printed

        document = Document(
            "monitor anomalies",
            answer_of(found, line),
            Verdicts(wrong=len(found)),
            int(bool(found)),
            files={"anomalies": out / ANALYSIS},
            details={"anomalies": len(every), "listed": len(found)},
        )
        printed(document)
        return int(bool(found))
    for each in found:
        print(terminal_line(each.message or each.key))
    print(terminal_line(line))
    return int(bool(found))


def answer_of(found: "Sequence[Entry]", line: str) -> "Answer":
    """Return the answer: the earliest anomalies, the first of them as the cause."""
    from msprobe.findings.catalogue.monitor import ANOMALY
    from msprobe.findings.finding import Answer, Finding, Place

    findings = []
    for each in found:
        rank = each.fields.get("rank")
        name = str(each.fields.get("tag_name"))
        place = Place(name, step=each.step, rank=rank if isinstance(rank, int) else None, micro_step=each.micro_step)
        findings.append(Finding(ANOMALY, place, each.message or each.key, fields=each.fields))
    state = "differs" if findings else "clean"
    return Answer(state, line, findings[0] if findings else None, tuple(findings[1:]))


def main(prog: str) -> int:
    """Run the command line of a module that `prog` names, as in `python -m MODULE`; gives the exit code."""
    try:
        return run(parsed(prog, Options, sys.argv[1:], __doc__ or "", "monitor anomalies"))
    except MsprobeError as err:
        print(f"{prog}: {err}", file=sys.stderr)
        return 2
