"""What the search for non-finite values found, as a report shows it."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msprobe.base.phrase import Words, phrase
from msprobe.base.verdicts import total
from msprobe.findings import finding as findings
from msprobe.findings.finding import Finding, Place, Suggestion, source_of

from .finding import Answer, Origin
from .values import Amount
from .wording import amounts, last_line, notes, reason

Position = Callable[[int | None, int, str], tuple[int | None, int | None]]
"""Unit and call of a step, a rank and a call's name; None where they are not shown."""


def _nowhere(step: int | None, rank: int, name: str) -> tuple[int | None, int | None]:
    return None, None


def answer_of(answers: Sequence[Answer]) -> findings.Answer:
    """Return the answer of a search, from that of each step up to the first with a finding."""
    found = list(findings_of(answers, _nowhere))
    is_clean = total(answer.verdicts for answer in answers).exit_code == 0
    state = "differs" if found else "clean" if is_clean else "unjudged"
    first = found[0] if found else None
    return findings.Answer(
        state, last_line(answers), first, tuple(found[1:]), advice=advice(answers), notes=tuple(notes(answers))
    )


def details(answers: Sequence[Answer]) -> dict[str, object]:
    """Return the facts of a search that its findings do not have.

    `independent` is the number of findings at the place of the first; those after them are later.
    """
    *before, last = answers
    return {
        "step": last.step,
        "clean_steps": [answer.step for answer in before],
        "ranks": list(last.ranks),
        "independent": len(last.first),
        "masks": last.masks,
        "unjudged": [{"rank": rank, "why": why} for rank, why in last.unjudged],
    }


def findings_of(answers: Sequence[Answer], position: Position) -> Iterator[Finding]:
    """The calls that come first, then the others."""
    last = answers[-1]
    for origin in (*last.first, *last.others):
        unit, call = position(last.step, origin.rank, origin.name)
        source = source_of(origin.file, origin.line)
        record = next((each.place for each in (*origin.outputs, *origin.inputs)), "")
        place = Place(origin.name, origin.cell, record, last.step, origin.rank, source=source, unit=unit, call=call)
        evidence = tuple(_evidence(origin))
        yield Finding(origin.kind, place, reason(origin), evidence=evidence, fields=facts(origin))


def advice(answers: Sequence[Answer]) -> tuple[Suggestion, ...]:
    """Where to look, by the first call that is found."""
    found = answers[-1].first if answers else ()
    return tuple(Suggestion(phrase("look {where}", where=origin.kind.where_to_look)) for origin in found[:1])


def facts(origin: Origin) -> dict[str, object]:
    """Return what a finding is based on, as JSON types."""

    def values(amounts: Iterable[object]) -> list[object]:
        names = ("place", "nan", "inf", "minus_inf", "is_counted")
        return [{name: getattr(one, name) for name in names} for one in amounts]

    return {
        "kind": origin.kind.name,
        "cell": origin.cell,
        "non_finite_inputs": values(origin.inputs),
        "non_finite_outputs": values(origin.outputs),
        "source": origin.source,
        "missing_ranks": list(origin.ranks),
        "previous_step": origin.previous,
        "is_absorbed": origin.is_absorbed,
        "file": origin.file,
        "line": origin.line,
    }


def _evidence(origin: Origin) -> Iterator[Words]:
    yield _of(origin.inputs, "inputs: {values}", "inputs: finite, or not recorded")
    yield _of(origin.outputs, "outputs: {values}", "outputs: finite, or not recorded")


def _of(found: Sequence[Amount], held: str, none: str) -> Words:
    return phrase(held, values=amounts(found)) if found else phrase(none)
