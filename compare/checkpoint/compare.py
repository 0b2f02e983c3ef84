"""Compare two checkpoints: measures, verdicts, the file of all parameters, and the answer."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError, MappingError
from msprobe.base.files import creating, make_folder, writing
from msprobe.base.log import join_names
from msprobe.base.phrase import phrase
from msprobe.base.verdicts import Verdicts
from msprobe.compare.core.measures import Measures
from msprobe.compare.core.reason import Cause, Reason, Why
from msprobe.compare.core.standard import (
    ACCEPTANCES,
    DTYPE,
    Acceptance,
    canonical,
    coarser_standard,
    family,
    standard_of,
)
from msprobe.compare.judge.verdict import GRADES, PASS, SEVERITY, Verdict, count, judge_measures, unjudged, wrong
from msprobe.compare.measure.tensors import measure
from msprobe.findings.catalogue.checkpoints import ONE_SIDE, PARAMETER
from msprobe.findings.finding import Answer, Finding, Place
from msprobe.mapping.transform import Transform
from msprobe.mapping.user_files import DataRule

from .formats import Array, Parameter
from .match import ParameterPair, match
from .recognize import TRANSPOSED
from .sources import read_side

Shape = tuple[int, ...]

ANOTHER = "give another file with -o"

_MAX_FINDINGS = 200
"""Maximum number of listed findings; the file has every parameter."""


@dataclass(frozen=True, slots=True)
class JudgedParameter:
    """A pair with its distance (Euclidean), its cosine and its verdict.

    `shapes` are those of both sides as they were compared, after a transform; None for a missing side. `l2` and
    `cosine` are None if undefined (one side only, different shapes, a NaN on one side; a cosine also if one side is all
    zeros). `excess` orders the worst. `of_dtype` is the verdict by the limits of the dtype, if others were chosen.
    """

    pair: ParameterPair
    verdict: Verdict
    shapes: tuple[Shape | None, Shape | None]
    l2: float | None = None
    cosine: float | None = None
    excess: float = 0.0
    of_dtype: Verdict | None = None


def judge(pair: ParameterPair, acceptance: Acceptance | None = None) -> JudgedParameter:
    """Read, measure and judge one pair by the standard of the coarser of the two dtypes, or by an acceptance.

    No error is raised for the content of a file: a parameter that cannot be read is unjudged, with the reason.
    """
    target, golden = pair.target, pair.golden
    shapes = (target.shape if target else None, golden.shape if golden else None)
    if target is None or golden is None:
        side = "golden" if target is None else "target"
        return JudgedParameter(pair, unjudged(Cause.UNMATCHED, Reason(Why.ONE_SIDE, side)), shapes)
    try:
        t, g = _load(target, pair.of_target), _load(golden, pair.of_golden)
    except (DumpError, MappingError) as err:
        verdict = unjudged(Cause.UNREADABLE, Reason(Why.UNREADABLE, name=str(err).rstrip(".")))
        return JudgedParameter(pair, verdict, shapes)
    shapes = t.shape, g.shape
    if t.shape != g.shape:
        return JudgedParameter(pair, _other_shapes(t, g, golden.dtype), shapes, excess=math.inf)
    standard = coarser_standard(target.dtype, golden.dtype)
    found = measure(t, g, standard, golden.dtype)
    of_dtype = judge_measures(found, standard, t.shape)
    verdict, excess = of_dtype, found.excess
    if acceptance is not None and not found.mismatched:
        verdict, excess = _accepted(found, acceptance)
    if family(target.dtype) != family(golden.dtype):
        verdict = wrong(Reason(Why.DTYPES, target=target.dtype, golden=golden.dtype))
    l2, cosine = (None, None) if found.mismatched else (found.euclid, found.cosine)
    cosine = None if found.cosine != found.cosine else cosine
    return JudgedParameter(pair, verdict, shapes, l2, cosine, excess, None if acceptance is None else of_dtype)


def _accepted(found: Measures, acceptance: Acceptance) -> tuple[Verdict, float]:
    """Return the verdict of an acceptance, and the difference relative to its limits."""
    if found.equal:
        return PASS, 0.0
    wrong_by = []
    if not found.cosine >= acceptance.cosine:  # nor is NaN, of one side that is all zeros
        is_zero = found.cosine != found.cosine
        wrong_by.append("one side is all zeros" if is_zero else f"the cosine is below {acceptance.cosine:g}")
    if not found.euclid < acceptance.l2:
        wrong_by.append(f"the l2 is not below {acceptance.l2:g}")
    angle = 1.0 if found.cosine != found.cosine else 1 - found.cosine
    excess = max(angle / (1 - acceptance.cosine), found.euclid / acceptance.l2)
    return (wrong(Reason(Why.TEXT, name="; ".join(wrong_by))) if wrong_by else PASS), excess


def _load(one: Parameter, transform: Transform) -> Array:
    array: Array = transform(one.load())
    return array


def _other_shapes(t: Array, g: Array, dtype: str) -> Verdict:
    if t.ndim == 2 and t.shape == g.shape[::-1]:
        standard = standard_of(dtype)
        turned: Array = TRANSPOSED(t)
        if judge_measures(measure(turned, g, standard, dtype), standard, g.shape):
            return wrong(Reason(Why.SHAPES_TURNED, name=str(TRANSPOSED), target=t.shape, golden=g.shape))
    return wrong(Reason(Why.SHAPES, target=t.shape, golden=g.shape))


_MAX_NAMES = 5  # names of parameters on one side


@dataclass(frozen=True)
class CheckpointResult:
    """All judged parameters by name (after `rank_0/` if there are ranks), and what was omitted: parameters of one
    framework only, and further names of shared weights."""

    target: str
    golden: str
    judged: Mapping[str, JudgedParameter]
    left_out: Sequence[str]
    tied: Sequence[str] = ()
    standard: str = DTYPE

    @property
    def is_clean(self) -> bool:
        """Return whether every parameter is on both sides and passes."""
        return all(one.verdict for one in self.judged.values())

    @property
    def worst(self) -> list[tuple[str, JudgedParameter]]:
        """Return the parameters of both sides that do not pass, the worst first."""
        return sorted(
            ((name, one) for name, one in self._of_both.items() if not one.verdict),
            key=lambda item: (SEVERITY.index(item[1].verdict.grade), item[1].excess),
            reverse=True,
        )

    @property
    def _of_both(self) -> dict[str, JudgedParameter]:
        return {name: one for name, one in self.judged.items() if one.verdict.cause is not Cause.UNMATCHED}

    @property
    def summary(self) -> str:
        """Return the numbers of parameters by grade, and of those on one side only."""
        both = self._of_both
        grades = Counter(one.verdict.grade for one in both.values())
        text = f"{self.target} against {self.golden}: {len(both)} parameters on both sides: {count(grades)}"
        if known := sum(bool(one.pair.found_by) for one in both.values()):
            text += f"; {known} under other names, matched by equal values and their layers"
        for what, names, is_recorded in (
            ("on the target side only", [name for name, one in self.judged.items() if one.pair.golden is None], True),
            ("on the golden side only", [name for name, one in self.judged.items() if one.pair.target is None], True),
            ("left out, since the other framework does not have them:", self.left_out, False),
            ("left out, since they are additional names of shared weights:", self.tied, False),
        ):
            if names or is_recorded:
                text += f"; {what} {len(names)}{_named(names)}"
        if self.standard != DTYPE:
            text += f"; judged by the limits of {self.standard}, {ACCEPTANCES[self.standard]}"
        return text

    def lines(self, top: int) -> list[str]:
        """Return the summary, then the worst parameters, at most `top`."""
        worst = self.worst
        lines = [self.summary, *(f"{one.verdict.grade}: {name}: {_say(one)}" for name, one in worst[:top])]
        if len(worst) > top:
            lines.append(f"and {len(worst) - top} more that do not pass")
        return lines


def write(result: CheckpointResult, path: Path) -> None:
    """Write the entries; raise a UsageError if writing fails. No number in it is NaN or infinite."""
    entries = {name: entry_of(one) for name, one in result.judged.items()}
    with writing(path, ANOTHER, is_new=True):
        make_folder(path.parent)
        with creating(path) as file:
            file.write(json.dumps(entries, indent=4, allow_nan=False).encode())


def entry_of(one: JudgedParameter) -> dict[str, object]:
    """Return the four keys of mindstudio-probe, then those of this tool."""
    pair, (shape, golden_shape) = one.pair, one.shapes
    is_same, is_unread = shape == golden_shape, one.verdict.cause is Cause.UNREADABLE
    sizes = [None if each is None else math.prod(each) for each in one.shapes]
    dtypes = [None if side is None else canonical(side.dtype) for side in (pair.target, pair.golden)]
    entry: dict[str, object] = {
        "l2": "error" if is_unread else _number(one.l2),
        "cos": "error" if is_unread else _number(one.cosine),
        "numel": sizes[0] if is_same else sizes,
        "shape": shape if is_same else [shape, golden_shape],
        "verdict": one.verdict.grade,
        "reason": one.verdict.reason,
        "dtype": dtypes[0] if dtypes[0] == dtypes[1] else dtypes,
    }
    if one.of_dtype is not None:
        entry["dtype_verdict"] = one.of_dtype.grade
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
    """Return a number; None for infinities, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def _say(one: JudgedParameter) -> str:
    measured = f"l2 {one.l2:.4g}" if one.l2 is not None else ""
    if one.cosine is not None:
        measured += f", cos {one.cosine:.6g}"
    return f"{measured}: {one.verdict.reason}" if measured else one.verdict.reason


def _named(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f" ({join_names(names, _MAX_NAMES)})"


def compare_checkpoints(
    target: Path, golden: Path, rules: Mapping[str, DataRule] | None = None, standard: str = DTYPE
) -> CheckpointResult:
    """Compare the checkpoints at two paths, several ranks rank by rank; one parameter is in memory at a time.

    `standard` is `dtype` or a name of `ACCEPTANCES`.

    DumpError if a side has no checkpoint that can be read, or the sides have different numbers of ranks; MappingError
    if a rule has a name that does not exist.
    """
    sides = read_side(target), read_side(golden)
    if set(sides[0].ranks) != set(sides[1].ranks):
        text = ", ".join(f"{side.where} has {', '.join(filter(None, side.ranks)) or 'no ranks'}" for side in sides)
        raise DumpError(
            f"{text}: only checkpoints with the same partitioning can be compared rank by rank; first merge each "
            "with its strategy files (mindspore.unified_safetensors, or mindspore.transform_checkpoints), then "
            "compare the results"
        )
    judged: dict[str, JudgedParameter] = {}
    left_out: list[str] = []
    tied: list[str] = []
    for rank, checkpoint in sides[0].ranks.items():
        matched = match(checkpoint, sides[1].ranks[rank], rules)
        before = f"{rank}/" if rank else ""
        for pair in matched.pairs:
            # An unmatched golden may have the name of a target, if a rule paired that target differently.
            name = before + pair.name
            judged[f"{name} (golden)" if name in judged else name] = judge(pair, ACCEPTANCES.get(standard))
        left_out += [before + name for name in matched.left_out]
        tied += [before + name for name in matched.tied]
    if not judged:
        raise DumpError(f"{target} and {golden} contain no parameters; give checkpoints of a model")
    return CheckpointResult(str(target), str(golden), judged, left_out, tied, standard)


def answer_of(result: CheckpointResult) -> Answer:
    """Return the answer: the worst parameter first, then those that only one side has."""
    differing = [(name, one) for name, one in result.worst if one.verdict.grade in ("warning", "error")]
    lone = [(name, one) for name, one in result.judged.items() if one.verdict.cause is Cause.UNMATCHED]
    found = [_finding(name, one) for name, one in (*differing, *lone)][:_MAX_FINDINGS]
    state = "clean" if result.is_clean else "differs" if differing else "unjudged"
    return Answer(state, result.summary, found[0] if differing else None, tuple(found[1:] if differing else found))


def verdicts_of(result: CheckpointResult) -> Verdicts:
    """Return the numbers of parameters that pass, that differ, and that could not be judged."""
    verdicts = [one.verdict for one in result.judged.values()]
    wrong = sum(verdict.grade in ("warning", "error") for verdict in verdicts)
    gaps = Counter(verdict.cause for verdict in verdicts if verdict.cause is not None)
    return Verdicts(len(verdicts) - wrong - gaps.total(), wrong, gaps)


def counts_of(result: CheckpointResult) -> dict[str, int]:
    """Return the number of parameters of each grade."""
    counts = Counter(one.verdict.grade for one in result.judged.values())
    return {grade: counts[grade] for grade in sorted(GRADES, key=SEVERITY.index, reverse=True)}


def _finding(name: str, one: JudgedParameter) -> Finding:
    kind = ONE_SIDE if one.verdict.cause is Cause.UNMATCHED else PARAMETER
    reason = phrase("{reason}", reason=one.verdict.reason)
    return Finding(kind, Place(name), reason, one.verdict.grade, fields=entry_of(one))
