"""Diagnose a rollout: one verdict and one cause from the findings of all detectors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.verdicts import Verdicts
from msprobe.compare.core.reason import Cause as WhyUnjudged
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.judge.verdict import PASS, Grade, Verdict, unjudged
from msprobe.findings.catalogue import rollout as catalogue
from msprobe.findings.kind import Kind

from .alignment import Aligned
from .case import (
    CLEAN,
    Array,
    ByPosition,
    BySample,
    Case,
    Cause,
    Overall,
    Suspect,
    case_of,
    gathered,
    is_end_token,
)
from .mask_detectors import by_kinds, by_onset, by_vocabulary
from .side import LOWEST
from .token_detectors import by_ids, by_label, by_lag, by_lengths, by_zeros
from .value_detectors import by_scatter, by_settings, by_size, by_steps, by_weights

Detector = Callable[[Case], list[Suspect]]

_EVEN_IF_EQUAL: tuple[Detector, ...] = (by_ids, by_lengths, by_zeros)
"""Detectors that also run if all gaps are small."""

_DETECTORS: tuple[Detector, ...] = (
    *_EVEN_IF_EQUAL,
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

MIN_TOKENS = 8
"""Tokens below which a cause is named only if it is certain."""

_SURE, _CERTAIN = 0.5, 0.97
"""Minimum strength of a reported cause; the second applies with too few tokens for statistics."""

KINDS: dict[Cause, Kind] = {
    "numerics": catalogue.NUMERICS,
    "weights": catalogue.WEIGHTS,
    "sampling settings": catalogue.SAMPLING,
    "shift": catalogue.SHIFT,
    "mask": catalogue.MASK,
    "tokens": catalogue.TOKENS,
    "truncation": catalogue.TRUNCATION,
    "unclear": catalogue.UNCLEAR,
}
"""The kind of finding of each cause."""


class Gap(Enum):
    """Why something could not be judged."""

    NOT_FINITE = "samples with NaN or infinities"
    LOST = "samples on one side only, and unreadable arrays"


@dataclass(frozen=True, eq=False)
class RolloutResult:
    """Verdict, cause and evidence, the overall numbers, and arrays of them by position and by sample.

    `aligned` has the compared tokens. `by_sample` has a place for each pair of samples, in the order of
    `aligned.sample`. `unjudged` are the samples (of generated) that contain NaN or an infinity; they are in no number.
    `lost` is the number of samples on one side only, and of inputs that were not read.
    """

    verdict: Verdict
    cause: Cause
    candidates: Sequence[Suspect]
    evidence: Sequence[str]
    overall: Overall
    by_position: ByPosition
    by_sample: BySample
    aligned: Aligned
    unjudged: Sequence[int]
    lost: int = 0

    @property
    def verdicts(self) -> Verdicts:
        """Return the number of judged samples, and the numbers of unjudged ones."""
        is_wrong = self.verdict.grade in ("warning", "error")
        samples = len(self.by_sample.mean_absolute)
        return Verdicts(samples - is_wrong, int(is_wrong), {Gap.NOT_FINITE: len(self.unjudged), Gap.LOST: self.lost})

    @property
    def is_clean(self) -> bool:
        """Return whether both sides are equal to float32."""
        return bool(self.verdict)

    @property
    def headline(self) -> str:
        """Return verdict and cause."""
        reason = f": {self.verdict.reason}" if self.verdict.reason else ""
        return f"{self.verdict.grade}: cause: {self.cause}{reason}"

    def lines(self, top: int = 5) -> list[str]:
        """Return the answer for a console: verdict and cause, evidence, numbers, the `top` worst samples."""
        o = self.overall
        lines = [self.headline]
        lines += [f"  {parts}" for parts in self.evidence]
        if len(self.candidates) > 1:
            lines.append("  candidates: " + ", ".join(f"{c.cause} {c.strength:.2f}" for c in self.candidates))
        lines.append(
            f"{o.samples} samples, {o.tokens} tokens: mean gap {o.mean:+.4g}, mean absolute "
            f"{o.mean_absolute:.4g}, largest {o.max_absolute:.4g}; KL k1 {o.k1:.4g}, k2 {o.k2:.4g}, k3 "
            f"{o.k3:.4g}; correlation {o.correlation:.6g}, slope {o.slope:.6g}; mean difference of probabilities "
            f"{o.probability_gap:.4g}"
        )
        for at in self.worst(top):
            s = self.by_sample
            lines.append(
                f"sample {self.aligned.sample[at]}: mean absolute gap {s.mean_absolute[at]:.4g}, largest "
                f"{s.max_absolute[at]:.4g} at position {s.worst[at]} of {self.aligned.lengths[at]}"
            )
        return lines

    def worst(self, top: int) -> list[int]:
        """Return the positions in `by_sample` of the `top` samples with the greatest mean absolute gaps; none without a
        gap."""
        size = self.by_sample.mean_absolute
        order = sorted((at for at in range(len(size)) if size[at] > 0), key=lambda at: (-size[at], at))
        return order[:top]


def diagnose(aligned: Aligned, lost: Sequence[str] = ()) -> RolloutResult:
    """Measure and judge aligned samples. `lost` has a sentence on each input that was not read; then the result is
    never a pass."""
    lost = list(lost)
    number = len(lost) + sum(map(len, aligned.unpaired))
    for name, left in zip(("generated", "recomputed"), aligned.unpaired, strict=True):
        if len(left):
            named = ", ".join(map(str, left[:5].tolist())) + (", ..." if len(left) > 5 else "")
            lost.append(f"{len(left)} samples are only in {name} and are not compared ({named}).")
    is_finite, broken = _finite_samples(aligned)
    lost += broken
    not_judged = tuple(aligned.sample[~is_finite].tolist())
    if not_judged:
        aligned = aligned.chosen(is_finite)
    if not len(aligned.generated):
        raise UsageError(
            "no token has a finite log-prob on both sides; "
            + (broken[0] if broken else "check the given masks and lengths")
        )
    gaps = aligned.generated - aligned.recomputed
    by_sample, by_position = gathered(aligned, gaps)
    case = case_of(aligned, gaps, by_sample)
    total = case.overall
    is_clean = case.is_within(CLEAN)
    findings = [finding for detector in (_EVEN_IF_EQUAL if is_clean else _DETECTORS) for finding in detector(case)]
    cause: Cause
    candidates: tuple[Suspect, ...]
    message = f"mean absolute gap {total.mean_absolute:.3g}"
    if is_clean and not findings:
        cause, candidates = "none", (Suspect("none", 1.0, ""),)
        verdict = PASS
        if lost:
            verdict = unjudged(WhyUnjudged.FAILED, *(Reason(Why.TEXT, name=each.removesuffix(".")) for each in lost))
        text = f"{message}, largest {total.max_absolute:.3g} over {total.tokens} tokens"
        evidence = [f"{text}: no more than float32 rounding in a different order of sums."]
    else:
        candidates = _ranked(findings)
        is_sure = candidates and candidates[0].strength >= (_SURE if total.tokens >= MIN_TOKENS else _CERTAIN)
        cause = candidates[0].cause if is_sure else "unclear"
        grade: Grade = "warning" if cause == "numerics" and case.is_within(case.rounding) else "error"
        verdict = Verdict(grade, (Reason(Why.TEXT, name=f"{KINDS[cause].title.english}; {message}"),))
        told_of = [f for f in sorted(findings, key=lambda f: -f.strength) if cause in (f.cause, "unclear")]
        evidence = list(dict.fromkeys(f"{f.text[0].upper()}{f.text[1:]}." for f in told_of))
    evidence += [*_remarks(aligned), *lost]
    return RolloutResult(
        verdict, cause, candidates, tuple(evidence), total, by_position, by_sample, aligned, not_judged, number
    )


def _ranked(findings: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Return the strongest suspect of each cause, the strongest first."""
    best: dict[Cause, Suspect] = {}
    for finding in findings:
        if finding.cause not in best or finding.strength > best[finding.cause].strength:
            best[finding.cause] = finding
    return tuple(sorted(best.values(), key=lambda one: -one.strength))


def _finite_samples(aligned: Aligned) -> tuple[Array, list[str]]:
    """Return which samples are finite, and a sentence on the others."""
    finite = np.isfinite(aligned.generated) & np.isfinite(aligned.recomputed)
    finite &= (aligned.generated > LOWEST) & (aligned.recomputed > LOWEST)
    whole = np.ones(aligned.count, bool)
    if finite.all():
        return whole, []
    places = np.flatnonzero(~finite)
    samples = np.searchsorted(aligned.starts, places, side="right") - 1
    whole[samples] = False
    first, sample = int(places[0]), int(samples[0])
    text = (
        f"{int((~whole).sum())} samples contain NaN or infinity (or a replacement value) and are not judged, "
        f"first sample {aligned.sample[sample]} at position {first - int(aligned.starts[sample])}: "
        f"{aligned.generated[first]:g} generated, {aligned.recomputed[first]:g} recomputed."
    )
    return whole, [text]


def _remarks(aligned: Aligned) -> list[str]:
    """Return sentences on samples that the alignment reordered or cut."""
    parts = []
    if aligned.is_reordered:
        parts.append("The samples are in a different order and were paired by their token ids.")
    one, other = aligned.sizes
    if (one != other).any() and is_end_token(aligned.sizes):
        longer = "generated" if (one > other).any() else "recomputed"
        count = int((one != other).sum())
        parts.append(f"An additional end token in {count} samples of {longer} is not compared.")
    return parts
