"""The report of a check of kernels: the first wrong output, and the rows of its csv files."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from msprobe.base.names import parse
from msprobe.base.phrase import Phrase, Words, phrase
from msprobe.base.verdicts import Verdicts, last_line
from msprobe.base.version import tool
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.page import put_table
from msprobe.compare.units.unit import side_of
from msprobe.findings.catalogue.single_calls import WRONG_OUTPUT
from msprobe.findings.data import as_data
from msprobe.findings.finding import Answer, Finding, Place, Suggestion, source_of
from msprobe.replay.recorded import Cause
from msprobe.report.document import Head, TableSet
from msprobe.report.file import Chunks, Report, now
from msprobe.store.record import Dump
from msprobe.store.stacks_and_construct import user_line

from .check import Checked, Output, Why, verdicts_of, wrong_outputs
from .judge import Status
from .tables import DETAILS, RESULT, SKIPPED, detail_row, result_row, skipped_rows

_MAX_FINDINGS = 200
"""Wrong outputs that are listed; the table has all."""


def report_of(found: Sequence[Checked], dump: Dump, path: str) -> Report:
    """Return the report of the checked calls of a dump at a path."""
    chunks = Chunks()
    head = Head(
        "acc_check",
        phrase("kernels of {name}", name=Path(path).absolute().name),
        f"msprobe acc-check --dump {quote(path)}",
        now(),
        tool(),
        side_of(dump),
        None,
        answer_of(found, dump, path, verdicts_of(found)),
        counts_of(found),
        tuple((number, phrase(why.value)) for why, number in _skipped(found).most_common()),
        tables=tuple(_tables(found, chunks)),
        calls=sum(len(checked.directions) for checked in found),
    )
    return Report(head, chunks)


def answer_of(found: Sequence[Checked], dump: Dump, path: str, verdicts: Verdicts) -> Answer:
    """Return the answer of a check; `verdicts` may include those of an earlier check that this one continues."""
    wrong = wrong_outputs(found)
    return Answer(
        "differs" if verdicts.wrong else "clean" if verdicts.exit_code == 0 else "unjudged",
        last_line(_line(wrong), verdicts),
        _finding(wrong[0], dump) if wrong else None,
        tuple(_finding(output, dump) for output in wrong[1:_MAX_FINDINGS]),
        advice=tuple(_advice(wrong, dump, path)),
        notes=(summary(found),),
    )


def _line(wrong: Sequence[Output]) -> Phrase:
    if not wrong:
        return phrase("first wrong output: none")
    return phrase("first wrong output: {name}: {reason}", name=wrong[0].name, reason=wrong[0].message)


def counts_of(found: Sequence[Checked]) -> dict[str, int]:
    """Return the number of calls by grade."""
    counts = Counter(direction.status for checked in found for direction in checked.directions)
    return {_WORDS[status]: counts[status] for status in Status}


_WORDS = {Status.PASS: "pass", Status.WARNING: "warning", Status.ERROR: "error", Status.SKIP: "unjudged"}


def _finding(output: Output, dump: Dump) -> Finding:
    judgement = output.judgement
    name = next((call for call in (output.name.rpartition(part)[0] for part in _PARTS) if call in dump.place), "")
    at = dump.place.get(name, -1)
    stack = () if at < 0 else dump.calls.stack(at) or dump.calls.stack(dump.forward(at))
    line = user_line(stack)
    parent = None if at < 0 else dump.parent(at)
    evidence = [
        phrase("golden: {what}", what=output.golden),
        phrase("judged by: {what}", what=phrase(judgement.criterion.value)),
    ]
    evidence += [phrase("assumed: {what}", what=output.label)] if output.label else []
    place = Place(
        output.name,
        "" if parent is None else parse(parent).path or parent,
        step=dump.step,
        rank=dump.rank,
        source=None if line is None else source_of(*line),
    )
    grade = _WORDS[judgement.status]
    return Finding(WRONG_OUTPUT, place, output.message, grade, tuple(evidence), as_data(judgement))


_PARTS = (".output.", ".output", ".parameters_grad.")


def _advice(wrong: Sequence[Output], dump: Dump, path: str) -> Iterator[Suggestion]:
    """Suggest a script of the first wrong call, if the dump has its tensors."""
    if not wrong:
        return
    name = next((call for call in (wrong[0].name.rpartition(part)[0] for part in _PARTS) if call in dump.place), "")
    if name and dump.task == "tensor":
        text = phrase("a script that runs this call alone")
        yield Suggestion(text, f"msprobe repro {quote(name)} --dump {quote(path)}")


def summary(found: Sequence[Checked]) -> Words:
    """Return the numbers of calls by grade, in a sentence."""
    counts = Counter(direction.status for checked in found for direction in checked.directions)
    return phrase(
        "{apis} APIs, {calls} calls: {passed} pass, {warned} warning, {wrong} error, {skipped} skipped",
        apis=len(found),
        calls=counts.total(),
        passed=counts[Status.PASS],
        warned=counts[Status.WARNING],
        wrong=counts[Status.ERROR],
        skipped=counts[Status.SKIP],
    )


def skipped_calls(found: Sequence[Checked]) -> list[tuple[str, int]]:
    """Return why calls were skipped, with the number of calls, the most frequent reason first."""
    return [(why.value, number) for why, number in _skipped(found).most_common()]


def criteria(found: Sequence[Checked]) -> list[tuple[str, str, int]]:
    """Return criterion and grade of outputs with their number, the most frequent first."""
    counts = Counter(
        (output.judgement.criterion.value, output.judgement.status)
        for checked in found
        for direction in checked.directions
        for output in direction.outputs
    )
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return [(criterion, status.value, number) for (criterion, status), number in ordered]


def _skipped(found: Sequence[Checked]) -> "Counter[Why | Cause]":
    return Counter(d.skipped.why for checked in found for d in checked.directions if d.skipped is not None)


def _tables(found: Sequence[Checked], chunks: Chunks) -> Iterator[TableSet]:
    outputs = [
        (direction, output) for checked in found for direction in checked.directions for output in direction.outputs
    ]
    details = (detail_row(*each) for each in outputs)
    yield put_table(chunks, phrase("outputs"), _columns(DETAILS), details, "Status")
    yield put_table(chunks, phrase("APIs"), _columns(RESULT), map(result_row, found))
    skipped = [row for checked in found for row in skipped_rows(checked)]
    if skipped:
        yield put_table(chunks, phrase("not checked"), _columns(SKIPPED), skipped)


def _columns(titles: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(title, "") for title in titles)
