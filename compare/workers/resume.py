"""Resume an interrupted comparison: results are stored in a journal next to the report until that is finished.

The journal is `.compare-<digest>.jsonl`: a first line that identifies the comparison, then one line for each result,
written immediately and never changed. A killed process loses the line that was being written. A comparison never fails
because of its journal: if it cannot be written, nothing can be resumed, and a warning is logged.
"""

import json
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any

from msprobe.base.log import log_once
from msprobe.base.version import installed
from msprobe.store.lock import claim

VERSION = 1
"""Version of the form of the journal. Others are not read, but started again."""


class Resume:
    """The journal of one comparison, whose `key` contains everything that its results depend on.

    One process at a time has it; a second one with the same key computes everything itself. Results are JSON values
    (floats are restored exactly, also NaN and infinities; a tuple is restored as a list).
    """

    def __init__(self, folder: Path, key: str) -> None:
        digest = blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        self._head = json.dumps({"journal": VERSION, "msprobe": installed(), "key": digest}).encode() + b"\n"
        self._path = folder / f".compare-{digest}.jsonl"
        self._known: dict[str, Any] = {}
        self._number: int | None = None
        try:
            self._number = claim(self._path, create=True)
        except OSError as err:
            self._give_up(err)
            return
        if self._number is None:
            log_once(
                f"{self._path}: held",
                f"{self._path.parent}: another process runs the same comparison; this one computes everything and "
                "cannot be resumed",
            )
            return
        try:
            self._read(self._number)
        except OSError as err:
            self._give_up(err)

    def known(self) -> dict[str, Any]:
        """Return the results that existed on opening, by the keys of their tasks."""
        return self._known

    def add(self, task: str, result: Any) -> None:
        """Store a result; after this returns, a killed process does not lose it."""
        if self._number is None:
            return
        line = json.dumps([task, result], separators=(",", ":")).encode() + b"\n"
        try:
            # On a full disk a part may fit: then writing the rest fails, and the incomplete line is the last.
            while line:
                line = line[os.write(self._number, line) :]
        except OSError as err:
            self._give_up(err)

    def done(self) -> None:
        """Delete the journal: the comparison is finished."""
        if self._number is not None:
            try:
                os.unlink(self._path)
            except OSError as err:
                log_once(f"{self._path}: left", f"{self._path}: cannot be removed ({err.strerror}); delete it manually")
        self.close()

    def close(self) -> None:
        """Close the journal and keep it for the next time. May be repeated."""
        if self._number is not None:
            os.close(self._number)
            self._number = None

    def __enter__(self) -> "Resume":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _read(self, number: int) -> None:
        """Read the complete lines, and truncate the rest; without the correct first line that is everything."""
        with open(number, "rb", closefd=False) as file:
            kept = 0
            if file.readline() == self._head:
                kept = len(self._head)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    try:
                        task, result = json.loads(line)
                        self._known[task] = result
                    except (ValueError, TypeError, RecursionError):  # not a line of this format
                        break
                    kept += len(line)
        os.ftruncate(number, kept)
        if not kept:
            os.write(number, self._head)

    def _give_up(self, err: OSError) -> None:
        log_once(
            f"{self._path.parent}: no journal",
            f"{self._path.parent}: the progress of the comparison cannot be saved here ({err.strerror}); it "
            "continues, but cannot be resumed if it is interrupted",
        )
        self.close()


def fingerprint(paths: Iterable[str | os.PathLike[str]]) -> str:
    """Return a digest of the paths, sizes and modification times of files; their order does not matter.

    It changes if a file is written again, grows, appears or disappears; nothing is read, and 100,000 files take a
    second.
    """
    digest = blake2b(digest_size=16)
    for path in sorted(map(os.path.abspath, paths)):
        try:
            state = os.stat(path)
            text = f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0"
        except OSError:
            text = f"{path}\0absent\0"
        digest.update(text.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
