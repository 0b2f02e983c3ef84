"""The sheets of a comparison of packs: their columns, as msprobe 26 has them, and the cells of each row."""

import json
from collections.abc import Iterable, Iterator, Sequence

from msprobe.base.phrase import Phrase, Words, joined, phrase
from msprobe.base.schema import NAMES
from msprobe.compare.tables.cells import Cell, guard, number
from msprobe.compare.tables.columns import Column

from .findings import SEVERITY, CallSite, Checker, Kind, Match, OneSided, Outcome, RandomRow, Row, SettingRow, TensorRow

SUMMARY = "summary"

SUMMARY_COLUMNS = (
    Column("filename", "the checker; its rows are on the sheet with this name", 18),
    Column("pass_check", "`pass`, `warning`, `error`; ours: `unjudged` where nothing could be compared", 12),
    Column("remark", "ours: the number of rows of each level, or why nothing was compared", 70),
)

_VALUES = (
    Column("bench_value", "value in the first pack; empty without one", 36),
    Column("cmp_value", "value in the second pack", 36),
)
_LEVEL = Column("level", "`error` or `warning`; ours: `info`, which decides nothing", 10)
_RELATIVE = tuple(
    Column(f"{name}_relative_diff", "relative to the absolute value in the first pack; empty where that is 0", 16)
    for name in NAMES
)
_PLACE = (Column("step", "number of the model's forward", 8), Column("rank", "number of the rank", 8))
_EQUAL = Column("equal", "whether maximum, minimum, mean and norm are equal, or the only side that has it", 16)

COLUMNS: dict[Checker, tuple[Column, ...]] = {
    Checker.ENV: (
        Column("bench_env_name", "the variable in the first pack", 34),
        Column("cmp_env_name", "the variable in the second pack: names differ between NPU and GPU", 34),
        *_VALUES,
        _LEVEL,
    ),
    Checker.PIP: (
        Column("package", "the distribution", 34),
        Column("bench version", "version in the first pack; empty without one", 24),
        Column("cmp version", "version in the second pack", 24),
        _LEVEL,
    ),
    Checker.DATASET: (*_PLACE, Column("tag", "the argument of the model", 40), _EQUAL, *_RELATIVE),
    Checker.WEIGHTS: (*_PLACE, Column("weight_name", "the parameter", 60), _EQUAL, *_RELATIVE),
    Checker.HYPERPARAMETERS: (
        Column("file_name", "the file of settings in the packs", 30),
        Column("bench_para", "the setting in the first pack", 36),
        Column("cmp_para", "the setting in the second pack", 36),
        *_VALUES,
        Column("matched_with", "how the two were matched: `pure name`, `mapping`, `similarity:<ratio>`", 24),
        _LEVEL,
    ),
    Checker.RANDOM: (
        Column("op", "the function", 30),
        Column("rank", "number of the rank", 8),
        Column("bench_stack", "call stack in the first run, outermost call first", 70),
        Column("cmp_stack", "the same of the second run", 70),
        Column("bench_count", "number of calls from there; 0 without a counterpart", 12),
        Column("cmp_count", "the same of the second run", 12),
        Column("check_result", "whether both counts are the same", 14),
    ),
    Checker.CONTEXT: (
        Column("bench_setting", "ours: the setting of the framework in the first run", 36),
        Column("cmp_setting", "ours: its counterpart in the second run", 36),
        *_VALUES,
        _LEVEL,
    ),
}
"""The columns by checker; `context` is not in msprobe."""

NO_STACK = "no match stack"
_ONLY = {Kind.BENCH_ONLY: "Only in benchmark", Kind.CMP_ONLY: "Only in comparison"}


def cells_of(row: Row) -> Sequence[Cell]:
    """Return the cells of a row, in the order of its checker's columns."""
    if isinstance(row, TensorRow):
        equal: Cell = {Kind.EQUAL: True, Kind.DIFFERS: False}.get(row.kind, row.kind.value)
        relative = ("" if each is None else number(each) for each in row.relative)
        return row.place.step, row.place.rank, guard(row.name) or "all", equal, *relative
    if isinstance(row, RandomRow):
        stacks, counts = zip(*(_site(site) for site in (row.bench, row.cmp)), strict=True)
        checked: Cell = row.kind.value if row.kind is Kind.NOT_COUNTED else row.kind is Kind.EQUAL
        return guard(row.op), row.rank, *stacks, *counts, checked
    values = value_cell(row.bench), value_cell(row.cmp)
    if row.checker is Checker.PIP:
        return guard(row.name), *values, row.level.value
    if row.checker is not Checker.HYPERPARAMETERS:
        return guard(row.bench_name), guard(row.cmp_name), *values, row.level.value
    names = guard(row.bench_name or _ONLY[row.kind]), guard(row.cmp_name or _ONLY[row.kind])
    if row.kind is Kind.BENCH_ONLY:
        names = guard(row.bench_name), _ONLY[row.kind]
    elif row.kind is Kind.CMP_ONLY:
        names = _ONLY[row.kind], guard(row.cmp_name)
    matched = row.match.value
    if row.match is Match.SIMILAR:
        matched = f"{matched}:{row.similarity}"
    return guard(row.file), *names, *values, matched, row.level.value


def value_cell(value: object) -> Cell:
    """Return a value as a cell; texts and nested JSON as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return number(value)
    return guard(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _site(site: CallSite | None) -> tuple[Cell, Cell]:
    if site is None:
        return NO_STACK, 0
    return guard("\n".join(site.stack)), number(site.count)


def summary_rows(outcomes: Iterable[Outcome]) -> Iterator[tuple[Sequence[Cell], str]]:
    """Return one row for each checker."""
    for outcome in outcomes:
        yield (outcome.checker.value, outcome.level.value, str(remark(outcome))), outcome.level.value


def remark(outcome: Outcome) -> Words:
    """Return the number of rows of each level, or why nothing was compared."""
    if outcome.one_sided is not OneSided.NO:
        return phrase(outcome.one_sided.value)
    found = [(level.value, outcome.counts[level]) for level in reversed(SEVERITY) if outcome.counts[level]]
    return joined(
        [phrase("{number} {grade}", number=number, grade=level) for level, number in found], "{before}, {after}"
    )


def names_and_values(row: SettingRow) -> Phrase:
    """Return `lr: 0.1 | 0.2`, with both names if they differ."""
    name = " / ".join(dict.fromkeys(name for name in (row.bench_name, row.cmp_name) if name))
    return phrase("{name}: {a} | {b}", name=name, a=_shown(row.bench), b=_shown(row.cmp))


def _shown(value: object) -> Words:
    return phrase("not set") if value is None else str(value_cell(value))
