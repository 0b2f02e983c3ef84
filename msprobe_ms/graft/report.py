"""The proof as lines of a console and as a JSON document."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

from msprobe.base.log import terminal_line
from msprobe.base.phrase import Words, names_phrase, phrase
from msprobe.base.verdicts import Verdicts
from msprobe.compare.locate.wording import full_phrase
from msprobe.findings.catalogue import graft as kinds
from msprobe.findings.document import Document
from msprobe.findings.finding import Answer, Finding, Place, Suggestion
from msprobe.findings.text import lines_of

from .gap import FloorSource, RunGap
from .proof import Proof, Trial, Verdict

FLOORS: Mapping[FloorSource, str] = {
    FloorSource.BIT_EQUAL: "noise floor 1e-6: everything before the first finding is bitwise equal",
    FloorSource.REPEATED: "noise floor: the gap of the repeated golden run",
    FloorSource.MODEL: "noise floor: the error of gradients and updates that a comparison accepts",
}
"""Notes on the source of the noise floor."""


def exit_code(proof: Proof) -> int:
    """Return 0 if there is nothing to prove, 1 otherwise."""
    return 0 if proof.is_clean else 1


def answer_of(proof: Proof) -> Answer:
    """Return the findings: proven causes, contributing ones, and the gap that remains."""
    notes = tuple(_notes(proof))
    if proof.is_clean:
        return Answer(
            "clean",
            phrase(
                "nothing to prove: losses, gradients and updates differ by no more than noise ({gap})",
                gap=_gap(proof.gap),
            ),
            notes=notes,
        )
    proven = [_cause(trial) for trial in proof.proven]
    others = [_cause(trial) for trial in proof.trials if trial.verdict is Verdict.CONTRIBUTES and not trial.is_halving]
    found = [*proven, *others]
    if not proof.rest.is_noise(proof.floor):
        numbers = {name: value if value is not None else 0.0 for name, value in asdict(proof.rest).items()}
        text = kinds.REMAINING_GAP.sentence(share=proof.rest_share, **numbers)
        found.append(
            Finding(kinds.REMAINING_GAP, Place("the run"), text, fields={"share": proof.rest_share, **numbers})
        )
    if proven:
        line = phrase("proven: {causes}", causes=_causes(proof))
    else:
        line = phrase(
            "no cause was proven in {runs} runs: a gap of {gap} remains", runs=proof.runs, gap=_gap(proof.rest)
        )
    advice: tuple[Suggestion, ...] = ()
    if proof.is_exhausted:
        advice = (
            Suggestion(phrase("the search ended at --budget {runs}; a larger one may prove more", runs=proof.runs)),
        )
    return Answer("differs", line, found[0] if found else None, tuple(found[1:]), advice=advice, notes=notes)


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
    if hypothesis.graft.parameters:
        return names_phrase(sorted(hypothesis.graft.parameters), 1)
    if hypothesis.number > 1 and not trial.is_halving:
        return phrase("{listed} and {number} more", listed=hypothesis.name, number=hypothesis.number - 1)
    return hypothesis.name


def _cause(trial: Trial) -> Finding:
    hypothesis = trial.hypothesis
    divergence = hypothesis.finding
    is_proven = trial.verdict is Verdict.PROVEN
    kind = kinds.PROVEN_CAUSE if is_proven else kinds.CONTRIBUTING_CAUSE
    fields: dict[str, Any] = {"closed": trial.closed, "share": trial.share or 0.0, "before": trial.before}
    text = kind.sentence(what=what_words(trial), **fields)
    place = divergence.as_finding(hypothesis.step.step, hypothesis.step.rank, "").place
    fields |= {"what": [each.value for each in hypothesis.what], "gap": asdict(trial.gap)}
    return Finding(
        kind,
        place,
        text,
        evidence=(
            phrase("found by halving the calls that differ") if hypothesis.is_halved else full_phrase(divergence),
        ),
        fields=fields,
        later_calls=max(divergence.receivers, 0),
        certainty="certain" if is_proven else "likely",
    )


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


def _gap(gap: RunGap) -> Words:
    return phrase(
        "loss {loss}, gradients {gradients}, updates {updates}",
        **{name: _number(value) for name, value in asdict(gap).items()},
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


# ---- the console ----------------------------------------------------------------------------------------------------

_COLUMNS = ("graft", "loss gap", "gradient gap", "update gap", "closure", "verdict")


def lines(proof: Proof) -> Iterator[str]:
    """Return the lines of the console: the table of all runs, and the answer."""
    answer = answer_of(proof)
    if not proof.is_clean:
        yield from table(proof)
    judged = []
    if proof.runs:
        text = phrase(
            "{runs} run of the training" if proof.runs == 1 else "{runs} runs of the training", runs=proof.runs
        )
        judged.append(text)
    title = answer.line if proof.is_clean else phrase("no cause was proven")
    yield from lines_of(answer, title, judged, answer.notes, top=len(answer.next))


def table(proof: Proof) -> Iterator[str]:
    """Return the rows of the table of all runs, with its head."""
    rows = [_COLUMNS, ("none", *_numbers(proof.gap), "", "")]
    for trial in proof.trials:
        closed = f"{trial.closed:.0%}" if isfinite(trial.closed) else "-"
        verdict = "" if trial.is_halving else trial.verdict.value
        rows.append((f"{subject(trial)}: {what_words(trial)}", *_numbers(trial.gap), closed, verdict))
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    for row in rows:
        yield terminal_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


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
        "grafts": [_trial(trial) for trial in proof.trials],
    }
    return Document("graft", answer, Verdicts(0, len(answer.findings)), code, files=files, details=details)


def _trial(trial: Trial) -> dict[str, Any]:
    hypothesis = trial.hypothesis
    return {
        "name": hypothesis.name,
        "number": hypothesis.number,
        "what": [each.value for each in hypothesis.what],
        "step": hypothesis.step.step,
        "finding": hypothesis.finding.kind.code,
        "gap": _finite(trial.gap),
        "closes": _finite(trial.closes),
        "closure": trial.closed if isfinite(trial.closed) else None,
        "before": trial.before,
        "share": trial.share,
        "verdict": trial.verdict.value,
        "is_halving": trial.is_halving,
    }


def _finite(numbers: Any) -> dict[str, Any]:
    """Return numbers as JSON has them, without NaN and infinities."""
    fields = {name: getattr(numbers, name) for name in ("loss", "gradients", "updates")}
    return {name: value if value is not None and isfinite(value) else None for name, value in fields.items()}
