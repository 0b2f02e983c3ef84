"""The proof as a page: the answer, and the table of all runs of the training."""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path

from msprobe.base.phrase import Words, phrase
from msprobe.base.version import tool
from msprobe.report.document import Head, Side, Table, TableSet
from msprobe.report.file import Chunks, Report, against, now
from msprobe.store.record import Dump

from .proof import Proof, Verdict
from .report import COLUMNS, OF_ESTIMATES, answer_of, of_estimate, shown_gap, subject, what_words

_VERDICTS = {
    Verdict.PROVEN: phrase("proven"),
    Verdict.CONTRIBUTES: phrase("contributes"),
    Verdict.NO_EFFECT: phrase("no effect"),
    Verdict.LIKELY: phrase("likely cause (estimated)"),
    Verdict.PROBABLY_CONTRIBUTES: phrase("contributes (estimated)"),
    Verdict.PROBABLY_NO_EFFECT: phrase("no effect (estimated)"),
    Verdict.NOT_JUDGED: phrase("not judged"),
}


def page_of(proof: Proof, command: str) -> Report:
    """Return the page of a proof, or of an estimate; `command` is the command line that it shows."""
    chunks = Chunks()
    columns = (*COLUMNS, *OF_ESTIMATES) if proof.is_estimate else COLUMNS
    rows = tuple(_rows(proof))
    study = proof.study
    comparison = study.steps[0].comparison
    head = Head(
        "graft",
        against(study.target, study.golden),
        command,
        now(),
        tool(),
        _side(study.target, comparison.target),
        _side(study.golden, comparison.golden),
        answer_of(proof),
        tables=(
            TableSet(
                phrase("estimated runs") if proof.is_estimate else phrase("runs of the training"),
                chunks.add(Table(columns, rows)),
                len(rows),
            ),
        ),
    )
    return Report(head, chunks)


def _side(path: Path, dump: Dump) -> Side:
    return Side(str(path), dump.framework, dump.level, dump.task)


def _rows(proof: Proof) -> Iterator[tuple[float | Words | None, ...]]:
    yield phrase("none"), *proof.gap.measures.values(), None, None, *(None for _ in OF_ESTIMATES if proof.is_estimate)
    for trial in proof.trials:
        name = phrase("{name}: {what}", name=subject(trial), what=what_words(trial))
        closed = f"{trial.closed:.0%}" if trial.is_judged and isfinite(trial.closed) else None
        verdict = None if trial.is_halving else _VERDICTS[trial.verdict]
        yield name, *shown_gap(trial).measures.values(), closed, verdict, *of_estimate(trial)
