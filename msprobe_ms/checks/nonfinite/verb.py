"""Name the first call that created NaN or infinities from finite values.

  msprobe overflow-check DIR [-o OUTPUT]

DIR is a dump with statistics: the folder of a step with all its ranks, of a rank, or of a run, whose steps are then
searched in order. No other run is needed. Calls of different ranks are ordered by their collectives and messages. The
first calls are written to OUTPUT/anomaly_analyze_{nanoseconds}.json; the last line on standard output names the first.
Exit code: 0 everything is finite, 1 something is not finite or could not be judged, 2 the command was wrong or nothing
could be judged.
"""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import make_folder, replace_atomically
from msprobe.base.language import translated
from msprobe.base.log import logger, terminal_line
from msprobe.base.verdicts import total
from msprobe.options.declaration import option, positional
from msprobe.options.groups import AnswerFormat, ExitZero, Selection, WorkersOrZero, output_option
from msprobe.options.kinds import FLAG, PATH

if TYPE_CHECKING:
    from msprobe.base.phrase import Words
    from msprobe.checks.dumps import DumpFile

    from .finding import Answer

_OTHERS = 5
"""Further calls that are shown on standard output."""


@dataclass(frozen=True, kw_only=True)
class Options(Selection, WorkersOrZero, AnswerFormat, ExitZero):
    """The options of the command."""

    dump: Path | None = positional(
        PATH, "DIR", default=None, help="the dump: a step, a rank or a run", zh="dump：一个 step、一个 rank 或一次运行"
    )
    input_path: Path | None = option(PATH, "-i", "--input", metavar="DIR", help="the same as DIR", zh="与 DIR 相同")
    output: Path = output_option(default="./output", help="folder for the file", zh="文件所在的文件夹")
    statistics_only: bool = option(
        FLAG,
        "--statistics-only",
        default=False,
        help="do not read tensors whose recorded statistics are finite; faster for dumps of task tensor",
        zh="不读取统计量均为有限值的张量；对 task 为 tensor 的 dump 更快",
    )


def run(options: Options) -> int:
    """Search, write, print, and say with the exit code how it went."""
    root = options.dump or options.input_path
    if root is None or (options.dump and options.input_path):
        raise UsageError(
            translated(
                "one dump is needed: msprobe overflow-check DIR, or -i DIR",
                "需要一份 dump：msprobe overflow-check DIR，或 -i DIR",
            )
        )
    from msprobe.checks.dumps import dumps_of  # here: the help of the command is there before numpy is

    from .report import answer_of, details
    from .search import search

    files = dumps_of(root, steps=options.steps, ranks=options.ranks, with_empty=True)
    answers = list(search(files, options.workers or 0, reads_tensors=not options.statistics_only))
    verdicts = total(answer.verdicts for answer in answers)
    if not verdicts.judged:
        raise DumpError(nothing_judged(files, answers))
    last = answers[-1]
    path = _write(last, options.output) if last.first else None
    answer, exit_code = answer_of(answers), verdicts.exit_code_of(options.exit_zero)
    if options.is_json:
        from msprobe.findings.document import Document, printed  # here, as above

        written: dict[str, Path] = {} if path is None else {"calls": path}
        printed(Document("overflow-check", answer, verdicts, exit_code, files=written, details=details(answers)))
    else:
        for line in (*_page(answers, path), answer.line):
            print(terminal_line(line))
    return exit_code


def nothing_judged(files: "Sequence[DumpFile]", answers: "Sequence[Answer]") -> str:
    """Why nothing could be judged, by the first dump."""
    path, why = str(files[0].path), answers[0].unjudged[0][1]
    return why if why.startswith(path) else f"{path}: {why}"


def _write(answer: "Answer", folder: Path) -> Path:
    """Write the calls that come first, as msprobe 26 does."""
    from .report import facts

    ranks: dict[str, list[object]] = {}
    for origin in answer.first:
        node = origin.node
        assert node is not None  # an origin that was found in a dump has its values
        entry: dict[str, object] = {
            "op_name": node.name,
            "data_info": dict(node.data_info),
            "construct_info": list(node.construct_info),
            "stack_info": list(node.stack_info),
            **facts(origin),
        }
        ranks.setdefault(f"rank_{origin.rank}", []).append(entry)
    path = folder / f"anomaly_analyze_{time.time_ns()}.json"
    try:
        make_folder(folder)
        with replace_atomically(path) as file:
            file.write(json.dumps(ranks, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    except OSError as err:
        raise UsageError(f"{folder}: cannot be written to ({err.strerror}); give another folder with -o") from err
    return path


def _page(answers: Sequence["Answer"], path: Path | None) -> Iterable["Words"]:
    from .wording import full, notes

    last = answers[-1]
    yield from notes(answers)
    for origin in last.first[1:]:
        yield f"independent of the first, at the same place: {full(origin)}"
    for origin in last.others[:_OTHERS]:
        yield f"later: {full(origin)}"
    if len(last.others) > _OTHERS:
        yield f"later: {len(last.others) - _OTHERS} more"
    if path is not None:
        logger.info("written to %s", path)
        yield f"written to {path}"
    elif not last.first:
        logger.info("nothing is written, for nothing was found that is not finite")
