"""The answer of a comparison of packs as lines, the most important one last."""

from collections.abc import Iterable, Iterator

from msprobe.base.phrase import Phrase, Words, joined, phrase
from msprobe.base.verdicts import last_line as completed

from .compare import Compared
from .findings import SEVERITY, Checker, Kind, Level, OneSided, Outcome, RandomRow, Row, SettingRow, TensorRow
from .sheets import names_and_values, remark

_CAUSES = (
    *(Checker.HYPERPARAMETERS, Checker.CONTEXT, Checker.ENV, Checker.PIP),
    *(Checker.WEIGHTS, Checker.DATASET, Checker.RANDOM),
)
"""What explains the rest stands first: other settings make other weights, and draw other numbers."""


def lines(compared: Compared, top: int) -> Iterator[Words]:
    """The outcome of each checker, at most `top` rows that matter, and the answer."""
    yield from checkers(compared)
    rows = by_importance(compared)
    shown = rows[: max(top, 1)]
    if (more := _count(compared) - len(shown)) > 0:
        yield f"{more} more rows: {compared.result}"
    yield from (f"{row.level.value}: {sentence(row)}" for row in reversed(shown[1:]))
    yield answer(compared) if compared.outcomes else completed(answer(compared), compared.verdicts)


def checkers(compared: Compared) -> Iterator[Phrase]:
    """The outcome of each checker."""
    for outcome in compared.outcomes:
        text = phrase("{checker}: {grade}", checker=phrase(outcome.checker.value), grade=outcome.level.value)
        words = remark(outcome)
        yield phrase("{text} ({cause})", text=text, cause=words) if words else text


def answer(compared: Compared) -> Phrase:
    """The last line."""
    sides = phrase("{before} and {after}", before=compared.bench, after=compared.cmp)
    rows = by_importance(compared)
    if rows:
        return phrase("{grade}: {text} ({sides})", grade=rows[0].level.value, text=sentence(rows[0]), sides=sides)
    unjudged = [
        phrase("{text} ({cause})", text=phrase(outcome.checker.value), cause=phrase(outcome.one_sided.value))
        for outcome in compared.outcomes
        if outcome.one_sided is not OneSided.NO
    ]
    if unjudged:
        which = joined(unjudged, "{before}, {after}")
        return phrase("unjudged: {which}; everything else passes ({sides})", which=which, sides=sides)
    return phrase("pass: no relevant difference between {sides}", sides=sides)


def by_importance(compared: Compared) -> list[Row]:
    """The rows that were kept, the likeliest explanation first."""
    found = [(outcome, row) for outcome in compared.outcomes for row in outcome.worst]

    def place(pair: tuple[Outcome, Row]) -> tuple[int, int, int]:
        outcome, row = pair
        return -SEVERITY.index(row.level), _CAUSES.index(outcome.checker), row.importance

    return list(_first_steps(row for _, row in sorted(found, key=place)))


def _first_steps(rows: Iterable[Row]) -> Iterator[Row]:
    """Of a tensor that differs at several steps the first one."""
    seen: set[tuple[Checker, int, str]] = set()
    for row in rows:
        if isinstance(row, TensorRow):
            key = row.checker, row.place.rank, row.name
            if key in seen:
                continue
            seen.add(key)
        yield row


def _count(compared: Compared) -> int:
    return sum(outcome.counts[level] for outcome in compared.outcomes for level in (Level.ERROR, Level.WARNING))


def sentence(row: Row) -> Phrase:
    """A row in words: `hyperparameters: lr: 0.1 | 0.2`."""
    return phrase("{checker}: {what}", checker=phrase(row.checker.value), what=what(row))


def what(row: Row) -> Phrase:
    """The same without the checker."""
    if isinstance(row, SettingRow):
        return names_and_values(row)
    if isinstance(row, RandomRow):
        site = row.bench or row.cmp
        return phrase(
            "{name} was called {a} | {b} times on rank {rank} from {place}",
            name=row.op,
            a=0 if row.bench is None else row.bench.count,
            b=0 if row.cmp is None else row.cmp.count,
            rank=row.rank,
            place=site.stack[-1] if site is not None and site.stack else phrase("an unknown place"),
        )
    where = phrase("at step {step}, rank {rank}", step=row.place.step, rank=row.place.rank)
    name: Words = row.name or phrase("everything")
    if row.kind is not Kind.DIFFERS:
        return phrase("{name} {where}: {kind}", name=name, where=where, kind=phrase(row.kind.value))
    names = ("max", "min", "mean", "norm")
    apart = ", ".join(f"{name} {each:.3g}" for name, each in zip(names, row.relative, strict=True) if each)
    if not apart:
        return phrase("{name} {where} differs: from zero, or by a non-numeric relative amount", name=name, where=where)
    return phrase("{name} {where} differs: {apart}, relative", name=name, where=where, apart=apart)
