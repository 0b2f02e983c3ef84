"""What is said of two checkpoints: a JSON object with an entry for each parameter, and lines for the console."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import creating, make_folder
from msprobe.compare.judge.standard import canonical
from msprobe.compare.judge.verdict import count

from .judge import JudgedParameter

_RANKED = {"error": 0, "unjudged": 1, "warning": 2, "pass": 3}
_SHOWN = 5  # names of parameters on one side


@dataclass(frozen=True)
class Answer:
    """All judged parameters under their names (behind `rank_0/` where there are ranks), and what was left out: what one
    framework alone has, and further names of shared weights."""

    target: str
    golden: str
    judged: Mapping[str, JudgedParameter]
    left_out: Sequence[str]
    tied: Sequence[str] = ()

    @property
    def is_clean(self) -> bool:
        """Whether every parameter is on both sides and passes."""
        return all(one.verdict for one in self.judged.values())

    def lines(self, top: int) -> list[str]:
        """Counts first, then the worst parameters, at most `top`."""
        both = {name: one for name, one in self.judged.items() if not one.is_one_sided}
        grades = Counter(one.verdict.grade for one in both.values())
        told = f"{self.target} against {self.golden}: {len(both)} parameters on both sides: {count(grades)}"
        if known := sum(bool(one.pair.found_by) for one in both.values()):
            told += f"; {known} under names that do not tell, known by equal values and their layers"
        for side, other in (("target", "golden"), ("golden", "target")):
            alone = [name for name, one in self.judged.items() if getattr(one.pair, other) is None]
            told += f"; on the {side} side only {len(alone)}{_named(alone)}"
        if self.left_out:
            told += f"; left out, as the other framework has none: {len(self.left_out)}{_named(self.left_out)}"
        if self.tied:
            told += f"; left out, as further names of shared weights: {len(self.tied)}{_named(self.tied)}"
        worst = sorted(
            (item for item in both.items() if not item[1].verdict),
            key=lambda item: (_RANKED[item[1].verdict.grade], -item[1].excess),
        )
        lines = [told, *(f"{one.verdict.grade}: {name}: {_say(one)}" for name, one in worst[:top])]
        if len(worst) > top:
            lines.append(f"and {len(worst) - top} more that do not pass")
        return lines


def write(answer: Answer, path: Path) -> None:
    """Write the entries; UsageError where that cannot be done. No number in it is NaN or infinite."""
    entries = {name: _entry(one) for name, one in answer.judged.items()}
    try:
        make_folder(path.parent)
        with creating(path) as file:
            file.write(json.dumps(entries, indent=4, allow_nan=False).encode())
    except FileExistsError as err:
        raise UsageError(f"{path}: is there already; give another file with -o, or remove it") from err
    except OSError as err:
        raise UsageError(f"{path}: cannot be written ({err.strerror or err}); give another file with -o") from err


def _entry(one: JudgedParameter) -> dict[str, object]:
    """The reference's four keys, then ours."""
    pair, (shape, golden_shape) = one.pair, one.shapes
    is_same = shape == golden_shape
    sizes = [None if each is None else math.prod(each) for each in one.shapes]
    dtypes = [None if side is None else canonical(side.dtype) for side in (pair.target, pair.golden)]
    entry: dict[str, object] = {
        "l2": _number(one.l2) if one.is_readable else "error",
        "cos": _number(one.cosine) if one.is_readable else "error",
        "numel": sizes[0] if is_same else sizes,
        "shape": shape if is_same else [shape, golden_shape],
        "verdict": one.verdict.grade,
        "reason": one.verdict.reason,
        "dtype": dtypes[0] if dtypes[0] == dtypes[1] else dtypes,
    }
    if pair.target and pair.golden and pair.target.name != pair.golden.name:
        entry["golden"] = pair.golden.name
    if pair.found_by:
        entry["paired_by"] = pair.found_by
    if pair.of_target:
        entry["transform"] = str(pair.of_target)
    if pair.of_golden:
        entry["golden_transform"] = str(pair.of_golden)
    return entry


def _number(value: float | None) -> float | None:
    """JSON has no infinities; a distance beyond float64 is none that could be told."""
    return value if value is not None and math.isfinite(value) else None


def _say(one: JudgedParameter) -> str:
    measured = f"l2 {one.l2:.4g}" if one.l2 is not None else ""
    if one.cosine is not None:
        measured += f", cos {one.cosine:.6g}"
    return f"{measured}: {one.verdict.reason}" if measured else one.verdict.reason


def _named(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" ({', '.join(names[:_SHOWN])}{more})"
