"""The csv files of a check: results, details, and skipped directions. utf-8 with BOM, appended API by API.

`accuracy_checking_result_TIME.csv` has a row for each API, `accuracy_checking_details_TIME.csv` one for each output,
`accuracy_checking_skipped_TIME.csv` one for each direction that was not checked. The headings of msprobe come first.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import FILE_MODE, NO_FOLLOW, make_folder, open_text, replace_atomically, writing
from msprobe.base.log import logger
from msprobe.base.verdicts import Verdicts
from msprobe.compare.tables.cells import guard
from msprobe.replay.recorded import Cause

from .check import UNASKED, Checked, Direction, Output, Why
from .devices import Compared
from .judge import Status
from .standards import RATIOS
from .turns import Key, Turn

RESULT = ("API Name", "Forward Test Success", "Backward Test Success", "Message")

DETAILS_OF_MSPROBE = (
    *("API Name", "Bench Dtype", "Tested Dtype", "Shape", "Cosine", "MaxAbsErr", "MaxRelativeErr", "Status", "Message"),
)

DETAILS = (
    *DETAILS_OF_MSPROBE,
    *("Golden Dtype", "Max ULP", "Criterion", "Reason"),
    *("Mean ULP", "ULP Share", "RMSE", "MeanRelativeErr", "Small Value Error Share", "Error Balance"),
    *("Error", "Limit", "Worst Element", "Assumed"),
)
"""Headings of the details, those of msprobe in the first row. `Error` was compared with `Limit` by the criterion;
`Worst Element` is an index of the shape. The errors for `api_precision_compare` are in between; `ULP Share`: of
elements beyond 32 ULP, in half precision 1. `Assumed`: an option that was not recorded."""

SKIPPED = ("API Name", "Direction", "Reason", "Detail")

_BOM = "\ufeff"


@dataclass(frozen=True)
class Files:
    """The three files of one check."""

    result: Path
    details: Path
    skipped: Path

    @classmethod
    def new(cls, folder: Path, time: str) -> "Files":
        """Create the files of a new check, with headings only."""
        found = cls.next_to(folder / f"accuracy_checking_result_{time}.csv")
        with writing(folder):
            make_folder(folder)
            for file, titles in ((found.result, RESULT), (found.details, DETAILS), (found.skipped, SKIPPED)):
                _append(file, _BOM + _line(titles), is_new=True)
        return found

    @classmethod
    def next_to(cls, result: Path) -> "Files":
        """Return the files of a check by the name of its results."""
        return cls(result, *(_sibling(result, kind) for kind in ("details", "skipped")))

    def beside_result(self, kind: str, suffix: str) -> Path:
        """Return another file of the check, by the name of its results."""
        return _sibling(self.result, kind).with_suffix(suffix)

    def append(self, checked: Checked) -> None:
        """Append the rows of one API, that of the results last: a resumed check assumes that the API is done if it is
        there."""
        details = [detail_row(direction, output) for direction in checked.directions for output in direction.outputs]
        with writing(self.result.parent):
            skipped, result = skipped_rows(checked), [result_row(checked)]
            for file, rows in ((self.details, details), (self.skipped, skipped), (self.result, result)):
                if rows:
                    _append(file, "".join(map(_line, rows)))

    def done(self) -> set[str]:
        """Return the APIs with a result, and remove rows of other APIs that an interrupted check has left in the files.

        The two other files are created if they are missing: msprobe 8.1 has no file of skipped directions, and its
        details have only the first columns. UsageError if the results are missing or a file has other headings.
        """
        names = set()
        for row in read_rows(self.result, RESULT):
            names.add(row["API Name"])
        for file, titles, needed in (
            (self.details, DETAILS, DETAILS_OF_MSPROBE),
            (self.skipped, SKIPPED, SKIPPED),
        ):
            is_there = os.path.lexists(file)
            kept = [row for row in (read_rows(file, needed) if is_there else ()) if _api(row["API Name"]) in names]
            if not is_there and names and file == self.details:
                logger.warning("%s: is missing; it will contain only the APIs that are checked from now on", file)
            with writing(file.parent), replace_atomically(file) as out:
                lines = (_line([row.get(title, "") for title in titles]) for row in kept)
                text = _BOM + _line(titles) + "".join(lines)
                out.write(text.encode())
        _cut_line(self.result)
        return names


def _sibling(result: Path, kind: str) -> Path:
    """Return another file of the check: `accuracy_checking_details_1.csv` of `accuracy_checking_result_1.csv`."""
    name = result.name.replace("result", kind, 1)
    return result.with_name(name if name != result.name else f"{result.stem}_{kind}{result.suffix}")


def _api(name: str) -> str:
    """Return the API of an output's name: the part before the direction."""
    for direction in (".forward", ".backward"):
        if direction in name:
            return name[: name.rindex(direction)]
    return name


def result_row(checked: Checked) -> tuple[str, ...]:
    """Return the row of an API. A direction is `pass`, `warning`, `error` or `SKIP`; empty if it was not recorded."""
    by_name = {each.direction: each for each in checked.directions}
    cells = [by_name[name].status.value if name in by_name else "" for name in ("forward", "backward")]
    words = []
    for each in checked.directions:
        if each.skipped is not None:
            words.append(f"{each.direction}: {each.skipped}")
        words += [
            f"{output.name}: {output.message}"
            for output in each.outputs
            if output.judgement.status in (Status.ERROR, Status.WARNING)
        ]
    return (guard(checked.name), *cells, guard(_placed(checked, "; ".join(words))))


def _placed(checked: Checked, words: str) -> str:
    return ": ".join(filter(None, (checked.place, words)))


def skipped_rows(checked: Checked) -> list[tuple[str, ...]]:
    """Return a row for each direction of an API that was not checked."""
    return [
        (
            guard(checked.name),
            direction.direction,
            direction.skipped.why.value,
            guard(_placed(checked, direction.skipped.detail)),
        )
        for direction in checked.directions
        if direction.skipped is not None
    ]


def detail_row(direction: Direction, output: Output) -> tuple[str, ...]:
    """Return the row of an output."""
    judgement, measures = output.judgement, output.measures
    is_half = output.dtype in ("float16", "bfloat16")
    worst = ""
    if measures.place >= 0 and output.shape and (measures.max_absolute != 0 or measures.non_finite):
        index, left = [], measures.place
        for size in reversed(output.shape):
            left, rest = divmod(left, max(size, 1))
            index.append(rest)
        worst = ",".join(map(str, reversed(index)))
    return (
        guard(output.name),
        output.golden,
        output.dtype,
        str(list(output.shape)),
        *map(_number, (measures.cosine, measures.max_absolute, measures.max_relative)),
        judgement.status.value,
        guard(str(output.message) if judgement.status in (Status.ERROR, Status.WARNING) else ""),
        output.golden,
        _number(measures.max_ulp),
        judgement.criterion.value,
        judgement.reason.value,
        *map(
            _number,
            (
                measures.mean_ulp,
                measures.ulp_near if is_half else measures.ulp_far,
                measures.rmse,
                measures.mean_relative,
            ),
        ),
        *map(_number, (measures.small_errors, measures.balance, judgement.value, judgement.limit)),
        worst,
        guard(output.label),
    )


def _number(value: float) -> str:
    return "" if value != value else f"{value:.6g}"


def _line(cells: Sequence[str]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerow(cells)
    return made.getvalue()


def _append(file: Path, text: str, *, is_new: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW | (os.O_EXCL if is_new else 0)
    number = os.open(file, flags, FILE_MODE)
    try:
        os.write(number, text.encode("utf-8", "backslashreplace"))
    finally:
        os.close(number)


def _cut_line(file: Path) -> None:
    """Take a last line away that was not written whole."""
    with file.open("rb+") as stream:
        content = stream.read()
        if not content.endswith(b"\n"):
            stream.truncate(content.rfind(b"\n") + 1)


@contextmanager
def _reader(file: Path) -> Iterator[Iterator[list[str]]]:
    try:
        with open_text(file, newline="") as stream:
            yield csv.reader(stream)
    except OSError as err:
        raise UsageError(f"{file}: cannot be read ({err.strerror or err}); give the result file of a check") from err


def read_rows(file: Path, titles: Sequence[str], torn: list[int] | None = None) -> list[Mapping[str, str]]:
    """Return the complete rows of a file by heading; UsageError if a heading is missing. `torn` receives the numbers of
    incomplete rows."""
    with _reader(file) as rows:
        head = [title.lstrip(_BOM) for title in next(rows, [])]
        if missing := [title for title in titles if title not in head]:
            raise UsageError(
                f"{file}: the column {missing[0]!r} is missing; give a file written by `msprobe acc-check`"
            )
        found: list[Mapping[str, str]] = []
        for number, row in enumerate(rows, 2):
            if len(row) == len(head):
                found.append(dict(zip(head, row, strict=True)))
            elif row and torn is not None:
                torn.append(number)
        return found


def verdicts_in(files: Files) -> Verdicts:
    """Return the verdicts of the directions that an earlier check wrote."""
    skips = {why.value: why for why in (*Why, *Cause)}
    counts = Counter(row[title] for row in read_rows(files.result, RESULT) for title in RESULT[1:3])
    gaps = Counter(skips[row["Reason"]] for row in read_rows(files.skipped, SKIPPED) if row["Reason"] in skips)
    open_ones = {why: number for why, number in gaps.items() if why not in UNASKED}
    fine = counts[Status.PASS.value] + counts[Status.WARNING.value]
    return Verdicts(fine, counts[Status.ERROR.value], open_ones)


TURNS = ("API Name", "Direction", "Inputs", "Checked", "Over Budget", "Over Memory", "Status", "Reason")


def write_turns(result: Path, turns: Iterable[tuple[Key, Turn]]) -> None:
    """Write the table of a training's distinct calls next to its results, replacing the previous one."""
    rows = []
    for (function, direction, shapes), turn in turns:
        inputs = " ".join(f"{dtype}{list(shape)}" for _, dtype, shape in shapes)
        counts = map(str, (turn.checked, turn.over_budget, turn.over_memory))
        rows.append((guard(function), direction, guard(inputs), *counts, turn.worst.value, guard(turn.closed)))
    file = result.parent / result.name.replace("result", "calls", 1)
    with writing(file.parent), replace_atomically(file) as out:
        out.write((_BOM + "".join(map(_line, [TURNS, *rows]))).encode("utf-8", "backslashreplace"))


COMPARED = ("API Name", "Dtype", "Standard", *(f"{key} Ratio" for key in (*RATIOS, "ULP")), "Status", "Message")


def write_compared(folder: Path, time: str, found: Sequence[Compared]) -> Path:
    """Write the tables of two devices, and return the path of the results."""
    result = folder / f"api_precision_compare_result_{time}.csv"
    details = folder / f"api_precision_compare_details_{time}.csv"
    by_api: dict[str, dict[str, Status]] = {}
    rows = []
    for each in found:
        ratios = ["" if (ratio := each.ratios.get(key)) is None else f"{ratio:.6g}" for key in (*RATIOS, "ULP")]
        words = each.cause.value + (f": {each.exceeded}" if each.exceeded else "")
        rows.append((guard(each.name), each.dtype, each.criterion.value, *ratios, each.status.value, words))
        statuses = by_api.setdefault(_api(each.name), {})
        direction = "backward" if ".backward." in each.name else "forward"
        statuses[direction] = max(statuses.get(direction, Status.SKIP), each.status, key=_ORDER.index)
    cells = [
        (guard(name), *(statuses[d].value if d in statuses else "" for d in ("forward", "backward")), "")
        for name, statuses in by_api.items()
    ]
    with writing(folder):
        make_folder(folder)
        _append(details, _BOM + "".join(map(_line, [COMPARED, *rows])), is_new=True)
        _append(result, _BOM + "".join(map(_line, [RESULT, *cells])), is_new=True)
    return result


_ORDER = (Status.SKIP, Status.PASS, Status.WARNING, Status.ERROR)
