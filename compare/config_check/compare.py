"""Compare two packs: every checker that both sides have, row by row into a workbook."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.files import writing
from msprobe.base.redaction import Redactor
from msprobe.base.verdicts import Verdicts
from msprobe.compare.tables.workbook import Workbook
from msprobe.store import config_pack
from msprobe.store.config_pack import ConfigPack, opened
from msprobe.store.lock import exclusive

from . import context, environment, hyperparameters, packages, random_calls, tensors
from .findings import Checker, Kind, Level, OneSided, Outcome, Row, SettingRow
from .sheets import COLUMNS, SUMMARY, SUMMARY_COLUMNS, cells_of, summary_rows

RESULT = "result.xlsx"

MAX_ROWS_KEPT = 1000
"""Number of rows of each level that are kept for the console; the workbook has all."""

Frameworks = tuple[str, str]


@dataclass(frozen=True)
class Compared:
    """Result of a comparison: an outcome for each checker that a side has, and the workbook."""

    bench: Path
    cmp: Path
    outcomes: tuple[Outcome, ...]
    result: Path

    @property
    def verdicts(self) -> Verdicts:
        """Return the verdicts of the checkers."""
        fine = sum(outcome.level is Level.PASS for outcome in self.outcomes)
        gaps = Counter(outcome.one_sided for outcome in self.outcomes if outcome.level is Level.UNJUDGED)
        return Verdicts(fine, len(self.outcomes) - fine - gaps.total(), gaps)


def compare_packs(bench: Path, cmp: Path, output: Path, watch: Callable[[Row], object] | None = None) -> Compared:
    """Compare, and write `result.xlsx` below `output`; an older one is replaced. `watch` receives every row.

    Raise a DumpError if a side cannot be read or is not trusted, a UsageError if the output cannot be written.
    """
    with opened(bench) as ours, opened(cmp) as theirs, writing(output), exclusive(output), Workbook() as book:
        frameworks = framework_of(ours), framework_of(theirs)
        outcomes = []
        for checker in Checker:
            if not (_HAS[checker](ours) or _HAS[checker](theirs)):
                continue
            outcome = Outcome(checker, _one_sided(checker, ours, theirs))
            outcomes.append(outcome)
            if outcome.one_sided is OneSided.NO:
                rows = _taken(outcome, _ROWS[checker](ours, theirs, frameworks), watch)
                book.add(checker.value, COLUMNS[checker], rows)
        book.add(SUMMARY, SUMMARY_COLUMNS, summary_rows(outcomes), at_front=True)
        book.save(output / RESULT)
    return Compared(bench, cmp, tuple(outcomes), output / RESULT)


def _taken(outcome: Outcome, rows: Iterator[Row], watch: Callable[[Row], object] | None) -> Iterator[Any]:
    for row in rows:
        outcome.take(row, MAX_ROWS_KEPT)
        if watch is not None:
            watch(row)
        yield cells_of(row), row.level.value


def framework_of(pack: ConfigPack) -> str:
    """Return `mindspore` or `pytorch`, as the pack has it, or by its random functions; empty if unknown."""
    named = pack.about.get("framework")
    if named in ("mindspore", "pytorch"):
        return str(named)
    called = [op.partition(".")[0] for rank in pack.random_ranks[:1] for op in pack.object(config_pack.random(rank))]
    return "pytorch" if "torch" in called else "mindspore" if "mindspore" in called else ""


def _has_entry(name: str) -> Callable[[ConfigPack], bool]:
    return lambda pack: name in pack.names


_HAS: dict[Checker, Callable[[ConfigPack], bool]] = {
    Checker.ENV: _has_entry(config_pack.ENV),
    Checker.PIP: _has_entry(config_pack.PIP),
    Checker.DATASET: lambda pack: bool(pack.places("dataset")),
    Checker.WEIGHTS: lambda pack: bool(pack.places("weights")),
    Checker.HYPERPARAMETERS: lambda pack: bool(pack.settings_files),
    Checker.RANDOM: lambda pack: bool(pack.random_ranks),
    Checker.CONTEXT: _has_entry(config_pack.CONTEXT),
}


def _one_sided(checker: Checker, bench: ConfigPack, cmp: ConfigPack) -> OneSided:
    """Return why there is nothing to compare, if there is not."""
    has_bench, has_cmp = _HAS[checker](bench), _HAS[checker](cmp)
    if not (has_bench and has_cmp):
        return OneSided.BENCH if has_bench else OneSided.CMP
    shared: bool = True
    if checker in (Checker.DATASET, Checker.WEIGHTS):
        shared = bool({*bench.places(checker.value)} & {*cmp.places(checker.value)})
    elif checker is Checker.RANDOM:
        shared = bool({*bench.random_ranks} & {*cmp.random_ranks})
    elif checker is Checker.HYPERPARAMETERS:
        shared = bool({*bench.settings_files} & {*cmp.settings_files})
    return OneSided.NO if shared else OneSided.APART


def _env(bench: ConfigPack, cmp: ConfigPack, _: Frameworks) -> Iterator[Row]:
    yield from environment.compare(_variables(bench), _variables(cmp))


def _variables(pack: ConfigPack) -> Mapping[str, str]:
    """Return the variables with secrets redacted, since another tool packs them unchanged."""
    redactor = Redactor()
    return {name: redactor.variable(name, str(value)) for name, value in pack.object(config_pack.ENV).items()}


def _pip(bench: ConfigPack, cmp: ConfigPack, frameworks: Frameworks) -> Iterator[Row]:
    yield from packages.compare(_versions(bench), _versions(cmp), frameworks)


def _versions(pack: ConfigPack) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in pack.text(config_pack.PIP).splitlines():
        name, has_version, version = line.partition("=")
        if has_version and name:
            found.setdefault(name.strip(), version.strip("= "))  # if there are two, the first is imported
    return found


def _settings(bench: ConfigPack, cmp: ConfigPack, _: Frameworks) -> Iterator[Row]:
    for file in sorted({*bench.settings_files, *cmp.settings_files}):
        sides = [file in pack.settings_files for pack in (bench, cmp)]
        if all(sides):
            entry = f"{config_pack.HYPERPARAMETERS}/{file}"
            yield from hyperparameters.compare(file, bench.object(entry), cmp.object(entry))
        else:
            kind = Kind.BENCH_ONLY if sides[0] else Kind.CMP_ONLY
            names = (file, "") if sides[0] else ("", file)
            yield SettingRow(Checker.HYPERPARAMETERS, kind, Level.WARNING, *names, None, None, file=file)


def _context(bench: ConfigPack, cmp: ConfigPack, _: Frameworks) -> Iterator[Row]:
    yield from context.compare(bench.object(config_pack.CONTEXT), cmp.object(config_pack.CONTEXT))


_Rows = Callable[[ConfigPack, ConfigPack, Frameworks], Iterator[Row]]

_ROWS: dict[Checker, _Rows] = {
    Checker.ENV: _env,
    Checker.PIP: _pip,
    Checker.DATASET: lambda bench, cmp, both: tensors.compare(Checker.DATASET, bench, cmp, both),
    Checker.WEIGHTS: lambda bench, cmp, both: tensors.compare(Checker.WEIGHTS, bench, cmp, both),
    Checker.HYPERPARAMETERS: _settings,
    Checker.RANDOM: random_calls.compare,
    Checker.CONTEXT: _context,
}
