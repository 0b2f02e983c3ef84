"""From seconds to tables. Pure: lists of one value a round in, lines of markdown out."""

from dataclasses import dataclass, field

import numpy as np

from .written import Written

PER_TENSOR = 5e-6
"""Seconds that the floor grants each tensor for everything but reading it."""

MB = 1e6


@dataclass
class Side:
    """What one tool's process of one kind measured, a value a round. `refused` says why there is nothing."""

    refused: str = ""
    bare: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    bare_cpu: list[float] = field(default_factory=list)
    step_cpu: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    """The step of a process that has no debugger at all, in the same rounds."""
    stand_in: list[float] = field(default_factory=list)
    growth: float = 0.0
    written: Written | None = None

    @property
    def is_full(self):
        return bool(self.step) and not self.refused

    @property
    def added(self):
        """Seconds that collecting adds, round by round."""
        return np.subtract(self.step, self.bare)

    @property
    def added_cpu(self):
        """The same in seconds of the processor, all threads together: other processes touch it less."""
        return np.subtract(self.step_cpu, self.bare_cpu)


@dataclass
class Row:
    """One kind of one net."""

    net: str
    level: str
    task: str
    ours: Side
    other: Side
    plain: list[float] = field(default_factory=list)
    """Seconds of `np.save` of the same arrays."""

    @property
    def name(self):
        return f"{self.net} | {self.level} | {self.task}"

    @property
    def sides(self):
        return [(tool, side) for tool, side in (("ours", self.ours), ("other", self.other)) if side.is_full]


def times(rows):
    """The step of both tools, and how many times what ours adds fits into what the other adds."""
    yield (
        "| net | level | task | tool | ms | ratio to not collected | 95 % | added ms | added CPU ms "
        "| other / ours, added | 95 % | other / ours, added CPU | 95 % |"
    )
    yield "|---" * 13 + "|"
    for row in rows:
        for tool, side in row.sides:
            ratio = np.divide(side.step, side.bare)
            cells = [_ms(side.step), f"{np.median(ratio):.3f}", _interval(ratio), _ms(side.added), _ms(side.added_cpu)]
            if tool == "other" and row.ours.is_full:
                for of_other, of_ours in ((side.added, row.ours.added), (side.added_cpu, row.ours.added_cpu)):
                    cells.append(f"{np.median(of_other) / np.median(of_ours):.3g}")
                    cells.append(_interval(of_other, of_ours, of=np.divide))
            else:
                cells += [""] * 4
            yield f"| {row.name} | {tool} | {' | '.join(cells)} |"
    for row in rows:
        for tool, side in (("ours", row.ours), ("other", row.other)):
            if side.refused:
                yield f"\n{row.name}, {tool}: {side.refused}"


def work(rows):
    """What was collected for that time; and the step that is not collected, beside a process without a debugger."""
    yield (
        "| net | level | task | tool | records | tensors | MB described | MB written | added µs a tensor "
        "| peak MB more | no debugger ms | not collected ms | ratio | 95 % | stand-in ms |"
    )
    yield "|---" * 15 + "|"
    for row in rows:
        for tool, side in row.sides:
            w, ratio = side.written, np.divide(side.bare, side.alone)
            each = f"{np.median(side.added) * 1e6 / w.tensors:.4g}" if w.tensors else ""
            cells = [str(w.records), str(w.tensors), f"{w.described / MB:.3g}", f"{w.bytes / MB:.3g}", each]
            cells += [f"{side.growth:.0f}", _ms(side.alone), _ms(side.bare), f"{np.median(ratio):.3f}"]
            cells += [_interval(ratio), _ms(side.stand_in) if tool == "other" else ""]
            yield f"| {row.name} | {tool} | {' | '.join(cells)} |"


def floors(rows, bandwidth):
    """How far ours is from what reading the tensors alone takes, and from `np.save` of the same arrays."""
    yield "| net | level | task | floor ms | floor / added | floor / added CPU | np.save ms | added / np.save | 95 % |"
    yield "|---" * 9 + "|"
    for row in rows:
        if not (row.ours.is_full and row.ours.written.tensors):
            continue
        w, added = row.ours.written, row.ours.added
        floor = w.described / bandwidth + w.tensors * PER_TENSOR
        cells = [f"{floor * 1e3:.4g}", *(f"{floor / np.median(a):.2f}" for a in (added, row.ours.added_cpu))]
        if row.plain:
            cells += [_ms(row.plain), f"{np.median(added) / np.median(row.plain):.2f}"]
            cells += [_interval(added, row.plain, of=np.divide)]
        else:
            cells += ["", "", ""]
        yield f"| {row.name} | {' | '.join(cells)} |"


def _interval(*samples, of=lambda x: x):
    """Bootstrap 95 % interval of a function of the medians of samples that were taken in the same rounds."""
    at = np.random.default_rng(0).integers(0, len(samples[0]), (2000, len(samples[0])))
    low, high = np.percentile(of(*(np.median(np.asarray(s)[at], axis=1) for s in samples)), [2.5, 97.5])
    return f"{low:.3g} to {high:.3g}"


def _ms(seconds):
    return f"{np.median(seconds) * 1e3:.4g}"
