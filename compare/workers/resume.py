"""An interrupted comparison goes on where it was: results are kept in a journal beside the report until that is done.

The journal is `.compare-<digest>.jsonl`: a first line that says what it belongs to, then one line for each result,
written at once and never changed. A killed process loses the line that was being written. A comparison never fails
because of its journal: where it cannot be kept, there is nothing to resume from, and a warning says so.
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
"""Of the journal's form. Another one is not read, but begun anew."""


class Resume:
    """The journal of one comparison, whose `key` says everything that its results depend on.

    One process at a time has it; a second one with the same key computes everything itself. Results are JSON values (a
    float, NaN and infinities too, comes back as it was; a tuple comes back as a list).
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
        """Return the results that were there on opening, by the keys of their tasks."""
        return self._known

    def add(self, task: str, result: Any) -> None:
        """Keep a result; when this returns, a killed process no longer loses it."""
        if self._number is None:
            return
        line = json.dumps([task, result], separators=(",", ":")).encode() + b"\n"
        try:
            # On a full disk a part may fit: the rest then fails, and the torn line is the last.
            while line:
                line = line[os.write(self._number, line) :]
        except OSError as err:
            self._give_up(err)

    def done(self) -> None:
        """The comparison is finished: its journal goes."""
        if self._number is not None:
            try:
                os.unlink(self._path)
            except OSError as err:
                log_once(f"{self._path}: left", f"{self._path}: cannot be removed ({err.strerror}); delete it manually")
        self.close()

    def close(self) -> None:
        """Let go of the journal and leave it for the next time. May be repeated."""
        if self._number is not None:
            os.close(self._number)
            self._number = None

    def __enter__(self) -> "Resume":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _read(self, number: int) -> None:
        """Take over the complete lines, and cut off what follows them; without the right first line that is all."""
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
                    except (ValueError, TypeError, RecursionError):  # not a line of ours
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
    """Return a digest of which files these are, how large, and when they were last written; their order does not
    matter.

    A file that is written again, grows, comes or goes changes it; nothing is read, and 100,000 files take a second.
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
