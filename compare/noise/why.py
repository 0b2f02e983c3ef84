"""What decided about a pair of records under noise, as the reason in the table."""

import math

from msprobe.compare.core.limits import LimitSource
from msprobe.compare.core.noise import Evidence, Sign
from msprobe.compare.core.reason import Reason, Reasons, Why


def why_noise(evidence: Evidence | None) -> Reasons:
    """What decided about a pair of records, as a reason; it names whose limit did, where that is not built in."""
    if evidence is None:
        return (Reason(Why.NOISE_BEFORE),)
    is_noise, by = evidence.sign is Sign.NONE, evidence.source
    found = Reason(Why.NOISE, amount=evidence.residual, excess=evidence.golden_residual, allowed=evidence.bound)
    if evidence.law:
        why = Why.LAW_KEPT if is_noise else Why.LAW_BROKEN
        return (found._replace(why=why, name=evidence.law, side=evidence.statistic),)
    names = () if by is LimitSource.BUILT_IN else (by.value,)
    if not evidence.is_by_statistics and not math.isnan(evidence.bound) and not math.isnan(evidence.residual):
        why = Why.NOISE if is_noise else Why.RESIDUAL
        return (found._replace(why=why, name=evidence.sign.value, names=names),)
    if evidence.is_by_statistics:
        why = Why.NOISE_OF_STATISTICS if is_noise else Why.BEYOND_STATISTICS
    else:
        why = Why.NOISE_AMPLIFIED if is_noise else Why.BEYOND_INPUTS
    return (Reason(why, amount=evidence.apart, allowed=evidence.explained, names=names),)
