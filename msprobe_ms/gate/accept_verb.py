"""Accept changes of a training: write its new run, the changes and the reason into the golden file.

  msprobe gate accept --golden FILE --only CALL ... --reason TEXT -- python train.py
  msprobe gate accept --golden FILE --all --reason TEXT -- python train.py

With --only, the run may have no other finding than those at these calls, and what follows from them. Exit code: 0
accepted, or nothing to accept; 1 there are other findings, and nothing is written; 2 the command was wrong or the
training failed; 3 the training did not train.
"""

from dataclasses import dataclass

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.phrase import names_phrase, phrase
from msprobe.options.declaration import option
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import FLAG, TEXT, several

from .options import GoldenFile, RunSource


@dataclass(frozen=True, kw_only=True)
class Options(GoldenFile, RunSource, JsonAnswer):
    """The options of the command."""

    only: tuple[str, ...] = option(
        several("CALL"), "--only", default=(), help="accept the findings at these calls", zh="只接受这些调用处的变更"
    )
    all: bool = option(FLAG, "--all", default=False, help="accept all findings", zh="接受所有变更")
    reason: str = option(
        TEXT,
        "--reason",
        required=True,
        help="why the change is correct; stored in the file",
        zh="变更正确的理由；存入文件",
    )

    def check(self) -> None:
        """Raise UsageError unless it is clear what is accepted, and why."""
        if bool(self.only) == self.all:
            raise UsageError(
                translated("give either --only CALL ... or --all", "请给出 --only CALL ... 或 --all（二者之一）")
            )
        if not self.reason.strip():
            raise UsageError(
                translated("--reason is empty; say why the change is correct", "--reason 为空；请说明理由")
            )
        super().check()


def run(options: Options) -> int:
    """Accept, print what was accepted, and return the exit code."""
    from .accepting import accept
    from .golden import Golden
    from .report import printed_answer

    golden = Golden.read(options.golden)
    with options.run(golden.wanted.collection) as folder:
        done = accept(golden, folder, options.reason, options.only)
    details = {"accepted": [] if done.accepted is None else [done.accepted.as_object()], "others": list(done.others)}
    if done.is_untrained:
        return printed_answer("gate accept", done.answer, 3, details=details, is_json=options.is_json)
    if done.others:
        line = phrase(
            "not accepted: there are findings at other calls: {names}; accept them too, or correct them",
            names=names_phrase(done.others),
        )
    elif done.accepted is None:
        line = phrase("nothing to accept: {line}", line=done.answer.line)
    else:
        line = phrase("accepted: {number} findings", number=len(done.accepted.findings))
    written = {"golden": str(golden.path) if done.accepted is not None else ""}
    code = 1 if done.others else 0
    return printed_answer("gate accept", done.answered(line), code, written, details, is_json=options.is_json)
