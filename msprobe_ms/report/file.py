"""The file of a report: the built page with chunks of data."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import strftime
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder, replace_atomically, writing
from msprobe.base.phrase import Phrase, phrase

from .document import Head
from .embed import MARK, element, encoded

PAGE = Path(__file__).with_name("page.html")
"""The built page; a part of the installed package."""


@dataclass
class Chunks:
    """The chunks of a report while it is written, by number; equal ones are stored once. 0 is reserved for the head."""

    held: list[bytes] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def put(self, chunk: bytes) -> int:
        """Return the number of a chunk that is encoded already."""
        number = self._numbers.get(chunk)
        if number is None:
            self.held.append(chunk)
            number = self._numbers[chunk] = len(self.held)
        return number

    def add(self, value: Any) -> int:
        """Return the number of the chunk with an object of `document`."""
        return self.put(encoded(value))


@dataclass(frozen=True)
class Report:
    """A report that can be written: its head, and the chunks that the head refers to."""

    head: Head
    chunks: Chunks

    def write(self, path: Path) -> None:
        """Write the page; an older file is replaced. Raise a UsageError if writing fails."""
        before, after = _page()
        with writing(path, "give another file with -o"):
            make_folder(path.parent)
            with replace_atomically(path) as file:
                file.write(before)
                file.writelines(self._elements())
                file.write(after)

    def _elements(self) -> Iterable[bytes]:
        from msprobe.findings.texts import texts  # here: all kinds and their translations are only needed for a page

        messages = self.chunks.add(texts())
        yield element(0, encoded(replace(self.head, messages=messages)))
        for number, chunk in enumerate(self.chunks.held, 1):
            yield element(number, chunk)


def check_page() -> None:
    """Raise a UsageError if the installation has no page, before anything is compared for it."""
    _page()


def _page() -> tuple[bytes, bytes]:
    """Return the page before and after the place of the data."""
    try:
        text = PAGE.read_bytes()
    except OSError as err:
        raise UsageError(
            f"{PAGE}: the page of reports is missing in this installation ({err.strerror}); install msprobe-ms again"
        ) from err
    before, found, after = text.partition(MARK.encode())
    if not found or MARK.encode() in after:
        raise UsageError(f"{PAGE}: is no page of reports; install msprobe-ms again")
    return before, after


def against(target: Path, golden: Path) -> Phrase:
    """Return `A against B`, the title of a report: the names of the paths, with the folders that distinguish them."""
    ours, theirs = target.absolute().parts, golden.absolute().parts
    most = max(len(ours), len(theirs))
    size = next((size for size in range(1, most + 1) if ours[-size:] != theirs[-size:]), 1)
    target_said, golden_said = "/".join(ours[-size:]), "/".join(theirs[-size:])
    return phrase("{target} against {golden}", target=target_said, golden=golden_said)


def now() -> str:
    """Return the time of a head."""
    return strftime("%Y-%m-%d %H:%M:%S")
