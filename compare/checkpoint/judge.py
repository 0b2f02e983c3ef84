"""How far two parameters are apart, and the verdict on that."""

import math
from dataclasses import dataclass

from msprobe.base.errors import DumpError, MappingError
from msprobe.compare.judge.standard import Standard, family, standard_of
from msprobe.compare.judge.verdict import Cause, Verdict, judge_measures, unjudged, wrong
from msprobe.compare.measure.tensors import measure
from msprobe.compare.reason import Reason, Why
from msprobe.mapping.transform import Transform, parse

from .match import ParameterPair
from .parameter import Array, Parameter

Shape = tuple[int, ...]

_TRANSPOSED = parse("transpose(1, 0)")


@dataclass(frozen=True, slots=True)
class JudgedParameter:
    """A pair with its distance (Euclidean), its cosine and its verdict.

    `shapes` are those of both sides as they were compared, behind a transform; None for a side that is not there.
    `l2` and `cosine` are None where there is none (one side only, other shapes, a NaN on one side; a cosine also where
    one side is all zeros). `is_readable` is False where a side could not be read. `excess` orders the worst.
    """

    pair: ParameterPair
    verdict: Verdict
    shapes: tuple[Shape | None, Shape | None]
    l2: float | None = None
    cosine: float | None = None
    excess: float = 0.0
    is_readable: bool = True

    @property
    def is_one_sided(self) -> bool:
        """Whether one of the sides has no such parameter."""
        return self.pair.target is None or self.pair.golden is None


def judge(pair: ParameterPair) -> JudgedParameter:
    """Read, measure and judge one pair by the standard of the coarser of the two dtypes.

    Nothing is raised for what a file holds: what cannot be read is unjudged, with the reason.
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
        return JudgedParameter(pair, verdict, shapes, is_readable=False)
    shapes = t.shape, g.shape
    if t.shape != g.shape:
        return JudgedParameter(pair, _by_shapes(t, g, golden.dtype), shapes, excess=math.inf)
    standard = _standard(target, golden)
    found = measure(t, g, standard, golden.dtype)
    verdict = judge_measures(found, standard, t.shape)
    if family(target.dtype) != family(golden.dtype):
        verdict = wrong(Reason(Why.DTYPES, target=target.dtype, golden=golden.dtype))
    is_finite = not found.mismatched
    return JudgedParameter(
        pair,
        verdict,
        shapes,
        found.euclid if is_finite else None,
        found.cosine if is_finite and not math.isnan(found.cosine) else None,
        found.excess,
    )


def _load(one: Parameter, transform: Transform) -> Array:
    array: Array = transform(one.load())
    return array


def _standard(target: Parameter, golden: Parameter) -> Standard:
    """That of the coarser dtype: a float32 that was saved as bfloat16 is not wrong for that."""
    return max(standard_of(target.dtype), standard_of(golden.dtype), key=lambda one: one.relative)


def _by_shapes(t: Array, g: Array, dtype: str) -> Verdict:
    if t.ndim == 2 and t.shape == g.shape[::-1]:
        standard = standard_of(dtype)
        turned: Array = _TRANSPOSED(t)
        if judge_measures(measure(turned, g, standard, dtype), standard, g.shape):
            return wrong(Reason(Why.SHAPES_TURNED, name=str(_TRANSPOSED), target=t.shape, golden=g.shape))
    return wrong(Reason(Why.SHAPES, target=t.shape, golden=g.shape))
