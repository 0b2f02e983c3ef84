"""Accept a new run into a golden file, with what changed and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe.base.phrase import Words
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.finding import Answer, Finding

from .golden import Accepted, Golden, write
from .judge import State, Verdict, judged
from .report import accepted_of


@dataclass(frozen=True)
class Done:
    """Result of an acceptance.

    answer : the verdict on the run before it was accepted.
    accepted : what was written; None if nothing was.
    others : names of calls with findings that are not accepted.
    is_untrained : whether the run did not train.
    """

    answer: Answer
    accepted: Accepted | None = None
    others: tuple[str, ...] = ()
    is_untrained: bool = False

    def answered(self, line: Words) -> Answer:
        """Return the answer of the command, whose last line is this one; what was accepted does not count as wrong."""
        if self.others:
            return replace(self.answer, line=line, advice=())
        return Answer("shown", line, harmless=(*self.answer.findings, *self.answer.harmless))


def accept(golden: Golden, run: Path, reason: str, only: Sequence[str] = ()) -> Done:
    """Replace the contents of a golden by a run whose findings are accepted, and write the reason into it.

    `only`: the calls whose findings are accepted; all without any. A run without findings changes nothing.
    """
    verdict = judged(run, golden)
    if verdict.state is State.UNTRAINED:
        return Done(verdict.answer, is_untrained=True)
    if verdict.state is State.GREEN:
        return Done(verdict.answer)
    own, others = _split(verdict, only)
    if others:
        return Done(verdict.answer, others=tuple(dict.fromkeys(each.place.name for each in others)))
    accepted = accepted_of(own, reason)
    write(golden.path, run, replace(golden.wanted, accepted=(*golden.wanted.accepted, accepted)))
    return Done(verdict.answer, accepted)


def _split(verdict: Verdict, only: Sequence[str]) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that are accepted, and those that are not.

    In steps after the first one that differs, other parameters follow from other gradients; another argument or call
    does not.
    """
    findings = list(verdict.answer.findings)
    if not only:
        return findings, []
    wanted = set(only)
    first = min((each.place.step or 0 for each in findings), default=0)

    def follows(each: Finding) -> bool:
        return (each.place.step or 0) > first and each.kind not in (kinds.ARGUMENT, kinds.STRUCTURE)

    own = [each for each in findings if each.place.name in wanted or follows(each)]
    others = [each for each in findings if each not in own]
    if not any(each.place.name in wanted for each in own):
        return [], findings
    return own, others
