"""The answer of a comparison of packs as lines, the most important one last."""

from collections.abc import Iterable, Iterator

from .compare import Compared
from .findings import SEVERITY, Checker, Kind, Level, OneSided, Outcome, RandomRow, Row, SettingRow, TensorRow
from .sheets import names_and_values, remark

_CAUSES = (
    *(Checker.HYPERPARAMETERS, Checker.CONTEXT, Checker.ENV, Checker.PIP),
    *(Checker.WEIGHTS, Checker.DATASET, Checker.RANDOM),
)
"""What explains the rest stands first: other settings make other weights, and draw other numbers."""


def lines(compared: Compared, top: int) -> Iterator[str]:
    """The outcome of each checker, at most `top` rows that matter, and the answer."""
    for outcome in compared.outcomes:
        words = remark(outcome)
        yield f"{outcome.checker.value}: {outcome.level.value}" + f" ({words})" * bool(words)
    rows = by_importance(compared)
    shown = rows[: max(top, 1)]
    if (more := _count(compared) - len(shown)) > 0:
        yield f"{more} more rows: {compared.result}"
    yield from (f"{row.level.value}: {sentence(row)}" for row in reversed(shown[1:]))
    yield _answer(compared, rows)


def _answer(compared: Compared, rows: list[Row]) -> str:
    sides = f"{compared.bench} and {compared.cmp}"
    if rows:
        return f"{rows[0].level.value}: {sentence(rows[0])} ({sides})"
    unjudged = [outcome for outcome in compared.outcomes if outcome.one_sided is not OneSided.NO]
    if unjudged:
        which = ", ".join(f"{outcome.checker.value} ({outcome.one_sided.value})" for outcome in unjudged)
        return f"unjudged: {which}; everything else passes ({sides})"
    return f"pass: nothing that matters differs between {sides}"


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


def sentence(row: Row) -> str:
    """A row in words: `hyperparameters: lr: 0.1 | 0.2`."""
    where = row.checker.value
    if isinstance(row, SettingRow):
        return f"{where}: {names_and_values(row)}"
    if isinstance(row, RandomRow):
        counts = [0 if site is None else site.count for site in (row.bench, row.cmp)]
        site = row.bench or row.cmp
        last = site.stack[-1] if site is not None and site.stack else "an unknown place"
        return f"{where}: {row.op} was called {counts[0]} | {counts[1]} times on rank {row.rank} from {last}"
    return f"{where}: {_tensor(row)}"


def _tensor(row: TensorRow) -> str:
    where = f"at step {row.place.step}, rank {row.place.rank}"
    if row.kind is not Kind.DIFFERS:
        return f"{row.name or 'everything'} {where}: {row.kind.value}"
    names = ("max", "min", "mean", "norm")
    apart = (f"{name} {each:.3g}" for name, each in zip(names, row.relative, strict=True) if each)
    return f"{row.name} {where} differs: {', '.join(apart) or 'from zero, or by what is no number'}, relative"
