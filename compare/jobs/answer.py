"""The answer of a request as findings, with the next steps for the user."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote

from msprobe.base.names import parse
from msprobe.base.phrase import Words, phrase
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.reason import Cause
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.locate.wording import where_to_look
from msprobe.compare.request import Request
from msprobe.compare.tables.console import excused_phrase, left_open
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.catalogue.parallel import REPLICAS_DIFFER
from msprobe.findings.finding import Answer, Finding, Suggestion
from msprobe.findings.kind import Severity

from .outcome import Outcome
from .summary import RequestResult

_MAX_FINDINGS = 200
"""Maximum number of further findings, and of harmless differences, of all comparisons together."""


def answer_of(result: RequestResult, request: Request) -> Answer:
    """Return the findings of a request, without positions in a report."""
    found: list[Finding] = []
    harmless: list[Finding] = []
    for outcome in in_order(result):
        if outcome.answer is not None:
            found += (one.placed(step=outcome.step, rank=outcome.rank) for one in outcome.answer.findings)
            harmless += (one.placed(step=outcome.step, rank=outcome.rank) for one in outcome.answer.harmless)
    return completed(result, request, found, harmless, ())


def in_order(result: RequestResult) -> list[Outcome]:
    """Return the outcomes, the one with the first wrong call of all first."""
    named = result.first
    return sorted(result.outcomes, key=lambda outcome: outcome is not named)


def completed(
    result: RequestResult,
    request: Request,
    found: Sequence[Finding],
    harmless: Sequence[Finding],
    notes: Iterable[Words],
) -> Answer:
    """Return the answer that has these findings, those of the first wrong call first, and those of merging ranks."""
    named = result.first
    of_merging = [one for one in result.merging if one.severity is not Severity.NOTE]
    of_merging.sort(key=lambda one: one.kind is not REPLICAS_DIFFER)  # copies that differ may be the answer
    found = [*found, *of_merging] if named is not None else [*of_merging, *found]
    is_first_known = named is not None or not result.copies_agree
    harmless = [*harmless, *(one for one in result.merging if one.severity is Severity.NOTE)]
    state = "differs" if result.differs else "clean" if result.is_clean else "unjudged"
    answer = Answer(
        state,
        result.last,
        found[0] if is_first_known and found else None,
        tuple(found[1:] if is_first_known else found),
        tuple(harmless),
        tuple(advice(named.findings[0], request, named) if named is not None else _advice_on_open(result, request)),
        (*_notes(result), *notes),
    )
    total = sum(outcome.answer.total for outcome in result.outcomes if outcome.answer is not None)
    total += len(result.merging) + result.omitted
    return replace(answer, omitted=total - answer.total).limited(_MAX_FINDINGS)


def _notes(result: RequestResult) -> Iterator[Words]:
    """Return the sentences that limit the answer."""
    if len(result.outcomes) == 1 and not result.missing:
        yield from result.outcomes[0].notes
        return
    yield from left_open(
        result.judged, result.differing, result.unjudged, (outcome.mode for outcome in result.outcomes)
    )
    yield from result.limits
    if result.excused is not None:
        yield excused_phrase(result.excused, result.user_limits)
    yield from (phrase("missing: {what}", what=sentence) for sentence in result.missing)


def _advice_on_open(result: RequestResult, request: Request) -> Iterator[Suggestion]:
    """Return suggestions for parameters that differ before the first step that was compared."""
    if Cause.EARLIER not in result.unjudged:
        return
    yield Suggestion(phrase("collect the steps before on both sides, from step 0 on"))
    yield Suggestion(
        phrase("or show with a second correct run how far parameters drift"),
        f"msprobe compare {quote(str(request.target))} {quote(str(request.golden))} --calibrate CLEAN",
    )


def _place_of(outcome: Outcome | None) -> str:
    """Return the options that select the step and rank of an outcome among several."""
    if outcome is None or not outcome.label:
        return ""
    step = "" if outcome.step is None else f"--steps {outcome.step}"
    rank = "" if outcome.rank is None else f"--ranks {outcome.rank}"
    return f"{step} {rank}".strip()


_LOOK_AT_EXCHANGE = "at the group and the operation of the collective, and at what the other ranks put in"


def advice(finding: Divergence, request: Request, outcome: Outcome | None = None) -> Iterator[Suggestion]:
    """Return where to look, and commands with more information; `outcome` is that of the finding."""
    is_exchange = finding.kind is kinds.COMPUTES and bool(word_of(finding.name))
    if outcome is not None and outcome.hint is not None:
        yield Suggestion(outcome.hint.line)
    where = phrase(_LOOK_AT_EXCHANGE) if is_exchange else where_to_look(finding)
    yield Suggestion(phrase("look {where}", where=where))
    target, golden = quote(str(request.target)), quote(str(request.golden))
    if request.layouts is None and not request.read_as:
        yield Suggestion(
            phrase("the rules and numbers that decided about this call"),
            " ".join(
                filter(
                    None, (f"msprobe compare {target} {golden}", _place_of(outcome), f"--explain {quote(finding.name)}")
                )
            ),
        )
    yield Suggestion(
        phrase("what to collect next, as a configuration for both runs"),
        " ".join(
            filter(None, (f"msprobe diagnose {target} {golden}", str(request.user_limits), "--write-config next.json"))
        ),
    )
    is_call = finding.kind is kinds.COMPUTES and parse(finding.name).kind == "api"
    if is_call and outcome is not None and outcome.target and outcome.mode == "tensor":
        path = quote(outcome.target)
        text = phrase(
            "a script that runs this call alone, on its recorded inputs, and says whether the kernel is wrong"
        )
        yield Suggestion(text, f"msprobe repro {quote(finding.name)} --dump {path}")
