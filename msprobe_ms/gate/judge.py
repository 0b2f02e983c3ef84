"""The verdict on a run: whether it trained, then the comparison of its calls with the golden, then a preset of limits.

The comparison is that of `msprobe compare`, and so are its findings.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.phrase import Words, names_phrase, phrase
from msprobe.base.verdicts import Verdicts
from msprobe.checks.invariants.judgement import Run
from msprobe.compare.core.limits import BUILT_IN, Limits
from msprobe.compare.dispatch import answer_of, compare_paths, counts_of, pairs_of, verdicts_of
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.locate.finding import Parameters, RunInput, Updated
from msprobe.compare.request import Request
from msprobe.findings.catalogue import comparison
from msprobe.findings.catalogue import gate as kinds
from msprobe.findings.finding import Answer, Finding, Place, Suggestion

from .golden import Golden, read_run
from .options import LIMITS
from .training import (
    COMPARABLE,
    PRESETS,
    GradientError,
    StepFacts,
    are_fed_alike,
    are_initialized_alike,
    beyond,
    coverage,
    facts_of,
    gradient_errors,
    is_rounding_updated,
    untrained,
)


class State(IntEnum):
    """The state of a gate; its value is the exit code."""

    GREEN = 0
    RED = 1
    UNTRAINED = 3


_FEW = 0.25
"""Largest share of the parameters whose updates may differ by rounding: a setting of an optimizer changes most."""

_OF_REWRITING = {comparison.STRUCTURE, comparison.COMPUTES, comparison.CODE}
"""The findings that a training has that computes the same by other calls."""

WORDS = {State.GREEN: "green", State.RED: "red", State.UNTRAINED: "did not train"}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    state : green, red, or that it did not train.
    answer : the findings; the line begins with `gate:`.
    verdicts, counts : the pairs of records, as `msprobe compare` counts them.
    facts : what the run has learned.
    result, request : the comparison; None if calls were not compared.
    """

    state: State
    answer: Answer
    verdicts: Verdicts
    counts: dict[str, int]
    facts: tuple[StepFacts, ...]
    result: RequestResult | None = None
    request: Request | None = None

    @property
    def tables(self) -> list[str]:
        """Return the paths of the tables."""
        return [each.table for each in self.result.outcomes if each.table] if self.result else []


def judged(
    run: Path, golden: Golden, limits: str = "auto", output: Path | None = None, *, html: bool = False
) -> Verdict:
    """Compare a run with a golden by a preset of limits.

    `output`: the folder for the tables; None writes none. UsageError if the preset does not fit the golden.
    """
    noise = _limits(golden, limits)
    target = read_run(run)
    facts = facts_of(target)
    if found := untrained(facts, golden.facts):
        line = phrase("gate: did not train: {what}", what=_named(found[0]))
        answer = Answer("differs", line, found[0], tuple(found[1:]), advice=_where(found[0]))
        return Verdict(State.UNTRAINED, answer, Verdicts(0, len(found)), {}, facts)
    with TemporaryDirectory(prefix="msprobe-gate-") as scratch:  # a comparison of several dumps has a summary
        request = Request(
            run,
            golden.path,
            output=output or Path(scratch),
            tables=output is not None,
            format="json",
            html=html,
            resume=False,
            workers=1,  # the golden is small: processes would start for longer than they work
            limits=noise,
        )
        result = compare_paths(request, logging.DEBUG)
    assert isinstance(result, RequestResult)  # neither side is the root of an RL flow
    answer, exit_code = answer_of(result, request), verdicts_of(result).exit_code
    verdict = Verdict(
        State.GREEN if exit_code == 0 else State.RED,
        answer,
        pairs_of(result),
        counts_of(result),
        facts,
        result,
        request,
    )
    notes = answer.notes
    if sampled := golden.about["sampled"]:
        notes = (*notes, phrase("at most {number} elements of each tensor were compared too", number=sampled))
    verdict = replace(verdict, answer=replace(answer, advice=_advice(answer), notes=notes))
    if verdict.state is State.RED:
        verdict = _by_leaves(verdict, target, golden)
    if verdict.state is State.RED:
        verdict = _by_gradients(verdict, target, golden)
    if limits in PRESETS:
        verdict = _accepted(verdict, golden, limits)
    line = phrase("gate: {state}: {line}", state=phrase(WORDS[verdict.state]), line=verdict.answer.line)
    return replace(verdict, answer=replace(verdict.answer, line=line))


def _limits(golden: Golden, chosen: str) -> Limits:
    if chosen not in LIMITS:
        raise UsageError(f"limits: {chosen!r} is not a preset; choose one of {', '.join(LIMITS)}")
    calibrated = golden.wanted.limits
    if chosen == "calibrated" and calibrated is None:
        raise UsageError(
            translated(
                f"--limits calibrated: {golden.path} has no calibrated limits; record it with --runs 3",
                f"--limits calibrated：{golden.path} 没有标定的限值；请用 --runs 3 录制",
            )
        )
    return calibrated if chosen in ("auto", "calibrated") and calibrated is not None else BUILT_IN


def _by_leaves(verdict: Verdict, target: Run, golden: Golden) -> Verdict:
    """Return the verdict without findings about tensors that no recorded call returned, if these differ by rounding:
    initial values and inputs, which other kernels drew, and updates of a few parameters that agree where their gradient
    is not rounding.

    Statistics do not show that, and samples do. A run that has records without a verdict stays red.
    """
    assert verdict.result is not None  # it was compared
    if any(number and not cause.is_exempt for cause, number in verdict.verdicts.gaps.items()):
        return verdict
    findings = [(outcome, each) for outcome in verdict.result.outcomes for each in outcome.findings]
    if not all(isinstance(each.evidence, Updated | Parameters | RunInput) for _, each in findings):
        return verdict
    names, are_rounding = _updates(verdict.result, target, golden)
    initial = [name for _, each in findings if isinstance(each.evidence, Parameters) for name in each.evidence.names]
    fed = [(outcome, each.name) for outcome, each in findings if isinstance(each.evidence, RunInput)]
    if not (names or initial or fed):
        return verdict
    steps = {outcome.step or 0 for outcome, each in findings if isinstance(each.evidence, Parameters)}
    if not steps <= {min(each.step for each in golden.facts)}:
        return verdict  # those of a later step are not initial
    if not are_rounding or (initial and not are_initialized_alike(initial, target, golden.samples)):
        return verdict
    if fed and not _are_fed_alike(fed, target, golden):
        return verdict
    notes = []
    if fed:
        unique = names_phrase(dict.fromkeys(name for _, name in fed))
        notes.append(phrase("inputs of {names} differ by rounding", names=unique))
    if initial:
        notes.append(phrase("initial values of {names} differ by rounding", names=names_phrase(dict.fromkeys(initial))))
    if names:
        unique = names_phrase(dict.fromkeys(names))
        notes.append(phrase("updates of {names} differ only where their gradient is rounding", names=unique))
    line = phrase("no difference beyond rounding: {number} pairs pass", number=verdict.verdicts.fine)
    answer = Answer("clean", line, harmless=verdict.answer.harmless, notes=(*verdict.answer.notes, *notes))
    return replace(verdict, state=State.GREEN, answer=answer, verdicts=replace(verdict.verdicts, wrong=0))


def _are_fed_alike(fed: Sequence[tuple[Outcome, str]], target: Run, golden: Golden) -> bool:
    """Return whether the inputs of calls agree up to rounding, each in the step and rank of its outcome."""
    run, samples = read_run(golden.dump), golden.samples
    for outcome, call in fed:
        place = outcome.step or 0, outcome.rank or 0
        mine, theirs = (one.steps.get(place[0], {}).get(place[1]) for one in (target, run))
        if mine is None or theirs is None or not are_fed_alike(call, mine, theirs, samples.get(place, {})):
            return False
    return True


def _updates(result: RequestResult, target: Run, golden: Golden) -> tuple[list[str], bool]:
    """Return the parameters whose updates differ, and whether all of them agree where their gradient is not rounding.

    The setting of an optimizer changes most of them.
    """
    names: list[str] = []
    samples, are_rounding = golden.samples, True
    for outcome in result.outcomes:
        for each in outcome.findings:
            if not isinstance(each.evidence, Updated):
                continue
            found = each.evidence.judgement
            names += found.differing
            step, rank = outcome.step or 0, outcome.rank or 0
            are_rounding &= len(found.differing) <= _FEW * len(found.verdicts) and all(
                is_rounding_updated(name, step, rank, target, samples) for name in found.differing
            )
    return names, are_rounding


def _by_gradients(verdict: Verdict, target: Run, golden: Golden) -> Verdict:
    """Return the verdict by the gradients of all parameters if the calls of the run cannot be compared, or were written
    in another way."""
    run = read_run(golden.dump)
    shares = [
        coverage(target.steps[step][rank], dump) for step, rank, dump in run.every if rank in target.steps.get(step, {})
    ]
    if not shares or not (min(shares) < COMPARABLE or _is_rewritten(verdict.answer)):
        return verdict
    errors = gradient_errors(target, run, golden.samples, are_comparable=min(shares) >= COMPARABLE)
    found = None if errors is None else list(errors)
    if not found:
        return verdict
    wrong = [one for one in found if one.is_wrong]
    other = phrase(
        "the run makes other calls: {share:.0%} of the golden's tensors have a counterpart; the gradients decide",
        share=min(shares),
    )
    first = verdict.answer.first
    notes = (*verdict.answer.notes, other)
    judged_gradients = Verdicts(len(found) - len(wrong), len(wrong))
    if wrong and min(shares) >= COMPARABLE:
        return verdict  # its findings name a call
    if not wrong and verdict.result is not None and not _updates(verdict.result, target, golden)[1]:
        return verdict  # gradients do not show the setting of an optimizer, nor clipping
    if wrong:
        named = _gradient_finding(wrong, found)
        line = phrase("first gradient that differs: {what}", what=_named(named))
        rest = (*([first] if first else []), *verdict.answer.next)
        answer = replace(verdict.answer, state="differs", line=line, first=named, next=rest, notes=notes)
        return replace(verdict, answer=answer, verdicts=judged_gradients)
    line = phrase(
        "the same training by other calls: {number} gradients in {steps} steps agree, with errors up to {error:.2g}",
        number=len(found),
        steps=len({one.step for one in found}),
        error=max(one.error for one in found),
    )
    answer = Answer("clean", line, notes=(other,))
    return replace(verdict, state=State.GREEN, answer=answer, verdicts=judged_gradients)


def _is_rewritten(answer: Answer) -> bool:
    """Return whether the first step that differs has other calls, and no other argument, parameter or input."""
    step = min((each.place.step or 0 for each in answer.findings), default=0)
    found = {each.kind for each in answer.findings if (each.place.step or 0) == step}
    return comparison.STRUCTURE in found and found <= _OF_REWRITING


def _gradient_finding(wrong: Sequence[GradientError], every: Sequence[GradientError]) -> Finding:
    """Return the finding about the gradients of the first step that differs, at the one that differs most."""
    one = max((each for each in wrong if each.step == wrong[0].step), key=lambda each: each.error / each.limit)
    text = kinds.GRADIENT_DIFFERS.sentence(error=one.error, limit=one.limit, number=len(wrong), all=len(every))
    fields = {"error": one.error, "limit": one.limit}
    return Finding(kinds.GRADIENT_DIFFERS, Place(one.parameter, step=one.step, rank=one.rank), text, fields=fields)


def _accepted(verdict: Verdict, golden: Golden, preset: str) -> Verdict:
    """Return the verdict by the acceptance limits of a preset; the findings of calls do not decide."""
    found, before = beyond(verdict.facts, golden.facts, PRESETS[preset]), verdict.answer
    notes = (*before.notes, phrase("limits: {name} ({source})", name=preset, source=PRESETS[preset].source))
    if found:
        rest = (*found[1:], *before.findings)
        line = phrase("first number beyond its limit: {what}", what=_named(found[0]))
        answer = replace(before, state="differs", line=line, first=found[0], next=rest, notes=notes)
        return replace(verdict, state=State.RED, answer=answer)
    if verdict.state is State.GREEN:
        return replace(verdict, answer=replace(before, notes=notes))
    line = phrase("within the limits of {name}; of the calls: {line}", name=preset, line=before.line)
    answer = Answer("clean", line, harmless=(*before.findings, *before.harmless), notes=notes)
    return replace(verdict, state=State.GREEN, answer=answer)


def _named(finding: Finding) -> Words:
    return phrase("{name}: {kind}: {reason}", name=finding.place.name, kind=finding.kind.name, reason=finding.reason)


def _where(finding: Finding) -> tuple[Suggestion, ...]:
    return (Suggestion(phrase("look {where}", where=finding.kind.where_to_look)),)


def _advice(answer: Answer) -> tuple[Suggestion, ...]:
    """Return where to look; the other commands of a comparison need the dump, which is temporary."""
    return tuple(one for one in answer.advice if not one.command)
