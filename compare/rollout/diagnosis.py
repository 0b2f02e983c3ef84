"""One cause and one verdict from the findings of all detectors."""

from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.judge.verdict import PASS, Verdict, unjudged
from msprobe.compare.judge.verdict import Cause as WhyUnjudged

from .alignment import Aligned
from .detector import ByPosition, BySample, Case, Cause, Finding, Overall
from .mask_detectors import by_kinds, by_onset, by_vocabulary
from .side import FEWEST
from .token_detectors import by_ids, by_label, by_lag, by_lengths, by_zeros
from .value_detectors import by_scatter, by_settings, by_size, by_steps, by_weights, is_clean, is_usual_rounding

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


@dataclass(frozen=True, eq=False)
class Answer:
    """Verdict, cause and evidence, the numbers over all, and arrays of them by position and by sample.

    `aligned` is what was compared, token by token. `by_sample` has a place for each pair of samples, in the order of
    `aligned.sample`. `unjudged` are the samples (of generated) that hold NaN or an infinity; they are in no number.
    """

    verdict: Verdict
    cause: Cause
    candidates: Sequence[Candidate]
    evidence: Sequence[str]
    overall: Overall
    by_position: ByPosition
    by_sample: BySample
    aligned: Aligned
    unjudged: Sequence[int]

    @property
    def is_clean(self) -> bool:
        """Whether both sides are the same to float32."""
        return bool(self.verdict)

    def lines(self, top: int = 5) -> list[str]:
        """The answer for a console: verdict and cause, evidence, numbers, the `top` worst samples."""
        o = self.overall
        lines = [
            f"{self.verdict.grade}: cause: {self.cause}" + (f": {self.verdict.reason}" if self.verdict.reason else "")
        ]
        lines += [f"  {said}" for said in self.evidence]
        if len(self.candidates) > 1:
            lines.append("  candidates: " + ", ".join(f"{c.cause} {c.strength:.2f}" for c in self.candidates))
        lines.append(
            f"{o.samples} samples, {o.tokens} tokens: mean gap {o.mean:+.4g}, mean absolute {o.mean_absolute:.4g}, "
            f"greatest {o.max_absolute:.4g}; KL k1 {o.k1:.4g}, k2 {o.k2:.4g}, k3 {o.k3:.4g}; correlation "
            f"{o.correlation:.6g}, slope {o.slope:.6g}; probabilities {o.probability_gap:.4g} apart"
        )
        for at in self.worst(top):
            s = self.by_sample
            lines.append(
                f"sample {self.aligned.sample[at]}: mean absolute gap {s.mean_absolute[at]:.4g}, greatest "
                f"{s.max_absolute[at]:.4g} at position {s.worst[at]} of {self.aligned.lengths[at]}"
            )
        return lines

    def worst(self, top: int) -> list[int]:
        """Places in `by_sample` of the `top` samples with the greatest mean absolute gaps; none without a gap."""
        size = self.by_sample.mean_absolute
        order = sorted((at for at in range(len(size)) if size[at] > 0), key=lambda at: (-size[at], at))
        return order[:top]
