"""A trigger: writes a call with a conspicuous value, and the calls before it, completely, and nothing else.

The records of a call are tested as in dump.json: counts of NaN and infinities, norms, digests.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msprobe.base.digest import have_same_kind
from msprobe.base.errors import DumpError
from msprobe.base.log import log_once, logger
from msprobe.base.sections import TriggerSettings
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.findings.kind import Kind
from msprobe.store import layout
from msprobe.store.reader import read
from msprobe.store.writer import StepFolder

from .findings import Caught
from .front import Watch
from .last_calls import Kept, LastCalls
from .ring import Ring

Norms = dict[str, dict[str, float]]
"""The norm of each record, by call and place."""

Digests = dict[str, dict[str, str]]

Shown = tuple[Kind, str, float | str | None, float | str | None]
"""A conspicuous record: the kind, its place, and the two numbers or digests that were compared."""


class Triggers(Watch):
    """The findings, and the norms of the previous step."""

    def __init__(self, settings: TriggerSettings) -> None:
        self.settings = settings
        self.norms: Norms = {}
        self._ring = Ring(settings.memory)
        self._count = 0

    def front(self, step: StepFolder) -> "TriggerFront":
        return TriggerFront(step, self._ring, self)

    def count(self) -> None:
        """Count one more event."""
        self._count += 1
        self.is_over = 0 < self.settings.times <= self._count


class TriggerFront(LastCalls):
    """Writes a call that fires the trigger, with those before it."""

    def __init__(self, step: StepFolder, ring: Ring, triggers: Triggers) -> None:
        super().__init__(step, ring, triggers.settings.calls)
        self._triggers, self._on = triggers, frozenset(triggers.settings.on)
        self._jump = triggers.settings.jump
        self._before, self._norms = triggers.norms, Norms()
        self._golden = _digests(Path(triggers.settings.golden), step) if "digest" in self._on else {}

    @property
    def _is_over(self) -> bool:
        return self._triggers.is_over

    def _consider(self, kept: Kept) -> None:
        finding = self._found(kept)
        if finding is None:
            self._last.append(kept)
            return
        self._triggers.count()
        every = (*self._last, kept)
        self._last.clear()
        self._write(every)
        file, line = self._line(kept.name)
        kind, place, value, golden = finding
        written = tuple(one.name for one in every)
        self._findings.append(Caught(kind, kept.name, place, value, golden, written, file=file, line=line))
        self._note(self._findings, self._is_over)
        self._opened.writer.assemble()
        logger.warning("trigger: %s", self._findings[-1].sentence(self._step.folder))
        if self._is_over:
            self._files.clear()
            self.when_over()

    def _found(self, kept: Kept) -> Shown | None:
        found: Shown | None = None
        for place, record in records(kept.members):
            found = found or self._nonfinite(place, record) or self._digest(kept.name, place, record)
            if "jump" in self._on and isinstance(norm := record.get("Norm"), float):
                found = found or self._jumps(kept.name, place, norm)
                self._norms.setdefault(kept.name, {})[place] = norm
        return found

    def _nonfinite(self, place: str, record: dict[str, Any]) -> Shown | None:
        if "nan" in self._on and (record.get("nan_count") or _is_nan(record.get("Norm"))):
            return kinds.NAN, place, None, None
        infinite = record.get("positive_inf_count") or record.get("negative_inf_count")
        if "inf" in self._on and (infinite or record.get("Norm") == float("inf")):
            return kinds.INFINITY, place, None, None
        return None

    def _jumps(self, name: str, place: str, now: float) -> Shown | None:
        before = self._before.get(name, {}).get(place)
        if not before or not now or _is_nan(now) or _is_nan(before):
            return None
        return (kinds.JUMP, place, now, before) if not before / self._jump <= now <= before * self._jump else None

    def _digest(self, name: str, place: str, record: dict[str, Any]) -> Shown | None:
        now, golden = record.get("md5"), self._golden.get(name, {}).get(place)
        if not golden or not now or golden == now:
            return None
        if not have_same_kind(golden, now):
            message = (
                f"trigger: the digests of {self._triggers.settings.golden} are of a different kind and are not compared"
            )
            log_once(f"golden of another kind {self._triggers.settings.golden}", f"{message}; use its summary_mode")
            return None
        return kinds.DIGEST, place, str(now), golden

    def close(self) -> None:
        self._triggers.norms = self._norms
        super().close()


def _is_nan(number: object) -> bool:
    return isinstance(number, float) and number != number


_PARTS = {"input_args": "input", "input_kwargs": "kwargs", "parameters": "parameters", "output": "output"}


def records(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the records of the tensors in an entry, each with its place: `input.1.0`."""
    for key, node in entry.items():
        if key not in ("at", "missing"):
            yield from _records(_PARTS.get(key, key), node)


def _records(place: str, node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, list):
        for number, inner in enumerate(node):
            yield from _records(f"{place}.{number}", inner)
    elif isinstance(node, dict) and isinstance(node.get("type"), str):
        if "shape" in node:
            yield place, node
    elif isinstance(node, dict):
        for key, inner in node.items():
            yield from _records(f"{place}.{key}", inner)


def _digests(path: Path, step: StepFolder) -> Digests:
    """Return the digests of the same step and rank in a golden dump; empty, with a line in the log, if it has none."""
    folder = step.folder
    candidates = [path / folder.parent.name / folder.name, path / folder.parent.name / "rank", path / folder.name, path]
    place = next(
        (
            one
            for one in candidates
            if one.is_file() or any((one / name).is_file() for name in (layout.DUMP, layout.DUMP_TABLE))
        ),
        None,
    )
    if place is None:
        log_once(f"golden {folder.parent.name}", f"trigger: {path} has no dump of {folder.parent.name}, {folder.name}")
        return {}
    try:
        dump = read(place)
    except (DumpError, OSError) as cause:
        log_once(f"golden {place}", f"trigger: {cause}; digests of this step are not compared")
        return {}
    found: Digests = {}
    for call in dump.calls:
        for record in call.records:
            if record.digest:
                part = "kwargs" if record.part == "input" and record.path[:1] and not record.path[0].isdigit() else ""
                place_of = ".".join((part or record.part, *record.path))
                if record.part == "parameters_grad":
                    place_of = ".".join((*record.path, "0"))
                found.setdefault(call.name, {})[place_of] = record.digest
    return found
