"""Make and read the golden file of a gate; the format is that of `store/golden` (format.md, page 15)."""

import json
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msprobe.base import redaction
from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import make_folder, writing
from msprobe.base.language import translated
from msprobe.base.scope import parse_numbers
from msprobe.base.version import tool
from msprobe.checks.dumps import DumpFile, dumps_of
from msprobe.checks.invariants.judgement import Run
from msprobe.checks.invariants.rows import gradient, gradient_rows, parameters
from msprobe.compare.core.limits import Limits, noise_object, noise_of
from msprobe.store import layout
from msprobe.store.columnar.records import journal_of, read_records, write_records
from msprobe.store.conversion import journal_of_json
from msprobe.store.golden import (
    ARCHIVE,
    DUMP,
    FORMAT_VERSION,
    MANIFEST,
    MAX_BYTES,
    dump_of,
    read_manifest,
    write_golden,
)
from msprobe.store.journal import Journal, encode, merged
from msprobe.store.reader import find, load_tensor, read
from msprobe.store.record import INPUT, TENSOR, Dump
from msprobe.store.samples import MOST, Sample, positions, read_samples, sample_of, taken, write_samples

from .recording import Collection
from .training import GRADIENT, PARAMETER, StepFacts, facts_of

_PRIVATE = ("data_name", "md5")
"""Keys of a record that a golden does not have: it has no tensors, and digests would demand bitwise equality."""

_PACKAGES = re.compile(r"\AFile /.*?/(site-packages|dist-packages)/")
"""The beginning of a frame of a library, which is installed elsewhere on another machine."""

_SIZES = (MOST, 48, 32, 24, 16, 12, 8, 6, 4, 0)
"""Elements of a tensor that are stored, tried in this order until the file is small enough."""

Place = tuple[int | None, int]
"""Step and rank."""


@dataclass(frozen=True)
class Accepted:
    """One accepted change: the reason, and the findings that it accepts, as JSON data."""

    reason: str
    findings: tuple[Mapping[str, Any], ...]

    def as_object(self) -> dict[str, Any]:
        """Return the change as a golden file has it."""
        return {"reason": self.reason, "findings": [dict(each) for each in self.findings]}


@dataclass(frozen=True)
class Wanted:
    """What a golden file has in addition to the data of its run.

    collection : what was collected.
    command : the words of the command; empty for a dump that was given.
    forward_only : whether the run is not expected to train.
    runs : the number of runs by which limits were calibrated.
    limits : these limits; None for the built-in ones.
    accepted : accepted changes, the oldest first.
    """

    collection: Collection
    command: tuple[str, ...] = ()
    forward_only: bool = False
    runs: int = 1
    limits: Limits | None = None
    accepted: tuple[Accepted, ...] = ()


@dataclass(frozen=True)
class Golden:
    """A golden file, whose manifest was read."""

    path: Path
    about: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Golden":
        """Return the golden in a file; UsageError if there is none, DumpError if it is damaged."""
        if not path.is_file():
            raise UsageError(
                translated(
                    f"{path}: no such golden file; record it with: msprobe gate record --golden {path} -- COMMAND",
                    f"{path}：没有该 golden 文件；请先录制：msprobe gate record --golden {path} -- COMMAND",
                )
            )
        found = cls(path, read_manifest(path))
        try:
            _ = found.facts, found.wanted
        except (AttributeError, KeyError, TypeError, ValueError) as err:
            raise DumpError(f"{path}: {MANIFEST} is damaged ({type(err).__name__}: {err}); {ARCHIVE.remedy}") from err
        return found

    @cached_property
    def facts(self) -> tuple[StepFacts, ...]:
        """Return what the run had learned."""
        return tuple(StepFacts.of(row) for row in self.about["training"])

    @cached_property
    def wanted(self) -> Wanted:
        """Return what the file has in addition to the data of the run; a new run is collected in the same way."""
        about = self.about
        of = about["collection"]
        collection = Collection(str(of["task"]), str(of["level"]), parse_numbers(of["steps"]))
        accepted = tuple(Accepted(str(one["reason"]), tuple(one["findings"])) for one in about["accepted"])
        command = tuple(map(str, about["command"]))
        return Wanted(collection, command, bool(about["forward_only"]), int(about["runs"]), self._limits, accepted)

    @property
    def _limits(self) -> Limits | None:
        if self.about["limits"] is None:
            return None
        return noise_of(self.path, self.about["limits"])

    @property
    def dump(self) -> Path:
        """Return the folder of the run."""
        return dump_of(self.path)

    @cached_property
    def samples(self) -> dict[Place, dict[str, Sample]]:
        """Return the samples of all steps and ranks."""
        return {(each.step, each.rank): read_samples(find(each.path).parent) for each in dumps_of(self.dump)}


def read_run(path: Path) -> Run:
    """Return the dumps of a run; without any if nothing was collected."""
    steps: dict[int | None, dict[int, Dump]] = {}
    if not (path.is_dir() and not any(path.iterdir())):
        for each in dumps_of(path):
            steps.setdefault(each.step, {})[each.rank] = read(each.path)
    return Run(steps)


@dataclass(frozen=True)
class Written:
    """A golden file that was written: its size, and the largest number of elements of a tensor in it."""

    path: Path
    size: int
    sampled: int
    facts: tuple[StepFacts, ...] = field(repr=False)


def write(path: Path, run: Path, wanted: Wanted, root: Path | None = None) -> Written:
    """Write the golden file of a run; paths of sources are relative to `root`, by default the working directory.

    UsageError if it would be too large, or cannot be written; DumpError if a dump or tensor cannot be read.
    """
    facts = facts_of(read_run(run))
    files = dumps_of(run)
    with TemporaryDirectory(prefix="msprobe-gate-") as temporary:
        stage = Path(temporary)
        every: dict[Path, dict[str, Sample]] = {}
        made_with: dict[str, Any] = {}
        for file in files:
            folder = layout.rank_folder(stage / DUMP, file.step or 0, _rank_of(file))
            folder.mkdir(parents=True)
            journal = _journal(file, root or Path.cwd())
            made_with = made_with or _made_with(journal.header)
            write_records(folder, journal)
            every[folder] = _samples(read(file.path))
        content: dict[str, bytes] = {}
        for size in _SIZES:
            sampled = _write_samples(every, size)
            about = _about(facts, wanted, made_with, sampled)
            content = {MANIFEST: json.dumps(about, indent=1, allow_nan=False).encode("ascii") + b"\n"}
            tables = sorted(stage.rglob("*.parquet"))
            content |= {file.relative_to(stage).as_posix(): file.read_bytes() for file in tables}
            if sum(map(len, content.values())) + 200 * len(content) <= MAX_BYTES:
                break
        else:
            raise UsageError(
                translated(
                    f"{path}: would have {sum(map(len, content.values()))} bytes, more than {MAX_BYTES}, even without "
                    "elements of tensors; record fewer steps (--steps 0), or --level L0",
                    f"{path}：即使不含张量元素也有 {sum(map(len, content.values()))} 字节，超过 {MAX_BYTES}；"
                    "请减少 step（--steps 0），或使用 --level L0",
                )
            )
        with writing(path, "give another file with --golden"):
            make_folder(path.parent)
            write_golden(path, content)
    return Written(path, path.stat().st_size, sampled, facts)


def _rank_of(file: DumpFile) -> int | None:
    return None if file.path.name == "rank" or file.path.parent.name == "rank" else file.rank


def _journal(file: DumpFile, root: Path) -> Journal:
    """Return the contents of a dump without tensors, digests and absolute paths."""
    found = find(file.path)
    journal = journal_of(read_records(found)) if found.name in layout.TABLES else journal_of_json(found)[0]
    header = dict(journal.header)
    run = {key: value for key, value in header.get("run", {}).items() if key != "id"}
    settings = {**run.get("settings", {})}
    settings.pop("dump_path", None)
    task = "statistics" if header.get("task") == "tensor" else header.get("task")
    journal.header = {**header, "task": task, "dump_data_dir": None, "run": {**run, "settings": settings}}
    here = f"File {root}/"
    journal.stacks = {
        number: encode([_PACKAGES.sub(r"File /\1/", frame.replace(here, "File ", 1), 1) for frame in json.loads(text)])
        for number, text in journal.stacks.items()
    }
    journal.entries = {
        name: [encode(_without_private(json.loads(merged(texts))))] for name, texts in journal.entries.items()
    }
    return journal


def _without_private(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_private(member) for key, member in value.items() if key not in _PRIVATE}
    return [_without_private(member) for member in value] if isinstance(value, list) else value


def _samples(dump: Dump) -> dict[str, Sample]:
    """Return a sample of each tensor whose elements were saved, and of the gradient of each parameter.

    An input that a recorded call returned is the same tensor as that output. Tensors of equal bytes are stored once.
    """
    columns, found = dump.columns, dict[str, Sample]()
    known: dict[tuple[int, int, str], Sample] = {}

    def add(name: str, array: Any, dtype: str) -> None:
        sample = sample_of(name, array)
        found[name] = known.setdefault((sample.digest, sample.count, dtype), sample)

    for call in range(len(columns.names)):
        for row in columns.rows(call):
            is_known = columns.part[row] == INPUT and columns.source[row].startswith("call ")
            if columns.kind[row] == TENSOR and columns.file[row] and not is_known:
                record = columns.record(row, call)
                add(record.name, load_tensor(dump, record), record.dtype)
    for parameter, rows in gradient_rows(dump).items():
        if (total := gradient(dump, rows)) is not None:
            found[GRADIENT.format(parameter)] = sample_of(PARAMETER.format(parameter), total)
    for parameter, row in parameters(dump).items():
        if columns.file[row]:
            array = load_tensor(dump, columns.record(row, columns.call_of(row)))
            found[PARAMETER.format(parameter)] = sample_of(PARAMETER.format(parameter), array)
    return found


def _write_samples(every: Mapping[Path, Mapping[str, Sample]], size: int) -> int:
    """Write samples of at most `size` elements; return the largest number of elements that are stored."""
    most = 0
    for folder, samples in every.items():
        known: dict[int, Sample] = {}  # records that share a sample still do
        smaller = {name: known.setdefault(id(sample), _shortened(sample, size)) for name, sample in samples.items()}
        most = max(most, *(len(one.elements) for one in smaller.values()), 0)
        if samples and size:
            write_samples(folder, smaller)
        else:
            (folder / layout.SAMPLES).unlink(missing_ok=True)
            most = 0
    return most


def _shortened(sample: Sample, size: int) -> Sample:
    """Return the sample that `sample_of` gives with this size."""
    if len(sample.elements) <= size:
        return sample
    whole = len(sample.elements) == sample.count
    at = positions(sample.drawn_for, sample.count, size)
    elements = taken(sample.elements, at) if whole else sample.elements[:size]
    return Sample(sample.drawn_for, sample.count, sample.digest, elements)


def _made_with(header: Mapping[str, Any]) -> dict[str, Any]:
    run = header.get("run", {})
    versions = {key: run[key] for key in ("tool", "framework", "device", "python", "numpy") if key in run}
    return {**versions, "platform": f"{platform.system()} {platform.machine()}"}


def _about(facts: Iterable[StepFacts], wanted: Wanted, made_with: Mapping[str, Any], sampled: int) -> dict[str, Any]:
    return {
        "format": ARCHIVE.format,
        "format_version": FORMAT_VERSION,
        "tool": tool(),
        "made_with": dict(made_with),
        "command": [redaction.text(word) for word in wanted.command],
        "collection": wanted.collection.described(),
        "sampled": sampled,
        "forward_only": wanted.forward_only,
        "runs": wanted.runs,
        "training": [each.as_row() for each in facts],
        "limits": None if wanted.limits is None else noise_object(wanted.limits),
        "accepted": [one.as_object() for one in wanted.accepted],
    }
