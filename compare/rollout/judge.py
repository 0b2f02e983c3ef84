"""The findings of all looks become one cause and one verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.compare.judge.verdict import PASS, Verdict, unjudged
from msprobe.compare.judge.verdict import Cause as WhyUnjudged
from msprobe.compare.reason import Reason, Why

from .case import Case, Cause, Finding
from .kinds import by_kinds
from .lag import by_label, by_lag
from .lengths import by_ids, by_lengths, by_zeros
from .onset import by_onset, by_vocabulary
from .rounding import by_scatter, by_size, by_steps, by_weights, is_clean, is_usual_rounding
from .sampling import by_settings
from .standard import FEWEST

_LOOKS = (
    by_ids,
    by_lengths,
    by_zeros,
    by_lag,
    by_onset,
    by_vocabulary,
    by_kinds,
    by_steps,
    by_settings,
    by_label,
    by_size,
    by_scatter,
    by_weights,
)

_EVEN_IF_EQUAL = (by_ids, by_lengths, by_zeros)
"""Looks at what may be wrong where all gaps are small."""

_SURE, _CERTAIN = 0.5, 0.97
"""A cause is named from this strength on; where there are too few tokens for any statistics, from the second on."""

_WORDS: dict[Cause, str] = {
    "numerics": "Rounding: another dtype, another eps or another kernel",
    "weights": "The two sides do not have the same weights",
    "sampling settings": "One side's log-probs are behind temperature, top-k, top-p or a penalty",
    "shift": "The log-probs are a place off",
    "mask": "Padding is attended to, counted, or moves the positions",
    "tokens": "The two sides do not have the same token ids",
    "truncation": "One side has less of the sequence",
    "unclear": "The gaps fit no single cause",
}


@dataclass(frozen=True)
class Candidate:
    """A cause and how strongly it is suggested, from 0 to 1."""

    cause: Cause
    strength: float


@dataclass(frozen=True)
class Judgement:
    """What is said of a comparison."""

    verdict: Verdict
    cause: Cause
    candidates: Sequence[Candidate]
    evidence: Sequence[str]


def judge(case: Case, remarks: Sequence[str], lost: Sequence[str]) -> Judgement:
    """Look for the cause. `remarks` are what alignment said, `lost` what could not be compared."""
    told = f"mean absolute gap {case.overall.mean_absolute:.3g}"
    if is_clean(case):
        findings = [finding for look in _EVEN_IF_EQUAL for finding in look(case)]
        if not findings:
            says = f"{told}, greatest {case.overall.max_absolute:.3g} over {case.overall.tokens} tokens"
            reasons = [Reason(Why.TOLD, name=each.removesuffix(".")) for each in lost]
            verdict = unjudged(WhyUnjudged.FAILED, *reasons) if lost else PASS
            equal = f"{says}: no more than float32 in another order."
            return Judgement(verdict, "none", (Candidate("none", 1.0),), (equal, *remarks, *lost))
    else:
        findings = [finding for look in _LOOKS for finding in look(case)]
    ranked = _ranked(findings)
    cause: Cause = "unclear"
    if ranked and ranked[0].strength >= (_SURE if case.overall.tokens >= FEWEST else _CERTAIN):
        cause = ranked[0].cause
    told_of = [f for f in sorted(findings, key=lambda f: -f.strength) if cause in (f.cause, "unclear")]
    evidence = dict.fromkeys(f"{f.says[0].upper()}{f.says[1:]}." for f in told_of)
    is_usual = cause == "numerics" and is_usual_rounding(case)
    verdict = Verdict("warning" if is_usual else "error", (Reason(Why.TOLD, name=f"{_WORDS[cause]}; {told}"),))
    return Judgement(verdict, cause, ranked, (*evidence, *remarks, *lost))


def _ranked(findings: Sequence[Finding]) -> tuple[Candidate, ...]:
    """Each cause once, the strongest first."""
    best: dict[Cause, float] = {}
    for finding in findings:
        best[finding.cause] = max(finding.strength, best.get(finding.cause, 0.0))
    return tuple(Candidate(cause, strength) for cause, strength in sorted(best.items(), key=lambda item: -item[1]))
