"""The files of anomalies: `anomaly.json` of each rank, written while training, and their order in time.

```
{output}/anomaly_detected/rank{R}/anomaly.json     {"{tag}_step_{step}_call_{call_id}": {rank, step, micro_step, ...}}
{output}/anomaly_detected/anomaly_analyse.json     the earliest of all ranks, in the same form
```
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import MAX_CONFIGURATION_BYTES, make_folder, read_input, remove_stale_files, replace_atomically
from msprobe.base.log import log_once, logger

from .alerts import Anomaly, message

FOLDER = "anomaly_detected"
NAME = "anomaly.json"
ANALYSIS = "anomaly_analyse.json"

MOST = 10_000
"""Maximum number of entries of one file. After a NaN everything is an anomaly, and only the earliest are of use."""

_RANK = re.compile(r"rank(\d{1,9})")

FORWARD, BACKWARD, OPTIMIZER, OTHER = 0, 1, 2, -1
STAGES = {
    **dict.fromkeys(("actv",), FORWARD),
    **dict.fromkeys(("actv_grad", "pre_grad", "post_grad", "acc_grad"), BACKWARD),
    # The names that 8.1 writes; it counts them as neither, before the forward.
    **dict.fromkeys(("grad_unreduced", "grad_reduced"), BACKWARD),
    "local": BACKWARD,  # the loss comes after every activation
    **dict.fromkeys(("exp_avg", "exp_avg_sq", "param_updated"), OPTIMIZER),
}
"""The stage of a step by kind, in this order; every other kind is first, like the weights before the update."""


class AnomalyFile:
    """The anomalies of one rank, complete on disk after each `add`. OSError if it cannot be written.

    An entry is about a tag, a step and a call: of several statistics of one tensor the first is kept. Each `add` writes
    all entries to a new file that replaces the old one; `MOST` limits that to some milliseconds.
    """

    def __init__(self, output: Path, rank: int) -> None:
        """Create an empty file; an existing one is replaced."""
        self.path = output / FOLDER / f"rank{rank}" / NAME
        make_folder(self.path.parent)
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        remove_stale_files(self.path.parent)
        self._lines = bytearray()
        self._last: set[str] = set()
        self._last_step = -1
        self._count = 0
        self._write()

    def add(self, anomalies: Sequence[Anomaly]) -> None:
        """Write the anomalies of a step."""
        before = self._count
        for each in anomalies:
            if self._count >= MOST:
                log_once(f"{self.path} is full", f"{self.path} has {MOST} anomalies; further anomalies are not written")
                break
            self._add(each)
        if self._count > before:
            self._write()

    def _add(self, anomaly: Anomaly) -> None:
        if anomaly.step != self._last_step:
            self._last.clear()
            self._last_step = anomaly.step
        key = key_of(anomaly)
        if key in self._last:
            return
        self._last.add(key)
        entry = json.dumps({key: fields_of(anomaly)}, ensure_ascii=False)[1:-1]
        self._lines += b",\n" if self._count else b"\n"
        self._lines += entry.encode("utf-8", "backslashreplace")
        self._count += 1

    def _write(self) -> None:
        with replace_atomically(self.path) as file:
            file.write(b"{")
            file.write(self._lines)
            file.write(b"\n}" if self._count else b"}")


def key_of(anomaly: Anomaly) -> str:
    """Return the key of an anomaly in the file."""
    return f"{anomaly.tag}_step_{anomaly.step}_call_{anomaly.call_id}"


def fields_of(anomaly: Anomaly) -> dict[str, object]:
    """Return the fields of an anomaly in the file."""
    return {
        "rank": anomaly.rank,
        "step": anomaly.step,
        "micro_step": anomaly.micro_step,
        "pp_stage": anomaly.pp_stage,
        "vpp_stage": anomaly.vpp_stage,
        "call_id": anomaly.call_id,
        "tag_name": anomaly.tag,
        "message": message(anomaly),
        "group_mates": list(anomaly.group_mates),
    }


@dataclass(frozen=True)
class Entry:
    """One anomaly as a file has it: its key, all its fields, and those by which entries are ordered."""

    key: str
    fields: Mapping[str, object]
    step: int
    micro_step: int
    stage: int
    vpp_stage: int
    pp_stage: int
    call_id: int
    message: str

    @property
    def order(self) -> tuple[int, ...]:
        """Return its order in time: the forward passes the stages of the model upwards, everything else downwards."""
        up = 1 if self.stage == FORWARD else -1
        return self.step, self.micro_step, self.stage, up * self.vpp_stage, up * self.pp_stage, self.call_id


def read_anomalies(folder: Path) -> list[Entry]:
    """Return the anomalies of all ranks below a folder, by rank, as the files have them.

    Invalid entries, and files that cannot be read, are logged and omitted. UsageError if there is no such folder or no
    file; DumpError if none can be read.
    """
    if (folder / FOLDER).is_dir():
        folder = folder / FOLDER
    files = _files(folder)
    found: list[Entry] = []
    failed = []
    for file in files:
        try:
            found += _read(file)
        except DumpError as err:
            logger.warning("%s", err)
            failed.append(err)
    if len(failed) == len(files):
        raise failed[0]
    return found


def _files(folder: Path) -> list[Path]:
    try:
        ranks = [(int(match[1]), name) for name in os.listdir(folder) if (match := _RANK.fullmatch(name))]
    except OSError as err:
        raise UsageError(f"{folder}: {err.strerror or err}; give the folder {FOLDER} of a monitor's output") from err
    files = [folder / name / NAME for _, name in sorted(ranks)]
    files = [file for file in files if os.path.lexists(file)]
    if not files:
        raise UsageError(f"{folder}: contains no rank*/{NAME}; give the folder {FOLDER} of a monitor's output")
    return files


def _read(file: Path) -> list[Entry]:
    try:
        contents = json.loads(read_input(file, MAX_CONFIGURATION_BYTES))
    except OSError as err:
        raise DumpError(f"{file}: cannot be read: {err.strerror or err}") from err
    except (ValueError, RecursionError, MemoryError) as err:
        raise DumpError(f"{file}: not valid JSON; the process may have died while writing") from err
    if not isinstance(contents, dict):
        raise DumpError(f"{file}: not an object of anomalies")
    entries = [entry for key, value in contents.items() if (entry := _entry(key, value)) is not None]
    if left_out := len(contents) - len(entries):
        logger.warning("%s: %d entries are not anomalies and are ignored", file, left_out)
    return entries


def _entry(key: str, value: Any) -> Entry | None:
    """Return an entry of a file; None if a field that orders it is missing or has another type."""
    if not isinstance(value, dict):
        return None
    step, tag_name, text = value.get("step"), value.get("tag_name"), value.get("message", "")
    numbers = [value.get(name, default) for name, default in (("micro_step", 0), ("vpp_stage", 0), ("pp_stage", 0))]
    numbers += [value.get("call_id", -1), step]
    if not isinstance(tag_name, str) or not all(type(each) is int and abs(each) < 2**63 for each in numbers):
        return None
    micro_step, vpp_stage, pp_stage, call_id, step = numbers
    return Entry(
        key=key,
        fields=value,
        step=step,
        micro_step=micro_step,
        stage=STAGES.get(tag_name.rpartition("/")[2], OTHER),
        vpp_stage=vpp_stage,
        pp_stage=pp_stage,
        call_id=call_id,
        message=text if isinstance(text, str) else "",
    )


def earliest(entries: Iterable[Entry], count: int, steps: frozenset[int] = frozenset()) -> list[Entry]:
    """Return the first entries in time, at most `count`; only of these steps, if some are given.

    In order of step, micro step, stage; then by the stages of the model (`vpp_stage`, `pp_stage`: rising in the
    forward, else falling) and by call.
    """
    return sorted((each for each in entries if not steps or each.step in steps), key=lambda each: each.order)[:count]


def write_analysis(path: Path, entries: Sequence[Entry]) -> None:
    """Write entries in their order as JSON. Of equal keys, as in two files of one rank, the first one is kept."""
    contents: dict[str, object] = {}
    for each in entries:
        contents.setdefault(each.key, each.fields)
    with replace_atomically(path) as file:
        file.write(json.dumps(contents, indent=1, ensure_ascii=True).encode())
