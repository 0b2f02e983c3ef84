"""The chain of a call as lines of a console, and as data for `--json`."""

import math
from collections.abc import Iterator
from typing import Any

from msprobe.base.phrase import Phrase, Words, joined, phrase
from msprobe.compare.core.noise import Evidence, Sign
from msprobe.compare.core.reason import Why
from msprobe.compare.judge.wording import reasons_phrase
from msprobe.compare.locate.wording import full_phrase
from msprobe.findings.text import one_line

from .chain import CallChain, RecordChain, Related, Rule

_RULES = {
    Rule.EQUAL: "bitwise equality",
    Rule.REPLAY: "the residual of the call, executed again in float64 on its own inputs",
    Rule.INPUTS: "the relative error of the output against that of the inputs",
    Rule.AMPLIFICATION: "the difference of the statistics against those of the inputs",
    Rule.IDENTITY: "an identity between the statistics of the call: {law}",
    Rule.UPDATE: "the update of the parameter",
    Rule.PRODUCERS: "the calls that produced it",
    Rule.DATAFLOW: "the dataflow: no call that differs produced it",
    Rule.EXEMPTION: "exempt: {cause}",
    Rule.OPEN: "could not be judged: {cause}",
    Rule.TOLERANCE: "the table of tolerances",
}

_WITHOUT_SIGN = {
    Sign.COARSER_THAN_OTHER_LAYERS: "noise if the same call of most other layers were as coarse",
    Sign.ALONE_IN_CLASS: "noise if other calls of its kind were as coarse",
    Sign.SINGLE_ELEMENTS: "noise without the single elements beyond noise",
    Sign.SYSTEMATIC: "noise without the common factor or offset",
    Sign.BITS: "noise if other calls of its kind were not bitwise equal",
}
"""Conditions for another verdict if a sign decided, other than the size of a residual."""


def lines_of(chain: CallChain, others: Words = "") -> Iterator[str]:
    """Yield the lines of a chain; `others` is a sentence about further steps and ranks that have the call."""
    yield one_line(_headline(chain))
    if others:
        yield one_line(f"  {others}")
    if chain.finding is not None:
        yield one_line(f"  finding: {full_phrase(chain.finding)}")
    if chain.forwards:
        yield one_line(f"  forward: {', '.join(chain.forwards)}")
    for record in chain.records:
        yield from _record(record)


def _headline(chain: CallChain) -> Words:
    where = f"{chain.name} in {chain.cell}" if chain.cell else chain.name
    where += "" if chain.step is None else f", step {chain.step}"
    where += "" if chain.rank is None else f", rank {chain.rank}"
    if not (chain.target and chain.golden):
        side = "target" if chain.target else "golden"
        template = "{where}: only the {side} makes this call (compared by {mode})"
        return phrase(template, where=where, side=side, mode=chain.mode)
    return phrase(
        "{where}: paired with {golden} by {how} (compared by {mode})",
        where=where,
        golden=chain.golden,
        how=chain.matched_by,
        mode=chain.mode,
    )


def _record(record: RecordChain) -> Iterator[str]:
    apart = record.distance
    distance = "" if not apart else phrase("; differs by {apart:.2g} of its norm", apart=apart)
    verdict = record.grade if record.cause is not None else ", ".join(filter(None, (record.grade, record.state)))
    yield one_line(f"  {record.place}: {verdict}{distance}")
    yield one_line(f"    rule: {_rule(record)}")
    if numbers := _numbers(record):
        yield one_line(f"    numbers: {numbers}")
    if record.reasons and record.evidence is None and record.rule is not Rule.EXEMPTION:
        yield one_line(f"    because: {reasons_phrase(record.reasons)}")
    if otherwise := _otherwise(record):
        yield one_line(f"    otherwise: {otherwise}")
    if record.origin in _ORIGINS:
        yield one_line(f"    from: {phrase(_ORIGINS[record.origin])}")
    if record.related:
        yield one_line(f"    {'from' if record.is_input else 'used by'}: {_related(record)}")


_ORIGINS = {
    "parameter": "a parameter",
    "leaf": "outside all recorded calls: a constant or an input of the run",
    "code": "operations that were not recorded",
    "unknown": "not recorded",
}


def _rule(record: RecordChain) -> Phrase:
    law = "" if record.evidence is None else record.evidence.law
    cause = "" if record.cause is None else phrase(record.cause.value)
    rule = phrase(_RULES[record.rule], law=law, cause=cause)
    if record.state == "propagated" and record.evidence is not None:
        return phrase("{rule}: the call itself is correct, the difference is inherited from its inputs", rule=rule)
    return rule


def _numbers(record: RecordChain) -> Words:
    found = record.evidence
    if record.rule is Rule.TOLERANCE and not math.isnan(record.excess):
        return phrase("{excess:.3g} times the tolerance", excess=record.excess)
    if found is None:
        return ""
    by = "" if found.source.value == "built-in" else phrase(" ({whose} limit)", whose=phrase(found.source.value))
    if record.rule is Rule.REPLAY:
        return phrase(
            "residual {target:.2g}, golden {golden:.2g}, noise up to {bound:.2g}{by}; precision {precision}{sign}",
            target=found.residual,
            golden=found.golden_residual,
            bound=found.bound,
            by=by,
            precision=phrase(found.is_of.value),
            sign="" if found.sign is Sign.NONE else phrase("; {sign}", sign=phrase(found.sign.value)),
        )
    if record.rule is Rule.IDENTITY:
        return phrase(
            "the {statistic} is off by {target:.2g}, golden {golden:.2g}, noise up to {bound:.2g}{by}",
            statistic=found.statistic,
            target=found.residual,
            golden=found.golden_residual,
            bound=found.bound,
            by=by,
        )
    numbers = {"apart": found.apart, "allowed": found.explained}
    return phrase("differs by {apart:.2g}; its inputs explain {allowed:.2g}{by}", **numbers, by=by)


def _otherwise(record: RecordChain) -> Words:
    """Return what would have to change for another verdict; empty if that is not a number."""
    found = record.evidence
    if record.rule is Rule.TOLERANCE and record.excess > 0 and math.isfinite(record.excess):
        times = phrase("{times:.3g} times", times=1 / record.excess)
        if record.grade == "pass":
            return phrase("would not pass if the difference were {times} as large", times=times)
        return phrase("would pass if the difference were {times} as large", times=times)
    if record.rule is Rule.OPEN and any(reason.why is Why.DRIFT_EARLIER for reason in record.reasons):
        return phrase("the step before, or a calibration, would decide")
    if found is None or record.cause is not None:
        return ""
    is_noise = found.sign is Sign.NONE
    limit = found.bound if record.rule in (Rule.REPLAY, Rule.IDENTITY) else found.explained
    if not math.isfinite(limit):
        return ""
    if found.sign in _WITHOUT_SIGN:
        return phrase(_WITHOUT_SIGN[found.sign])
    return phrase("wrong above {limit:.2g}" if is_noise else "noise up to {limit:.2g}", limit=limit)


def _related(record: RecordChain) -> Words:
    each: list[Words] = [_one_related(one) for one in record.related]
    if record.omitted:
        each.append(phrase("{number} more", number=record.omitted))
    return joined(each, "{before}, {after}")


def _one_related(one: Related) -> str:
    grade = "" if one.grade is None or (one.grade == "pass" and one.state) else one.grade
    return f"{one.name} ({', '.join(filter(None, (one.state, grade)))})"


def data_of(chain: CallChain) -> dict[str, Any]:
    """Return a chain as JSON values; numbers that are not finite are null."""
    return {
        "name": chain.name,
        "target": chain.target,
        "golden": chain.golden,
        "cell": chain.cell,
        "step": chain.step,
        "rank": chain.rank,
        "mode": chain.mode,
        "matched_by": chain.matched_by,
        "finding": None if chain.finding is None else str(full_phrase(chain.finding)),
        "forwards": list(chain.forwards),
        "records": [_record_data(record) for record in chain.records],
    }


def _record_data(record: RecordChain) -> dict[str, Any]:
    return {
        "place": record.place,
        "target": record.target,
        "golden": record.golden,
        "part": "input" if record.is_input else "output",
        "verdict": record.grade,
        "state": record.state,
        "rule": record.rule.value,
        "distance": record.distance,
        "evidence": None if record.evidence is None else _evidence_data(record.evidence),
        "excess": _finite(record.excess),
        "reason": str(reasons_phrase(record.reasons)) if record.reasons else "",
        "cause": None if record.cause is None else record.cause.name.lower(),
        "otherwise": str(_otherwise(record)),
        "origin": record.origin or None,
        "related": [{"name": one.name, "state": one.state, "verdict": one.grade} for one in record.related],
        "omitted": record.omitted,
    }


def _evidence_data(found: Evidence) -> dict[str, Any]:
    return {
        "sign": found.sign.name.lower(),
        "precision": found.is_of.value,
        "residual": _finite(found.residual),
        "golden_residual": _finite(found.golden_residual),
        "limit": _finite(found.bound),
        "differs_by": _finite(found.apart),
        "explained": _finite(found.explained),
        "limits": found.source.value,
        "identity": found.law,
        "statistic": found.statistic,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
