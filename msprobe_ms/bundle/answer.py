"""Compare two sides as `msprobe compare` does, and keep what it printed, logged and wrote."""

import json
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.files import open_text
from msprobe.base.log import logger, terminal_line
from msprobe.compare.request import Request

_TIME = re.compile(r"_\d{14}(?:_\d+)?(?=\.json\b)")
_TABLES = ("compare_result", "debug_compare_result", "result", "compare_summary", "diff_analyze")
_ROW = re.compile(r"  (?P<row>\{.*\}),?\n?")
_NAMES = ("NPU Name", "Bench Name")
_JUDGED = ("Verdict", "Begins")
MERGED = "merged"
"""The folder of the output that has merged ranks, which are dumps."""

Change = Callable[[str], str]


@dataclass(frozen=True)
class Answer:
    """What a comparison said: the exit code, the printed lines, the message or traceback of a failure, what was logged,
    and its tables by their names without the time."""

    exit_code: int
    lines: tuple[str, ...] = ()
    failure: str = ""
    traceback: str = ""
    log: tuple[str, ...] = ()
    tables: dict[str, Path] = field(default_factory=dict)


class _Kept(logging.Handler):
    """Keeps messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(_TIME.sub("", f"{record.levelname}: {record.getMessage()}"))


@contextmanager
def _log_kept(is_shown: bool) -> Iterator[list[str]]:
    """Keep what is logged in the block, which is printed only if `is_shown`."""
    kept, others = _Kept(), list(logger.handlers)
    logger.addHandler(kept)
    for each in () if is_shown else others:
        logger.removeHandler(each)
    try:
        yield kept.messages
    finally:
        logger.removeHandler(kept)
        for each in others:
            logger.addHandler(each)


def answer_of(request: Request, output: Path, is_shown: bool) -> Answer:
    """Compare, with the tables as JSON in `output`. A failure is an answer too.

    UsageError for a request that is invalid: the command line is to be corrected.
    """
    from msprobe.compare.dispatch import compare_paths, verdicts_of

    request = replace(request, output=output, format="json", resume=False)
    with _log_kept(is_shown) as messages:
        try:
            result = compare_paths(request, logging.DEBUG)
            lines = tuple(_TIME.sub("", terminal_line(line)) for line in result.lines())
            return Answer(verdicts_of(result).exit_code, lines, log=tuple(messages), tables=_tables(output))
        except UsageError:
            raise
        except MsprobeError as err:
            return Answer(2, failure=terminal_line(str(err)), log=tuple(messages), tables=_tables(output))
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as err:  # that is what will be reported
            text = terminal_line(f"{type(err).__name__}: {err}")
            return Answer(
                2, failure=text, traceback=traceback.format_exc(), log=tuple(messages), tables=_tables(output)
            )


def _tables(output: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(output.rglob("*.json")):
        relative = path.relative_to(output)
        if relative.parts[0] != MERGED and relative.name.startswith(_TABLES):
            found[_TIME.sub("", relative.as_posix())] = path
    return found


def without_message(answer: Answer) -> Answer:
    """Return an answer of which only the kind of its failure is left: a message may repeat an argument of a call."""
    kind = (
        answer.failure.partition(":")[0] if answer.traceback else "a failure that occurs only with the original dumps"
    )
    return replace(answer, lines=(), failure=kind, log=(), tables={}, traceback="")


def write_table(path: Path, into: Path, change: Change, name: Change) -> None:
    """Copy a table of JSON with its texts changed, and the names of records by `name`; row by row."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with open_text(path) as table, open(into, "x", encoding="utf-8") as file:
        head: list[str] = []
        for line in table:
            if line.strip() == '"rows": [':
                break
            head.append(line)
        else:  # a table without rows
            json.dump(_changed(json.loads("".join(head)), change), file, ensure_ascii=False, indent=1)
            file.write("\n")
            return
        above = _changed(json.loads("".join(head).rstrip().rstrip(",") + "}"), change)
        file.write(json.dumps(above, ensure_ascii=False, indent=1)[:-2] + ',\n "rows": [')
        for at, row in enumerate(_rows(table)):
            made = {k: name(v) if k in _NAMES else change(v) if isinstance(v, str) else v for k, v in row.items()}
            file.write((",\n  " if at else "\n  ") + json.dumps(made, ensure_ascii=False))
        file.write("\n ]\n}\n")


def _rows(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(found["row"]) for line in lines if (found := _ROW.fullmatch(line)))


def _changed(value: Any, change: Change) -> Any:
    if isinstance(value, dict):
        return {key: _changed(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    if not isinstance(value, str):
        return value
    return change(_TIME.sub("", value))


def differing(ours: Answer, theirs: Answer, name: Change) -> tuple[int, int]:
    """Return in how many places two answers differ, and how many pairs of records the first one has.

    `name` changes names of ours to those of theirs. A place is a pair (its verdict, and whether a difference begins
    there), a table (its first wrong calls and counts, and whether both have it), or the exit code.
    """
    places = int(ours.exit_code != theirs.exit_code) + int(bool(ours.failure) != bool(theirs.failure))
    pairs = 0
    places += len(ours.tables.keys() ^ theirs.tables.keys())
    for table, path in ours.tables.items():
        count, own = 0, _verdicts(path, name)
        other = _verdicts(theirs.tables[table], str) if table in theirs.tables else None
        for row in own:
            count += len(row) > len(_NAMES)
            places += other is not None and row != next(other, None)
        places += sum(1 for _ in other) if other is not None else 0
        pairs += count
    return places, pairs


def _verdicts(path: Path, name: Change) -> Iterator[tuple[object, ...]]:
    """Yield what a table says of verdicts: first of the whole, then of each row."""
    with open_text(path) as table:
        head = []
        for line in table:
            if line.strip() == '"rows": [':
                break
            head.append(line)
        else:
            return
        above = json.loads("".join(head).rstrip().rstrip(",") + "}")
        found = [(name(one["name"]), one["kind"]) for key in ("first_wrong", "next_beginnings") for one in above[key]]
        yield (str(above["counts"]), str(found))
        for row in _rows(table):
            names = (name(str(row.get(title))) for title in _NAMES)
            yield (*names, *(row.get(title) for title in _JUDGED))
