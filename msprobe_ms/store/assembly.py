"""The files of a dump from its journal, in the format that the journal names."""

from pathlib import Path

from .columnar.records import write_records
from .journal import Journal, assemble


def write_files(folder: Path, journal: Journal, rebuilt: bool = False) -> None:
    """Write the JSON files, or the table of a columnar dump, each whole or not at all.

    OSError if writing fails, DumpError if pyarrow is needed and lacking; files that were there then still are.
    """
    (write_records if journal.columnar else assemble)(folder, journal, rebuilt)
