"""The answer about two monitors in sentences; the last line is the answer."""

from collections.abc import Iterator

from msprobe.base.log import few
from msprobe.base.phrase import Phrase, Words, phrase

from .band import Basis
from .deviations import OF_UPDATES
from .finding import Cause, Finding, OfStage, Result

_SIDES = {"A": "A", "B": "B"}


def lines(result: Result) -> Iterator[str]:
    """What the command prints."""
    yield from about(result)
    finding = result.finding
    if finding is not None:
        yield f"what it means: {meaning(finding)}"
        if finding.agreeing:
            yield f"behind it in the backward pass {finding.agreeing} agrees"
        if finding.is_of_digits:
            yield "all of it is in the last digits of the files: it may have begun unseen in the update before"
        yield from stages(result)
    yield answer(result)


def stages(result: Result) -> Iterator[str]:
    """What of the step of a finding left the band, and what did not."""
    left = [stage for stage in result.stages if stage.left]
    inside = [stage for stage in result.stages if not stage.left]
    yield "left the band at this step: " + few((_of_stage(stage) for stage in left), 12)
    if inside:
        yield "stayed inside: " + few((_of_stage(stage) for stage in inside), 12)


def about(result: Result) -> Iterator[str]:
    """What was compared, and what could not be."""
    steps = f"steps {result.steps[0]} to {result.steps[-1]} ({len(result.steps)} in common)"
    yield f"{steps}, {result.compared} numbers compared; the band: {result.basis.value}"
    if result.basis is Basis.LEARNED and result.judged_from is not None and result.judged_from > result.steps[0]:
        yield f"unjudged: steps {result.steps[0]} to {result.judged_from - 1}, of which the band is learned"
    if result.passed:
        yield f"gradients left the band for one step, as at a kink of an activation: step {few(result.passed, 8)}"
    for side, ranks in result.lost_ranks.items():
        if ranks:
            yield f"unmatched: rank {few(ranks, 8)} of {side}"
    for one in result.unmatched:
        what = f"{len(one.names)} of {one.kind}: {few(one.names)}" if one.names else f"all of {one.kind}"
        yield f"unmatched on rank {one.rank}: {what}, in {one.side} alone"
    alike: dict[tuple[int, bool, str], list[str]] = {}
    for one_kind in result.uncommon:
        alike.setdefault((one_kind.count, one_kind.is_micro, one_kind.side), []).append(one_kind.kind)
    for (count, is_micro, side), kinds in alike.items():
        noun = f"{'micro ' * is_micro}step{'s' * (count != 1)}"
        yield f"not compared: {count} {noun} of {few(kinds, 12)}, in {side} alone"
    yield from result.notes


def _of_stage(stage: OfStage) -> str:
    if stage.left:
        return f"{stage.kind} ({stage.left} of {stage.targets})"
    later = "" if stage.first_step is None else f", leaves at step {stage.first_step}"
    return f"{stage.kind} ({stage.targets}{later})"


def meaning(finding: Finding) -> Phrase:
    """What the place of the first divergence means."""
    text = phrase(finding.cause.value)
    if finding.cause in (Cause.LOSS_SCALE, Cause.LOCAL_REDUCTION, Cause.REDUCTION) and finding.has_common_factor:
        return phrase("{text}; all by a factor of {factor:.5g}", text=text, factor=finding.factor)
    return text


def answer(result: Result) -> str:
    """The last line."""
    finding = result.finding
    if finding is None:
        if result.basis is Basis.NOTHING:
            return "unjudged: too few steps to learn the band from; give --calibrate, or longer runs"
        if result.basis is Basis.EQUAL:
            return f"no divergence: all {result.compared} numbers are equal"
        return f"no divergence: all numbers from step {result.judged_from} on stay within the band"
    others = f" and {finding.left - 1} of {finding.targets - 1} others" if finding.left > 1 else ""
    micro = f", micro step {finding.micro_step}" if finding.micro_step else ""
    of = "rank" if len(finding.ranks) == 1 else "ranks"
    where = f"at step {finding.step}{micro} on {of} {few(finding.ranks, 8)}"
    return f"first divergence: {finding.stage.value} of {finding.target}{others} {where}: {how_far(finding)}"


def how_far(finding: Finding) -> Phrase:
    """By how much, and how wide the band is."""
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
