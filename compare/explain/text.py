"""The chain of a call as lines of a console, and as data for `--json`."""

import math
from collections.abc import Iterator
from typing import Any

from msprobe.base.phrase import Words, joined, phrase
from msprobe.compare.core.noise import Evidence
from msprobe.compare.judge.decision import Rule, numbers_phrase, otherwise_phrase, rule_phrase
from msprobe.compare.judge.wording import reasons_phrase
from msprobe.compare.locate.wording import full_phrase
from msprobe.findings.text import one_line

from .chain import CallChain, RecordChain, Related


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
    decision, apart = record.decision, record.distance
    distance = "" if not apart else phrase("; differs by {apart:.2g} of its norm", apart=apart)
    words = (decision.grade,) if decision.cause is not None else (decision.grade, decision.state)
    verdict = ", ".join(filter(None, words))
    yield one_line(f"  {record.place}: {verdict}{distance}")
    yield one_line(f"    rule: {rule_phrase(decision)}")
    if numbers := numbers_phrase(decision):
        yield one_line(f"    numbers: {numbers}")
    if decision.reasons and decision.evidence is None and decision.rule is not Rule.EXEMPTION:
        yield one_line(f"    because: {reasons_phrase(decision.reasons)}")
    if otherwise := otherwise_phrase(decision):
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
    decision = record.decision
    return {
        "place": record.place,
        "target": record.target,
        "golden": record.golden,
        "part": "input" if record.is_input else "output",
        "verdict": decision.grade,
        "state": decision.state,
        "rule": decision.rule.value,
        "distance": record.distance,
        "evidence": None if decision.evidence is None else _evidence_data(decision.evidence),
        "excess": _finite(decision.excess),
        "reason": str(reasons_phrase(decision.reasons)) if decision.reasons else "",
        "cause": None if decision.cause is None else decision.cause.name.lower(),
        "otherwise": str(otherwise_phrase(decision)),
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
