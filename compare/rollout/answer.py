"""What a rollout check gives: the verdict and its cause, with all numbers behind them."""

from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.compare.judge.verdict import Verdict

from .align import Aligned
from .case import Cause
from .judge import Candidate
from .measure import ByPosition, BySample, Overall


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
