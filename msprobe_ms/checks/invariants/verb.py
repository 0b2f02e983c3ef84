"""Check a run without a golden one: test what holds in every correct training.

  msprobe check DIR
  msprobe check RESUMED CONTINUED

DIR is a dump: a run with its steps and ranks, a step, or a rank. Each invariant holds, is violated, or could not be
judged, with the reason. With a second dump of the same steps, from the run that was not interrupted, the first is
checked to be its continuation. The last line on standard output names the first violation. Exit code: 0 nothing is
violated, 1 something is violated or could not be judged (values that are missing or unreadable, calls that cannot be
executed again, an invariant of --only), 2 the command was wrong or nothing could be judged.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.base.checks import nearest
from msprobe.base.errors import DumpError, UsageError
from msprobe.base.language import translated
from msprobe.base.log import join_names, logger, terminal_line
from msprobe.base.verdicts import Gap, Verdicts, total
from msprobe.options.declaration import option, positional
from msprobe.options.groups import AnswerFormat, ExitZero, Selection
from msprobe.options.kinds import PATH, TEXT

if TYPE_CHECKING:
    from msprobe.store.record import Dump

    from .judgement import Judgement, Run
    from .table import Invariant

_MAX_LISTED = 5
"""Violations of one invariant that are shown."""


@dataclass(frozen=True, kw_only=True)
class Options(Selection, AnswerFormat, ExitZero):
    """The options of the command."""

    dump: Path = positional(PATH, "DIR", help="the dump to check", zh="要检查的 dump")
    continued: Path | None = positional(
        PATH,
        "DIR2",
        default=None,
        help="the same steps of the run that was not interrupted",
        zh="未中断的那次运行的相同 step",
    )
    only: str = option(
        TEXT, "--only", metavar="NAME,..", default="", help="only these invariants", zh="只检查这些不变式"
    )
    skip: str = option(
        TEXT, "--skip", metavar="NAME,..", default="", help="all invariants except these", zh="除这些之外的所有不变式"
    )


def run(options: Options) -> int:
    """Check, print, and say with the exit code how it went."""
    from .table import ROWS

    names = [row.name for row in ROWS]
    only, skip = (_chosen(f"--{key}", getattr(options, key), names) for key in ("only", "skip"))
    rows = [row for row in ROWS if row.name not in skip and (row.name in only or not only)]
    this = read_run(options.dump, options.steps, options.ranks)
    other = read_run(options.continued, options.steps, options.ranks) if options.continued else None
    judged = [(row, list(row.predicate(this, other))) for row in rows]
    verdicts = total(Verdicts(gaps=run.gaps) for run in (this, other) if run) + verdicts_of(judged, only)
    from .report import answer_of, details

    answer, exit_code = answer_of(judged, verdicts), verdicts.exit_code_of(options.exit_zero)
    if options.is_json:
        from msprobe.findings.document import Document, printed

        printed(Document("check", answer, verdicts, exit_code, details=details(judged)))
    else:
        _print(judged)
        print(terminal_line(answer.line))
    return exit_code


def verdicts_of(judged: "list[tuple[Invariant, list[Judgement]]]", only: Collection[str] = ()) -> Verdicts:
    """The judgements counted, with the calls that could not be judged although the invariant applies to them.

    An invariant of `only` was asked for by its name, and so must have a verdict.
    """
    from .judgement import OPEN, OPEN_BY_NAME, Status

    counts = Counter(one.status for _, found in judged for one in found)
    gaps: Counter[Any] = Counter()
    for row, found in judged:
        is_named = row.name in only
        reasons = OPEN_BY_NAME if is_named else OPEN
        gaps.update(one.why for one in found if one.why in reasons)
        if is_named and not any(one.status is not Status.UNJUDGED or one.why in reasons for one in found):
            gaps[Gap.NO_VERDICT] += 1
    return Verdicts(counts[Status.HOLDS], counts[Status.VIOLATED], gaps)


def _chosen(option: str, text: str | None, names: list[str]) -> set[str]:
    chosen = set(filter(None, (text or "").split(",")))
    for name in chosen - set(names):
        near = nearest(name, tuple(names))
        hint = f"did you mean {near}?" if near else f"there are {join_names(names, 20)}"
        hint_zh = f"是否指 {near}？" if near else f"可选：{join_names(names, 20)}"
        raise UsageError(
            translated(f"{option}: there is no invariant {name!r}; {hint}", f"{option}：没有不变量 {name!r}；{hint_zh}")
        )
    return chosen


def read_run(path: Path, steps: object = None, ranks: object = None) -> "Run":
    """All dumps below a path that can be read; DumpError if none can."""
    from msprobe.checks.dumps import by_step, dumps_of
    from msprobe.checks.gaps import gaps_of
    from msprobe.store.reader import read

    from .judgement import Run

    files = dumps_of(path, steps=steps, ranks=ranks, with_empty=True)  # type: ignore[arg-type]  # numbers, or None
    steps_read: dict[int | None, dict[int, Dump]] = {}
    gaps: Counter[Gap] = Counter()
    refused: DumpError | None = None
    for step, found in by_step(files).items():
        for file in found:
            if file.is_empty:
                gaps[Gap.NO_DUMP] += 1
                continue
            try:
                dump = read(file.path)
            except DumpError as err:
                refused = refused or err
                logger.warning("%s", err)
                gaps[Gap.UNREADABLE_DUMP] += 1
            else:
                steps_read.setdefault(step, {})[file.rank] = dump
                gaps += gaps_of(dump)
    if refused is not None and not steps_read:
        raise refused
    return Run(steps_read, gaps)


def _print(judged: "list[tuple[Invariant, list[Judgement]]]") -> None:
    from .judgement import Status, Why
    from .report import sentence

    width = max((len(row.name) for row, _ in judged), default=0)
    for row, found in judged:
        counts = Counter(one.status for one in found)
        if counts[Status.VIOLATED]:
            text = f"VIOLATED in {counts[Status.VIOLATED]} of {len(found)}: {row.says}"
        elif counts[Status.HOLDS]:
            text = f"holds in {counts[Status.HOLDS]}"
            text += f", {counts[Status.UNJUDGED]} unjudged" if counts[Status.UNJUDGED] else ""
            if declared := [one.subject for one in found if one.why is Why.FROZEN]:
                text += f": {Why.FROZEN.value}: {join_names(declared)}"
        else:
            whys = Counter(one.why.value for one in found if one.why)
            text = f"unjudged: {whys.most_common(1)[0][0] if whys else 'the dump has nothing of the kind'}"
        print(f"{row.name:<{width}}  {terminal_line(text)}")
        wrong = [one for one in found if one.status is Status.VIOLATED]
        for one in wrong[:_MAX_LISTED]:
            print(f"{'':<{width}}    {terminal_line(sentence(row, one))}")
        if len(wrong) > _MAX_LISTED:
            print(f"{'':<{width}}    and {len(wrong) - _MAX_LISTED} more")
