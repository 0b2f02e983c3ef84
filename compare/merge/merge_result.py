"""The tables of several ranks are found, read, joined and written."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.log import logger
from msprobe.base.visible import visible
from msprobe.store.claim import claimed

from .choice import Choice, check_measures, read_choice
from .find import tables_of_ranks
from .merged import Merged, merge
from .tables import BESIDE, Mode, Table, measures_of, open_table
from .write import write_csv_files, write_workbook


def merge_result(folder: Path, output: Path, config: Path, *, form: str = "xlsx") -> tuple[Path, ...]:
    """Put the comparison tables that lie in a folder side by side; gives the files that were written.

    `form` is `xlsx`, for one file with a sheet per measure, or `csv`, for a file per measure. UsageError where the
    tables or the file `config` cannot be read or meant, or no record was asked for.
    """
    choice = read_choice(config)
    paths = tables_of_ranks(folder)
    logger.info("merging %d tables, of the ranks %s", len(paths), ", ".join(map(str, paths)))
    merging = _Merging(config, choice, paths)
    merged = merge(merging.tables(), merging.measures, merging.place_of)
    merging.check(folder)
    task = f"merge_result {folder.absolute()} {choice} {form}"
    with claimed(output, task, lambda second: _paths(output, second, merged, form)) as second:
        written = _paths(output, second, merged, form)
        try:
            if form == "csv":
                write_csv_files(written, merged)
            else:
                write_workbook(written[0], merged)
        except OSError as err:
            raise UsageError(f"{output}: cannot be written ({err.strerror}); give another folder with -o") from err
        return written


class _Merging:
    """One merging: opens the tables one after the other, holds them to the first, and notes what was found in them."""

    def __init__(self, config: Path, choice: Choice, paths: Mapping[int, Path]) -> None:
        self._config, self._choice, self._paths = config, choice, paths
        self._used: set[int] = set()
        self._first = next(iter(paths.values()))
        self._mode: Mode = open_table(self._first).mode
        own = measures_of(self._mode)
        check_measures(config, choice.compare_index, (*own, *BESIDE[self._mode]))
        self.measures = choice.compare_index or own
        self._without: dict[str, list[int]] = {title: [] for title in self.measures}

    def tables(self) -> Iterator[tuple[int, Table]]:
        """Every table with its rank; UsageError for one of another mode than the first."""
        for rank, path in self._paths.items():
            table = open_table(path)
            if table.mode != self._mode:
                raise UsageError(
                    f"{self._first} compares by {self._mode} and {path} by {table.mode}; merge tables of one kind"
                )
            for title in self.measures:
                if title not in table.titles:
                    self._without[title].append(rank)
            yield rank, table

    def place_of(self, name: str) -> int | None:
        """The place of the first entry that a record belongs to; None where it was not asked for."""
        places = self._choice.places_of(name)
        self._used.update(places)
        return places[0] if places else None

    def check(self, folder: Path) -> None:
        """Say what was asked for and was not there; UsageError where nothing was, or no table had a measure."""
        if not self._used:
            raise UsageError(
                f"{self._config}: no record in {folder} has one of these in its name: "
                f"{', '.join(self._choice.api)[:300]}; take entries from the column NPU Name of the tables"
            )
        for at, entry in enumerate(self._choice.api):
            if at not in self._used:
                logger.warning("%s: no record has %s in its name", self._config, visible(entry))
        for title, ranks in self._without.items():
            if len(ranks) == len(self._paths):
                raise UsageError(
                    f"{self._config}: compare_index holds {title}, and no table in {folder} has that column; leave it "
                    "out, or compare again with this version"
                )
            if ranks:
                logger.warning("%s stays empty for rank %s: no such column there", title, ", ".join(map(str, ranks)))


def _paths(output: Path, second: str, merged: Merged, form: str) -> tuple[Path, ...]:
    stem = f"multi_ranks_compare_merge_{second}"
    if form == "csv":
        return tuple(output / f"{stem}_{measure.replace(' ', '_')}.csv" for measure in merged.measures)
    return (output / f"{stem}.xlsx",)
