"""The proof as lines of a console and as a JSON document."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Literal

from msprobe.base.log import terminal_line
from msprobe.base.phrase import Words, names_phrase, phrase
from msprobe.base.verdicts import Verdicts
from msprobe.compare.locate.wording import full_phrase
from msprobe.findings.catalogue import graft as kinds
from msprobe.findings.document import Document
from msprobe.findings.finding import Answer, Finding, Place, Suggestion
from msprobe.findings.kind import Kind
from msprobe.findings.text import lines_of

from .calls import GOLDEN
from .gap import FloorSource, RunGap, gap_of_parts
from .hypotheses import FoundBy, Hypothesis
from .proof import Estimate, Proof, Trial, Verdict
from .propagate import Stop

FLOORS: Mapping[FloorSource, str] = {
    FloorSource.BIT_EQUAL: "noise floor 1e-6: everything before the first finding is bitwise equal",
    FloorSource.REPEATED: "noise floor: the gap of the repeated golden run",
    FloorSource.REPLAY: "noise floor: the gap of replayed calls without a graft",
    FloorSource.MODEL: "noise floor: the error of gradients and updates that a comparison accepts",
    FloorSource.JUDGED: "noise floor: twice the gap of a run in which the comparison finds nothing",
}
"""Notes on the source of the noise floor."""


def exit_code(proof: Proof) -> int:
    """Return 0 if there is nothing to prove, 1 otherwise."""
    return 0 if proof.is_clean else 1


def answer_of(proof: Proof) -> Answer:
    """Return the findings: proven or likely causes, contributing ones, and the gap that remains."""
    notes = tuple(_notes(proof))
    if proof.is_clean:
        return Answer("clean", _clean_line(proof), notes=notes)
    proven = [_cause(trial) for trial in proof.proven]
    contributing = (Verdict.CONTRIBUTES, Verdict.PROBABLY_CONTRIBUTES)
    others = [_cause(trial) for trial in proof.trials if trial.verdict in contributing and not trial.is_halving]
    unjudged = [_cause(trial) for trial in proof.trials if trial.verdict is Verdict.NOT_JUDGED and not trial.is_halving]
    found = [*proven, *others, *unjudged]
    if proof.has_rest:
        numbers = {name: value if value is not None else 0.0 for name, value in proof.rest.measures.items()}
        kind = kinds.REMAINING_GAP
        if proof.is_estimate:
            kind = kinds.ESTIMATED_GAP
            del numbers["updates"]
        text = kind.sentence(share=proof.rest_share, **numbers)
        found.append(Finding(kind, Place("the run"), text, fields={"share": proof.rest_share, **numbers}))
    advice: tuple[Suggestion, ...] = ()
    if proof.is_exhausted:
        advice = (
            Suggestion(phrase("the search ended at --budget {runs}; a larger one may prove more", runs=proof.runs)),
        )
    if proven and proof.is_estimate:
        advice += (Suggestion(phrase("prove it by runs of the training: give its command after -- without --offline")),)
    line = _line(proof)
    return Answer("differs", line, found[0] if found else None, tuple(found[1:]), advice=advice, notes=notes)


def _clean_line(proof: Proof) -> Words:
    gap = _gap(proof.gap)
    if not proof.gap.is_noise(proof.floor):
        return phrase(
            "nothing to prove: the comparison found nothing that differs beyond noise, although the runs differ "
            "({gap})",
            gap=gap,
        )
    if proof.is_estimate:
        return phrase("nothing to estimate: losses and gradients differ by no more than noise ({gap})", gap=gap)
    return phrase(
        "nothing to prove: losses, gradients and updates differ by no more than noise ({gap})", gap=_gap(proof.gap)
    )


def _line(proof: Proof) -> Words:
    if proof.proven:
        causes = _causes(proof)
        if proof.is_estimate:
            return phrase("likely causes, estimated by replayed calls: {causes}", causes=causes)
        return phrase("proven: {causes}", causes=causes)
    gap = _gap(proof.rest)
    if proof.is_estimate:
        return phrase("no likely cause was found in {runs} estimates: a gap of {gap} remains", runs=proof.runs, gap=gap)
    return phrase("no cause was proven in {runs} runs: a gap of {gap} remains", runs=proof.runs, gap=gap)


def _causes(proof: Proof) -> Words:
    words: Words = ""
    for trial in proof.proven:
        share = trial.share or 0.0
        one = phrase("{name} ({share:.0%} of the gap)", name=subject(trial), share=share)
        words = one if not words else phrase("{before}, {after}", before=words, after=one)
    return words


def subject(trial: Trial) -> Words:
    """Return the call or parameter that a graft is about."""
    hypothesis = trial.hypothesis
    if hypothesis.graft.parameters and not hypothesis.graft.values:
        return names_phrase(sorted(hypothesis.graft.parameters), 1)
    if hypothesis.number > 1 and not trial.is_halving:
        return phrase("{listed} and {number} more", listed=hypothesis.name, number=hypothesis.number - 1)
    return hypothesis.name


def _cause(trial: Trial) -> Finding:
    hypothesis = trial.hypothesis
    divergence = hypothesis.finding
    kind = _KINDS[trial.verdict]
    fields: dict[str, Any] = {"closed": trial.closed, "share": trial.share or 0.0, "before": trial.before}
    if trial.estimate is not None:
        fields |= dict(zip(("losses", "all_losses"), trial.estimate.losses, strict=True))
        fields |= dict(zip(("gradients", "all_gradients"), trial.estimate.gradients, strict=True))
    text = kind.sentence(what=what_words(trial), **fields)
    place = divergence.as_finding(hypothesis.step.step, hypothesis.step.rank, "").place
    fields |= {"what": [each.value for each in hypothesis.what], "gap": shown_gap(trial).measures}
    others = [name for name in _covered(hypothesis) if name != hypothesis.name]
    fields["covers"] = others
    found_by = full_phrase(divergence) if hypothesis.found_by is FoundBy.FINDING else _FOUND_BY[hypothesis.found_by]
    covers = phrase("the region that was replaced also has {names}", names=names_phrase(others))
    return Finding(
        kind,
        place,
        text,
        evidence=(found_by, covers) if others else (found_by,),
        fields=fields,
        later_calls=max(divergence.receivers, 0),
        certainty=_CERTAINTY.get(trial.verdict, "likely"),
    )


def _covered(hypothesis: Hypothesis) -> list[str]:
    """Return the names of the calls in the region that is replaced."""
    return list(dict.fromkeys(name.removeprefix(GOLDEN) for name in hypothesis.covers))


_FOUND_BY: Mapping[FoundBy, Words] = {
    FoundBy.HALVING: phrase("found by halving the calls that differ"),
    FoundBy.USER: phrase("named by --calls"),
}

_KINDS: Mapping[Verdict, Kind] = {
    Verdict.PROVEN: kinds.PROVEN_CAUSE,
    Verdict.CONTRIBUTES: kinds.CONTRIBUTING_CAUSE,
    Verdict.LIKELY: kinds.ESTIMATED_CAUSE,
    Verdict.PROBABLY_CONTRIBUTES: kinds.ESTIMATED_CONTRIBUTION,
    Verdict.NOT_JUDGED: kinds.NOT_REACHED,
}


_CERTAINTY: Mapping[Verdict, Literal["certain", "open"]] = {Verdict.PROVEN: "certain", Verdict.NOT_JUDGED: "open"}


def shown_gap(trial: Trial) -> RunGap:
    """Return the gap of a run; of an estimate only of what was reached."""
    return trial.gap if trial.estimate is None else gap_of_parts(trial.gap.parts)


def what_words(trial: Trial) -> str:
    """Return the kinds of values that a graft replaces, as the configuration names them."""
    return ", ".join(each.value for each in trial.hypothesis.what)


def _notes(proof: Proof) -> Iterator[Words]:
    yield phrase(FLOORS[proof.floor.source])
    first = next(proof.study.findings, None)
    if proof.is_clean and first is not None:
        yield phrase(
            "the comparison has findings, the first at {name}; their effect on the training is below the noise floor",
            name=first[1].name,
        )
    if proof.deviating:
        yield phrase(
            "{number} results before the first graft differ from those of the target: the command is not the training "
            "that was collected, or is not deterministic",
            number=proof.deviating,
        )
    if proof.untested:
        yield phrase("not tested, because no gap is left: {names}", names=names_phrase(proof.untested))
    if proof.is_estimate and proof.trials:
        yield from _notes_on_estimate(proof)


def _notes_on_estimate(proof: Proof) -> Iterator[Words]:
    estimates = [trial.estimate for trial in proof.trials if trial.estimate is not None]
    yield phrase(
        "an estimate of step {step}, by up to {number} replayed calls; no training was run, and updates are not known",
        step=proof.study.steps[0].step,
        number=max(each.replayed for each in estimates),
    )
    stops = list(dict.fromkeys(stop for each in estimates for stop in each.stops))
    for stop in stops[:MAX_STOPS]:
        yield phrase(
            "{name} was not replayed, {why}: what depends on it was not judged", name=stop.call, why=_reason(stop)
        )
    if len(stops) > MAX_STOPS:
        yield phrase("{number} more calls were not replayed", number=len(stops) - MAX_STOPS)
    deviating = list(dict.fromkeys(name for each in estimates for name in each.deviating))
    if deviating:
        yield phrase(
            "the replay of {names} differs from the recorded result by more than rounding; the difference was kept",
            names=names_phrase(deviating),
        )


MAX_STOPS = 3
"""Calls that were not replayed of which the console has the reason; `--json` has all."""


def _reason(stop: Stop) -> Words:
    why = stop.reason
    return phrase(why.value)


def _gap(gap: RunGap) -> Words:
    return phrase(
        "loss {loss}, gradients {gradients}, updates {updates}",
        **{name: _number(value) for name, value in gap.measures.items()},
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


# ---- the console ----------------------------------------------------------------------------------------------------

COLUMNS = (
    phrase("graft"),
    phrase("loss gap"),
    phrase("gradient gap"),
    phrase("update gap"),
    phrase("closure"),
    phrase("verdict"),
)
OF_ESTIMATES = (phrase("replayed"), phrase("reached"))
"""Columns of estimates: the number of replayed calls, and the number of losses and gradients that were reached."""


def lines(proof: Proof) -> Iterator[str]:
    """Return the lines of the console: the table of all runs, and the answer."""
    answer = answer_of(proof)
    if not proof.is_clean:
        yield from table(proof)
    judged = []
    if proof.runs and not proof.is_estimate:
        text = phrase(
            "{runs} run of the training" if proof.runs == 1 else "{runs} runs of the training", runs=proof.runs
        )
        judged.append(text)
    none = phrase("no likely cause was found") if proof.is_estimate else phrase("no cause was proven")
    title = answer.line if proof.is_clean else none
    yield from lines_of(answer, title, judged, answer.notes, top=len(answer.next))


def table(proof: Proof) -> Iterator[str]:
    """Return the rows of the table of all runs, with its head."""
    more = OF_ESTIMATES if proof.is_estimate else ()
    rows = [tuple(map(str, (*COLUMNS, *more))), ("none", *_numbers(proof.gap), "", "", *("" for _ in more))]
    for trial in proof.trials:
        closed = f"{trial.closed:.0%}" if trial.is_judged and isfinite(trial.closed) else "-"
        verdict = "" if trial.is_halving else trial.verdict.value
        of_run = (f"{subject(trial)}: {what_words(trial)}", *_numbers(shown_gap(trial)), closed, verdict)
        rows.append((*of_run, *map(str, of_estimate(trial))))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield terminal_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def of_estimate(trial: Trial) -> tuple[()] | tuple[int, Words]:
    """Return the values of the columns of estimates; none if the training was run."""
    found = trial.estimate
    if found is None:
        return ()
    reached, every = (losses + gradients for losses, gradients in zip(found.losses, found.gradients, strict=True))
    return found.replayed, phrase("{reached} of {every}", reached=reached, every=every)


def _numbers(gap: RunGap) -> tuple[str, str, str]:
    return _number(gap.loss), _number(gap.gradients), _number(gap.updates)


# ---- JSON -----------------------------------------------------------------------------------------------------------


def document(proof: Proof, files: Mapping[str, str]) -> Document:
    """Return the document of `--json`."""
    answer, code = answer_of(proof), exit_code(proof)
    floor = {**_finite(proof.floor), "source": proof.floor.source.name.lower()}
    details = {
        "target": str(proof.study.target.absolute()),
        "golden": str(proof.study.golden.absolute()),
        "gap": _finite(proof.gap),
        "floor": floor,
        "rest": {**_finite(proof.rest), "share": proof.rest_share},
        "runs": proof.runs,
        "estimate": proof.is_estimate,
        "grafts": [_trial(trial) for trial in proof.trials],
    }
    return Document("graft", answer, Verdicts(0, len(answer.findings)), code, files=files, details=details)


def _trial(trial: Trial) -> dict[str, Any]:
    hypothesis = trial.hypothesis
    found = {
        "name": hypothesis.name,
        "number": hypothesis.number,
        "covers": _covered(hypothesis),
        "what": [each.value for each in hypothesis.what],
        "step": hypothesis.step.step,
        "finding": hypothesis.finding.kind.code,
        "gap": _finite(shown_gap(trial)),
        "closes": _finite(trial.closes),
        "closure": trial.closed if isfinite(trial.closed) else None,
        "before": trial.before,
        "share": trial.share,
        "verdict": trial.verdict.value,
        "is_halving": trial.is_halving,
    }
    if trial.estimate is not None:
        found["estimate"] = _estimate(trial.estimate)
    return found


def _estimate(found: Estimate) -> dict[str, Any]:
    return {
        "replayed": found.replayed,
        "losses": list(found.losses),
        "gradients": list(found.gradients),
        "covered": found.covered,
        "stops": [
            {"name": stop.call, "reason": stop.reason.name.lower(), "detail": stop.detail} for stop in found.stops
        ],
        "deviating": list(found.deviating),
    }


def _finite(numbers: Any) -> dict[str, Any]:
    """Return numbers as JSON has them, without NaN and infinities."""
    fields = {name: getattr(numbers, name) for name in ("loss", "gradients", "updates")}
    return {name: value if value is not None and isfinite(value) else None for name, value in fields.items()}
