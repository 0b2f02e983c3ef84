"""Results of the checks of invariants as an answer, as lines, and as tables of a report."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msprobe.base.log import join_names
from msprobe.base.phrase import Phrase, Words, names_phrase, phrase
from msprobe.base.verdicts import Verdicts
from msprobe.base.verdicts import last_line as completed
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.page import put_table
from msprobe.findings.data import as_data
from msprobe.findings.finding import Answer, Finding, Place, Suggestion, source_of
from msprobe.report.document import TableSet
from msprobe.report.file import Chunks

from .judgement import Judgement, Status
from .table import Invariant

Judged = Sequence[tuple[Invariant, list[Judgement]]]

_INVARIANTS = (
    Column("invariant", "its name"),
    Column("verdict", "the worst of its judgements"),
    Column("holds", "how many judgements"),
    Column("violated", "how many judgements"),
    Column("unjudged", "how many judgements"),
    Column("says", "what holds in every correct training"),
    Column("why unjudged", "the most frequent reason"),
)

_VIOLATIONS = (
    Column("invariant", "its name"),
    Column("verdict", "error"),
    Column("subject", "the call, parameter or collective"),
    Column("cell", "where it is"),
    Column("place", "the record"),
    Column("step", "number of the step"),
    Column("ranks", "the ranks that are concerned"),
    Column("value", "what was measured"),
    Column("limit", "what it has to be within"),
    Column("sentence", "all of it in a sentence"),
)


def findings_of(violated: Sequence[tuple[Invariant, Judgement]]) -> Iterator[Finding]:
    """Return the violations as findings, each with its first rank."""
    for row, one in violated:
        rank = one.ranks[0] if one.ranks else None
        source = source_of(one.file, one.line)
        place = Place(one.subject or "the run", one.cell, one.place, one.step, rank, source=source)
        evidence = tuple(_evidence(row, one))
        yield Finding(row.kind, place, reason(row, one), evidence=evidence, fields=as_data(one))


def answer_of(judged: Judged, verdicts: Verdicts) -> Answer:
    """Return the answer of a check."""
    violated = violations(judged)
    found = list(findings_of(violated))
    state = "differs" if found else "clean" if verdicts.exit_code == 0 else "unjudged"
    first = found[0] if found else None
    return Answer(state, last_line(violated, verdicts), first, tuple(found[1:]), advice=advice(violated))


def last_line(violated: Sequence[tuple[Invariant, Judgement]], verdicts: Verdicts) -> Words:
    """Return the last line on standard output."""
    if not violated:
        return completed(phrase("first violation: none"), verdicts)
    row, one = violated[0]
    return completed(phrase("first violation: {name}: {what}", name=row.name, what=sentence(row, one)), verdicts)


def sentence(row: Invariant, one: Judgement) -> str:
    """Return a violation as `SUBJECT in CELL: REASON (FILE:LINE)`, with ranks and step."""
    subject = one.subject or "the run"
    cell = f" in {one.cell}" if one.cell else ""
    where = "" if one.step is None else f", step {one.step}"
    ranks = f", rank{'s' * (len(one.ranks) != 1)} {join_names([str(r) for r in one.ranks])}" if one.ranks else ""
    line = f" ({one.file}:{one.line})" if one.file else ""
    return f"{subject}{cell}{where}{ranks}: {reason(row, one)}{line}"


def reason(row: Invariant, one: Judgement) -> Phrase:
    """Return why a judgement is a violation, with the measured value and its limit."""
    text = row.kind.sentence(one.what, place=one.place)
    if one.value is not None and one.limit is not None:
        return phrase("{text} ({value:.3g}, allowed {limit:.3g})", text=text, value=one.value, limit=one.limit)
    return text


def violations(judged: Judged) -> list[tuple[Invariant, Judgement]]:
    """Return what is violated, in the order of the invariants."""
    return [(row, one) for row, found in judged for one in found if one.status is Status.VIOLATED]


def details(judged: Judged) -> dict[str, object]:
    """Return the invariants with the numbers of their judgements."""
    rows = []
    for row, found in judged:
        counts = Counter(one.status for one in found)
        rows.append(
            {
                "name": row.name,
                "says": row.says,
                "needs": row.needs,
                **{status.value: counts[status] for status in Status},
                "why_unjudged": dict(Counter(one.why.value for one in found if one.why)),
            }
        )
    return {"invariants": rows}


def _evidence(row: Invariant, one: Judgement) -> Iterator[Words]:
    if len(one.ranks) > 1:
        yield phrase("on ranks {ranks}", ranks=names_phrase(one.ranks, 8))
    yield phrase("every correct training: {what}", what=phrase(row.says))
    yield phrase("because: {what}", what=phrase(row.source))


def advice(violated: Sequence[tuple[Invariant, Judgement]]) -> tuple[Suggestion, ...]:
    """Return where to look, by the first violation."""
    return tuple(Suggestion(phrase("look {where}", where=row.kind.where_to_look)) for row, _ in violated[:1])


def tables(judged: Judged, violated: Sequence[tuple[Invariant, Judgement]], chunks: Chunks) -> Iterator[TableSet]:
    """Return the table of all invariants, and that of all violations, if there are any."""
    yield put_table(chunks, phrase("invariants"), _INVARIANTS, (_row(*each) for each in judged), "verdict")
    if violated:
        yield put_table(chunks, phrase("violations"), _VIOLATIONS, (_violation(*each) for each in violated), "verdict")


def _row(row: Invariant, found: list[Judgement]) -> tuple[str | int, ...]:
    counts = Counter(one.status for one in found)
    whys = Counter(one.why.value for one in found if one.why)
    verdict = "error" if counts[Status.VIOLATED] else "pass" if counts[Status.HOLDS] else "unjudged"
    numbers = (counts[status] for status in (Status.HOLDS, Status.VIOLATED, Status.UNJUDGED))
    return row.name, verdict, *numbers, row.says, whys.most_common(1)[0][0] if whys else ""


def _violation(row: Invariant, one: Judgement) -> tuple[str | int | float, ...]:
    numbers = ("" if number is None else number for number in (one.value, one.limit))
    step = "" if one.step is None else one.step
    ranks = ", ".join(map(str, one.ranks))
    return row.name, "error", one.subject, one.cell, one.place, step, ranks, *numbers, sentence(row, one)
