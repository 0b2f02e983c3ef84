"""The answer about two monitors in sentences; the last line is the answer."""

import math
from collections.abc import Iterator

from msprobe.base.log import few
from msprobe.base.phrase import Phrase, Words, joined, phrase, some, some_of

from .band import Basis
from .deviations import OF_UPDATES
from .finding import Cause, MonitorDivergence, OfStage, Result
from .pairing import Unmatched

_KINDS = 12
"""Kinds of values that are listed in a line."""


def lines(result: Result) -> Iterator[str]:
    """What the command prints."""
    yield from map(str, about(result))
    finding = result.finding
    if finding is not None:
        yield f"what it means: {meaning(finding)}"
        if finding.agreeing:
            yield f"the previous target of the backward pass, {finding.agreeing}, agrees"
        if finding.is_of_digits:
            yield "all of it is in the last digits of the files: it may have begun unseen in the update before"
        yield from map(str, stages(result))
    yield str(answer(result))


def stages(result: Result) -> Iterator[Words]:
    """What of the step of a finding left the band, and what did not."""
    left = [stage for stage in result.stages if stage.left]
    inside = [stage for stage in result.stages if not stage.left]
    yield phrase("left the band at this step: {kinds}", kinds=some_of(map(_of_stage, left), _KINDS))
    if inside:
        yield phrase("stayed inside: {kinds}", kinds=some_of(map(_of_stage, inside), _KINDS))


def about(result: Result) -> Iterator[Words]:
    """What was compared, and what could not be."""
    yield phrase(
        "steps {first} to {last} ({steps} in common), {number} numbers compared; the band: {basis}",
        first=result.steps[0],
        last=result.steps[-1],
        steps=len(result.steps),
        number=result.compared,
        basis=phrase(result.basis.value),
    )
    if result.basis is Basis.LEARNED and result.judged_from is not None and result.judged_from > result.steps[0]:
        yield phrase(
            "unjudged: steps {first} to {last}, of which the band is learned",
            first=result.steps[0],
            last=result.judged_from - 1,
        )
    if result.passed:
        yield phrase(
            "gradients left the band for one step, as at a kink of an activation: step {steps}",
            steps=some(result.passed, 8),
        )
    for side, ranks in result.lost_ranks.items():
        if ranks:
            yield phrase("unmatched: rank {ranks} of {side}", ranks=some(ranks, 8), side=side)
    yield from map(_unmatched, result.unmatched)
    alike: dict[tuple[int, bool, str], list[str]] = {}
    for one_kind in result.uncommon:
        alike.setdefault((one_kind.count, one_kind.is_micro, one_kind.side), []).append(one_kind.kind)
    for (count, is_micro, side), kinds in alike.items():
        steps = phrase(
            ("{number} micro step" if count == 1 else "{number} micro steps")
            if is_micro
            else ("{number} step" if count == 1 else "{number} steps"),
            number=count,
        )
        yield phrase("not compared: {steps} of {kinds}, in {side} alone", steps=steps, kinds=some(kinds, 12), side=side)
    yield from result.notes


def _unmatched(one: Unmatched) -> Phrase:
    what = (
        phrase("{number} of {kind}: {names}", number=len(one.names), kind=one.kind, names=some(one.names))
        if one.names
        else phrase("statistics of {kind}: {names}", kind=one.kind, names=some(one.statistics))
        if one.statistics
        else phrase("all of {kind}", kind=one.kind)
    )
    return phrase("unmatched on rank {rank}: {what}, in {side} alone", rank=one.rank, what=what, side=one.side)


def _of_stage(stage: OfStage) -> Phrase:
    if stage.left:
        return phrase("{kind} ({number} of {total})", kind=stage.kind, number=stage.left, total=stage.targets)
    if stage.first_step is None:
        return phrase("{kind} ({total})", kind=stage.kind, total=stage.targets)
    return phrase(
        "{kind} ({total}, leaves at step {step})", kind=stage.kind, total=stage.targets, step=stage.first_step
    )


def meaning(finding: MonitorDivergence) -> Phrase:
    """What the place of the first divergence means."""
    text = phrase(finding.cause.value)
    if finding.cause in (Cause.LOSS_SCALE, Cause.LOCAL_REDUCTION, Cause.REDUCTION) and finding.has_common_factor:
        return phrase("{text}; all by a factor of {factor:.5g}", text=text, factor=finding.factor)
    return text


def answer(result: Result) -> Phrase:
    """The last line."""
    text = _answer(result)
    return phrase("{text}; not judged: {counts}", text=text, counts=_counts(result)) if result.unjudged else text


def _counts(result: Result) -> Words:
    return joined(
        [phrase(f"{{number}} {each.cause.value}", number=each.count) for each in result.unjudged], "{before}, {after}"
    )


def _answer(result: Result) -> Phrase:
    finding = result.finding
    if finding is None:
        if result.basis is Basis.NOTHING:
            if not result.compared:
                return phrase("unjudged: no number is finite on both sides")
            return phrase("unjudged: too few steps to learn the band from; give --calibrate, or longer runs")
        if result.basis is Basis.EQUAL:
            return phrase("no divergence: all {number} numbers are equal", number=result.compared)
        return phrase("no divergence: all numbers from step {step} on stay within the band", step=result.judged_from)
    others = f" and {finding.left - 1} of {finding.targets - 1} others" if finding.left > 1 else ""
    micro = f", micro step {finding.micro_step}" if finding.micro_step else ""
    of = "rank" if len(finding.ranks) == 1 else "ranks"
    where = f"at step {finding.step}{micro} on {of} {few(finding.ranks, 8)}"
    return phrase(
        "first divergence: {what}: {how_far}",
        what=f"{finding.stage.value} of {finding.target}{others} {where}",
        how_far=how_far(finding),
    )


def how_far(finding: MonitorDivergence) -> Phrase:
    """By how much, and how wide the band is."""
    if not (math.isfinite(finding.a) and math.isfinite(finding.b)):
        return phrase("{statistic} {a:.6g} for {b:.6g}", statistic=finding.statistic, a=finding.a, b=finding.b)
    band: Words
    if finding.basis is Basis.EQUAL:
        band = phrase("equal before")
    elif finding.statistic == "norm" and finding.kind != "update":
        band = phrase("band 1 +- {limit:.2g}", limit=finding.limit)
    else:
        band = phrase(
            "{deviation:.2g} of its scale, band 0 +- {limit:.2g}", deviation=finding.deviation, limit=finding.limit
        )
    is_of_updates = finding.kind in OF_UPDATES
    if finding.factor is not None and finding.statistic == "norm":
        return phrase(
            "change of the norm x{factor:.5g} ({band})" if is_of_updates else "norm x{factor:.5g} ({band})",
            factor=finding.factor,
            band=band,
        )
    return phrase(
        "change of the {statistic} {a:.6g} for {b:.6g} ({band})"
        if is_of_updates
        else "{statistic} {a:.6g} for {b:.6g} ({band})",
        statistic=finding.statistic,
        a=finding.a,
        b=finding.b,
        band=band,
    )
