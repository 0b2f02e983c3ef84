"""What a trusted run compared with the golden says of noise: the limits that it gives, and where it is wrong."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from msprobe.base import names
from msprobe.base.errors import UsageError
from msprobe.compare.judge.judged import EQUAL, Comparison
from msprobe.compare.locate.find import Located
from msprobe.compare.match.pairs import Pairs
from msprobe.compare.updates.verdicts import Basis, UpdateJudgement
from msprobe.replay.replay import replay
from msprobe.replay.result import Cause, NotReplayed, Replayed
from msprobe.store.record import Dump

from .judge import DRIFT_OF_RUNNING, RUNNING_STATISTICS
from .limits import Drift, Kind, KindAmplification, KindResidual, Limits, Source
from .paired import is_running_statistic
from .precision import Class, Sign, class_of

_DRIFTING = (Basis.GRADIENTS, Basis.UPDATES, Basis.DRIFT)
"""Of the bases of updates those that noise plays a part in."""

_NO_TORCH = "torch is not installed, which executes the calls again: pip install 'msprobe-ms[torch]'"


@dataclass(frozen=True)
class Calibrated:
    """What one pair of dumps, of a trusted run and the golden, gives. `first_wrong` is empty where the trusted run is
    right by the built-in limits. `is_of_tensors` is False where the two hold none, and so give nothing."""

    residuals: tuple[KindResidual, ...] = ()
    amplifications: tuple[KindAmplification, ...] = ()
    drifts: tuple[Drift, ...] = ()
    first_wrong: str = ""
    sides: tuple[Mapping[str, str], ...] = ()
    is_of_tensors: bool = True


def calibrated(comparison: Comparison, located: Located, updates: UpdateJudgement | None) -> Calibrated:
    """What a comparison by the built-in limits gives, whose target is the trusted run; UsageError without torch."""
    sides = tuple(_made(dump) for dump in (comparison.target, comparison.golden))
    if comparison.mode != "tensor":
        return Calibrated(sides=sides, is_of_tensors=False)
    if comparison.noise is not None and Cause.NO_TORCH.value in comparison.noise.not_replayed:
        raise UsageError(_NO_TORCH)
    residuals, amplifications = _differing(comparison)
    known = {row.kind for row in residuals}
    residuals += [row for row in _equal(comparison) if row.kind not in known]
    return Calibrated(
        tuple(residuals),
        tuple(amplifications),
        (*_drifts(updates), *_of_running_statistics(comparison)),
        located.first.name if located.first else "",
        sides,
    )


def limits_of(found: Iterable[Calibrated], labels: Iterable[str], file: str) -> Limits:
    """The limits that pairs of dumps, of several ranks and steps, give together; `labels` tell them from each other."""
    found = list(found)
    residuals: dict[tuple[Kind, str], KindResidual] = {}
    amplifications: dict[Kind, KindAmplification] = {}
    drifts: dict[str, Drift] = {}
    for one in found:
        for r in one.residuals:
            key = r.kind, r.precision
            residuals[key] = _worse(residuals[key], r) if key in residuals else r
        for a in one.amplifications:
            other = amplifications.get(a.kind, a)
            most = max(a.amplification, other.amplification)
            outputs = a.outputs if other is a else a.outputs + other.outputs
            amplifications[a.kind] = KindAmplification(a.kind, most, outputs)
        for d in one.drifts:
            before = drifts.get(d.basis, d)
            parameters = d.parameters if before is d else d.parameters + before.parameters
            drifts[d.basis] = Drift(d.basis, max(d.excess, before.excess), parameters)
    wrong = (
        f"{name} ({label})" if label else name
        for label, one in zip(labels, found, strict=True)
        if (name := one.first_wrong)
    )
    return Limits(
        Source.CALIBRATED,
        file,
        tuple(row for _, row in sorted(residuals.items())),
        tuple(row for _, row in sorted(amplifications.items())),
        tuple(row for _, row in sorted(drifts.items())),
        tuple(wrong),
        found[0].sides,
    )


def _worse(one: KindResidual, other: KindResidual) -> KindResidual:
    signs = tuple(sorted({*one.signs, *other.signs}))
    return KindResidual(one.kind, one.precision, max(one.eta, other.eta), one.outputs + other.outputs, signs)


def _made(dump: Dump) -> Mapping[str, str]:
    """How a side was made; `framework` is its bare name, `version` the name with the version."""
    told = dict(dump.made_with)
    version = told.pop("framework", "")
    return {"framework": dump.framework, **({"version": version} if version else {}), **told}


def _differing(comparison: Comparison) -> tuple[list[KindResidual], list[KindAmplification]]:
    """Of the outputs that differ: residuals where calls were replayed, else amplifications."""
    etas: dict[tuple[Kind, str], list[float]] = defaultdict(list)
    signs: dict[tuple[Kind, str], set[str]] = defaultdict(set)
    amplified: dict[Kind, list[float]] = defaultdict(list)
    for one in comparison.noise.evidence.values() if comparison.noise else ():
        if one.kind is None:
            continue
        if isfinite(one.residual) and isfinite(one.bound):
            key = one.kind, class_of(one.residual).value
            etas[key].append(one.residual)
            if one.sign is not Sign.NONE:
                signs[key].add(one.sign.name)
        elif isfinite(one.amplification):
            amplified[one.kind].append(one.amplification)
    residuals = [KindResidual(*key, max(found), len(found), tuple(sorted(signs[key]))) for key, found in etas.items()]
    return residuals, [KindAmplification(kind, max(found), len(found)) for kind, found in amplified.items()]


def _equal(comparison: Comparison) -> Iterator[KindResidual]:
    """Of functions whose outputs are all equal to the bit: what they compute in, as a few golden calls show it."""
    pairs = comparison.pairs
    differing = set(pairs.call_of[(comparison.equal != EQUAL) & ~comparison.is_given].tolist())
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    mixed: set[tuple[str, str]] = set()
    for place in range(len(pairs)):
        if (function := _function(pairs, place)) is not None:
            found[function].append(int(pairs.golden_calls[place]))
            if place in differing:
                mixed.add(function)
    for function, calls in found.items():
        if function in mixed:
            continue
        rows: dict[Kind, KindResidual] = {}
        for at in dict.fromkeys((calls[0], calls[-1])):  # a kind computes alike everywhere
            answer = replay(comparison.golden, at)
            if isinstance(answer, NotReplayed) and answer.cause is Cause.NO_TORCH:
                raise UsageError(_NO_TORCH)
            for kind, eta in _residuals(answer, function[1]) if isinstance(answer, Replayed) else ():
                row = KindResidual(kind, class_of(eta).value, eta, len(calls))
                rows[kind] = max(row, rows.get(kind, row), key=lambda r: r.eta)
        yield from (row for row in rows.values() if row.precision != Class.OPAQUE.value)


def _function(pairs: Pairs, place: int) -> tuple[str, str] | None:
    """Name and direction of a pair of calls of a function; None for any other."""
    if min(pairs.target_calls[place], pairs.golden_calls[place]) < 0:
        return None
    name = names.parse(pairs.name(place))
    return (name.stem, name.direction) if name.kind == "api" else None


def _residuals(answer: Replayed, direction: str) -> Iterator[tuple[Kind, float]]:
    """Kind and residual of each output, with the options that explain it best."""
    best: dict[tuple[str, tuple[str, ...]], float] = {}
    for candidates in answer.residuals.values():
        for one in candidates:
            if one.count and isfinite(one.eta):
                best[one.part, one.path] = min(one.eta, best.get((one.part, one.path), one.eta))
    for (_, path), eta in best.items():
        yield Kind(answer.operation, direction, ".".join(path[:1])), eta


def _drifts(updates: UpdateJudgement | None) -> Iterator[Drift]:
    verdicts = updates.verdicts if updates is not None else ()
    for basis in _DRIFTING:
        found = [v.excess for v in verdicts if v.basis is basis and v.excess > 0 and isfinite(v.excess)]
        if found:
            yield Drift(basis.value, max(found), len(found))


def _of_running_statistics(comparison: Comparison) -> Iterator[Drift]:
    """How far running statistics are apart, which no optimizer updates."""
    if not comparison.target.step:
        return
    found = []
    rows = np.flatnonzero(comparison.is_given & (comparison.equal != EQUAL))
    for row in rows.tolist():
        measures, pair = comparison.measures.get(row), comparison.pairs.pair(row)
        at = int(comparison.pairs.target_rows[row])
        if measures is None or pair.golden is None or at < 0:
            continue
        if not is_running_statistic(comparison.pairs.target.columns, at):
            continue
        norm = pair.golden.statistics.norm if pair.golden.statistics else None
        if isinstance(norm, float) and norm and not measures.mismatched and isfinite(measures.euclid / norm):
            found.append(measures.euclid / norm / DRIFT_OF_RUNNING)
    if found:
        yield Drift(RUNNING_STATISTICS, max(found), len(found))
