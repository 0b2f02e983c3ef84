"""Find the commit that changed what a training computes, with a gate as judge.

  msprobe bisect --good REV --bad REV [--build COMMAND] -- python train.py

The good revision is recorded, then `git bisect` runs the training in a separate worktree; your working directory is
left alone. Revisions whose build or training fails are skipped. The last line has the commit, its file, the call and
the finding. Exit code: 0 the commit was found, 1 only skipped commits are left, 2 the command was wrong, the good
revision cannot be recorded, or the bad one does not differ.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.phrase import Words, names_phrase, phrase
from msprobe.options.declaration import option, positional
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import NUMBERS, REST, TEXT, one_of
from msprobe.training_command import without_separator

if TYPE_CHECKING:
    from .bisection import Bisected, Commit


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    good: str = option(TEXT, "--good", metavar="REV", required=True, help="a correct revision", zh="正确的版本")
    bad: str = option(
        TEXT, "--bad", metavar="REV", required=True, help="a later revision that differs", zh="之后的有差异的版本"
    )
    build: str = option(
        TEXT,
        "--build",
        metavar="COMMAND",
        default="",
        help="a shell command that builds each revision",
        zh="构建每个版本的 shell 命令",
    )
    steps: tuple[int, ...] = option(
        NUMBERS, "--steps", default=(0, 1, 2), help="the steps; default: 0-2", zh="采集的 step；默认：0-2"
    )
    limits: str = option(
        one_of("auto", "mindformers"), "--limits", default="auto", help="what is accepted", zh="接受的限值"
    )
    command: tuple[str, ...] = positional(
        REST, "-- COMMAND", default=(), help="the training, whose debugger collects", zh="训练命令，由其中的调试器采集"
    )

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words of the command."""
        return without_separator(self.command)

    def check(self) -> None:
        """Raise UsageError without a command."""
        if not self.words:
            raise UsageError(translated("give the command of the training after --", "请在 -- 之后给出训练命令"))
        super().check()


def run(options: Options) -> int:
    """Bisect, print the commit, and return the exit code."""
    from msprobe.findings.finding import Answer

    from .bisection import bisect
    from .recording import Collection
    from .report import lines, printed_answer

    found = bisect(
        options.good,
        options.bad,
        options.words,
        build=options.build,
        collection=Collection(steps=options.steps),
        limits=options.limits,
    )
    if found.verdict is not None and found.commit is not None and not options.is_json:
        *shown, _ = lines(found.verdict)
        print("\n".join(shown))
        print("\n".join(_lines(found, found.commit)))
    line = _last(found)
    answer = Answer("unjudged" if found.commit is None else "shown", line)
    if found.verdict is not None:
        of_gate = found.verdict.answer
        answer = Answer("differs" if of_gate.first else "shown", line, of_gate.first, of_gate.next, of_gate.harmless)
    code = 1 if found.commit is None else 0
    return printed_answer("bisect", answer, code, details=_details(found), is_json=options.is_json)


def _lines(found: "Bisected", commit: "Commit") -> Iterator[str]:
    yield f"commit {commit.revision}: {commit.subject} ({commit.author}, {commit.date})"
    yield f"  files: {', '.join(commit.files)}"
    yield f"  tried: {', '.join(f'{each.revision[:12]} {each.outcome}' for each in found.trials)}"


def _last(found: "Bisected") -> Words:
    commit = found.commit
    if commit is None:
        return phrase(
            "bisect: the first bad commit is one of {number}, which cannot be built or run: {names}",
            number=len(found.candidates),
            names=names_phrase(each[:12] for each in found.candidates),
        )
    what: Words = "" if found.verdict is None else found.verdict.answer.line
    return phrase(
        "bisect: first bad commit: {revision} {subject} ({file}): {what}",
        revision=commit.revision[:12],
        subject=commit.subject,
        file=file_of(found, commit),
        what=what,
    )


def file_of(found: "Bisected", commit: "Commit") -> str:
    """Return the file of the commit that has the line of the finding; otherwise all that it changed."""
    source = found.finding.place.source if found.finding is not None else None
    if source is not None:
        named = [each for each in commit.files if Path(source.file).as_posix().endswith(each)]
        if named:
            return f"{max(named, key=len)}:{source.line}"
    return str(names_phrase(commit.files))


def _details(found: "Bisected") -> dict[str, object]:
    commit = found.commit
    return {
        "commit": None if commit is None else {**vars_of(commit), "file": file_of(found, commit)},
        "candidates": list(found.candidates),
        "trials": [{"revision": each.revision, "outcome": each.outcome} for each in found.trials],
    }


def vars_of(commit: "Commit") -> dict[str, object]:
    """Return a commit as JSON data."""
    return {
        "revision": commit.revision,
        "subject": commit.subject,
        "author": commit.author,
        "date": commit.date,
        "files": list(commit.files),
    }
