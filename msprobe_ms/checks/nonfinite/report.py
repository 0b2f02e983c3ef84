"""What the search for non-finite values found, as a report shows it."""

from collections.abc import Callable, Iterator, Sequence

from msprobe.base.phrase import Words, phrase
from msprobe.compare.units.beginnings import source
from msprobe.findings.kinds import BY_NAME
from msprobe.report.document import Advice, Beginning

from .finding import Answer, Origin
from .values import Amount
from .wording import amounts, reason

Place = Callable[[int | None, int, str], tuple[int | None, int | None]]
"""Unit and call of a step, a rank and a call's name; None where they are not shown."""


def beginnings(answers: Sequence[Answer], place: Place) -> Iterator[Beginning]:
    """The calls that come first, then the others."""
    last = answers[-1]
    for origin in (*last.first, *last.others):
        unit, call = place(last.step, origin.rank, origin.name)
        yield Beginning(
            origin.name,
            origin.kind.value,
            reason(origin),
            origin.cell,
            unit,
            call,
            last.step,
            origin.rank,
            tuple(_evidence(origin)),
            source(origin.file, origin.line) if origin.file and origin.line is not None else None,
        )


def advice(answers: Sequence[Answer]) -> tuple[Advice, ...]:
    """Where to look, by the first call that is found."""
    found = answers[-1].first if answers else ()
    return tuple(Advice(phrase("look {where}", where=BY_NAME[origin.kind.value].where_to_look)) for origin in found[:1])


def _evidence(origin: Origin) -> Iterator[Words]:
    yield _of(origin.inputs, "inputs: {values}", "inputs: finite, or not recorded")
    yield _of(origin.outputs, "outputs: {values}", "outputs: finite, or not recorded")


def _of(found: Sequence[Amount], held: str, none: str) -> Words:
    return phrase(held, values=amounts(found)) if found else phrase(none)
