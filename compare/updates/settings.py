"""Compare the updates of two sides by the settings that explain each: which differ, and for which parameters.

The form that explains the golden's updates is applied to the target's own weights and gradients. If its residual is not
greater than that of the target's own form, the forms are equal as far as the steps show, and the learning rate and
weight decay of each parameter are compared within their standard errors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log10

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.locate.finding import Explanation, Rule, UpdateCause, UpdateDifference

from .fit import (
    MIN_EXPLAINED,
    Fit,
    Floats,
    Form,
    History,
    either,
    fit,
    fit_form,
    fit_tied,
    is_written,
    refine,
    rounded,
    uncorrected,
)

RATE = 2e-4
"""Learning rates with a smaller relative difference are equal: fitted ones of one optimizer scatter by at most 2e-5
(for the data of `msprobe.compare.updates.fit.EXPLAINED`)."""

DECAY = 1e-3
"""The same for weight decay times learning rate."""

ERRORS = 6.0
"""Number of standard errors within which values are equal."""

FORM = 2.0, 1.5
"""The other side's form explains equally well up to this misfit, and up to this multiple of that of the own form. Clean
pairs: at most 1.2; beta2 of 0.99 instead of 0.999 after two steps: 1460."""

_MATCH = 1e-3  # relative difference of a ratio of learning rates up to which another cause may explain it
BETAS = ((0.9, 0.999), (0.9, 0.95), (0.9, 0.98))
_FIELDS = {
    "momentum": UpdateCause.MOMENTUM,
    "beta1": UpdateCause.BETA1,
    "beta2": UpdateCause.BETA2,
    "eps": UpdateCause.EPS,
    "l2": UpdateCause.WEIGHT_DECAY,
    "max_norm": UpdateCause.CLIPPING,
    "rule": UpdateCause.RULE,
}

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Compared:
    """One entry per parameter. `is_known`: the updates of both sides are explained, so settings decide; `excess` is the
    difference in units of the limit (above 1 it differs)."""

    is_known: Bools
    excess: Floats
    differences: tuple[UpdateDifference, ...]


def compare_settings(target: History, golden: History, at: int) -> Compared:
    """Compare the update that led to step `at`; both histories have the same parameters in the same order.

    Steps after `at` only help to distinguish causes. It is not a difference whether eps is added before or after the
    bias correction: the frameworks differ in that.
    """
    return _Comparison(target, golden, at).compared()


class _Comparison:
    def __init__(self, target: History, golden: History, at: int) -> None:
        self._histories = target, golden
        self._at, self._steps = at, len(target.gradients)

    @cached_property
    def _fits(self) -> tuple[Fit, Fit]:
        """Return the best fits to the last step, which shows most of the form."""
        return fit(self._histories[0]), fit(self._histories[1])

    def _own(self, side: int, steps: int) -> Fit:
        """Return the form of one side on an earlier step; if the place of its eps is unknown, the eps of each step is
        different."""
        form, history = self._fits[side].form, self._histories[side].until(steps)
        found = fit_form(form, history)
        if form.is_adaptive and not found.explains.all():
            found = min((found, refine(form, history, ["eps"])), key=lambda one: one.cost)
        return found

    def compared(self) -> Compared:
        target, golden = (history.until(self._at) for history in self._histories)
        own, other = self._own(0, self._at), self._own(1, self._at)
        is_zero = [history.rms(history.update) == 0 for history in (target, golden)]
        are_visible = target.is_visible & golden.is_visible
        not_updated, updated_here = is_zero[0] & golden.is_visible, is_zero[1] & target.is_visible
        is_known = own.explains & other.explains & are_visible
        crossed = self._crossed(other, target, own)
        form_excess = crossed.misfit / _allowed(own)
        common = either(form_excess <= 1, crossed, own)
        rate, decay = _rate_excess(common, other), _decay_excess(common, other, target.ulps)
        excess = np.maximum.reduce([form_excess, rate, decay])
        found = list(frozen(_names(target, not_updated), _names(target, updated_here), int(are_visible.sum())))
        differing = is_known & (excess > 1)
        wrong = self._unexplained(differing) if differing.any() else differing
        form, changed = self._change(wrong) if wrong.any() else (None, ())
        if form is not None:
            moved = fit_form(form, target)
            tied = fit_tied(form, target, _decay(other))
            common = either(form_excess > 1, moved, common)
            is_all = (tied.misfit <= _allowed(own)) & (_rate_excess(tied, other) <= 1)
            rate = np.where(is_all, 0.0, _rate_excess(common, other))
            decay = np.where(is_all, 0.0, _decay_excess(common, other, target.ulps))
            named = differing & (is_all | wrong)
            agreeing = int((is_known & ~named).sum())
            found += [replace(one, parameters=_names(target, named), agreeing=agreeing) for one in changed]
        causes = {one.cause for one in changed}
        if differing.any() and UpdateCause.RULE not in causes:  # with another rule, learning rates have another meaning
            found += self._rate_differences(common, other, differing & (rate > 1), is_known)
        if differing.any() and UpdateCause.WEIGHT_DECAY not in causes:
            found += self._decay_differences(common, other, differing & (decay > 1), is_known & (decay <= 1))
        is_frozen = not_updated | updated_here
        return Compared(is_known | is_frozen, np.where(is_frozen, inf, excess), tuple(found))

    def _crossed(self, golden: Fit, target: History, own: Fit) -> Fit:
        """Return the golden's form applied to the target, also with its eps added at the other place."""
        crossed = fit_form(golden.form, target)
        if not golden.form.is_adaptive or (crossed.misfit <= _allowed(own)).all():
            return crossed
        moved = replace(golden.form, is_eps_first=not golden.form.is_eps_first)
        return min((crossed, fit_form(moved, target)), key=lambda one: one.cost)

    # The differences.

    def _unexplained(self, differing: Bools) -> Bools:
        """Return the parameters that the golden's form does not explain in the last step, which contains the most
        information."""
        own, other = self._fits
        crossed = self._crossed(other, self._histories[0], own)
        return differing & own.explains & (crossed.misfit > _allowed(own))

    def _change(self, wrong: Bools) -> tuple[Form, Sequence[UpdateDifference]]:
        """Return the form that explains the target in the last step, and the differences from the golden's."""
        numbers = np.flatnonzero(wrong)
        own, other = self._fits
        return _changed(own.form, other.form, self._histories[0].of(numbers.tolist()), other.rate[numbers])

    def _rate_differences(self, ours: Fit, theirs: Fit, wrong: Bools, is_known: Bools) -> Iterator[UpdateDifference]:
        target = self._histories[0]
        ratio = ours.rate / np.where(theirs.rate == 0, 1.0, theirs.rate)
        for chosen in _alike(ratio, wrong):
            factor = float(np.median(ratio[chosen]))
            rates = float(np.median(ours.rate[chosen])), float(np.median(theirs.rate[chosen]))
            agreeing = int((is_known & ~wrong).sum())
            residual = float(np.median(ours.misfit[chosen]))
            found = UpdateDifference(
                UpdateCause.LEARNING_RATE, _names(target, chosen), agreeing, *rates, factor, residual=residual
            )
            yield found if agreeing else self._cause_of_rate(found, factor, chosen)

    def _cause_of_rate(self, rate: UpdateDifference, factor: float, chosen: Bools) -> UpdateDifference:
        """Return the cause of a difference of all learning rates: bias correction or clipping, if these cause exactly
        that factor.

        Over several steps this is hardly by chance. For one step, they are the simpler explanation if the learning
        rates are not round multiples of each other.
        """
        form = self._fits[0].form
        ratios = [self._ratio(steps, chosen) for steps in range(1, self._steps + 1)]
        is_round = is_written(factor) or is_written(1 / factor)
        if form.is_adaptive:
            for beta1, beta2 in [(form.beta1, form.beta2)] if self._steps > 1 else BETAS:
                by = [uncorrected(replace(form, beta1=beta1, beta2=beta2), k + 1) for k in range(self._steps)]
                for sign in (1, -1):
                    if all(abs(r / b**sign - 1) < _MATCH for r, b in zip(ratios, by, strict=True)):
                        cause = Explanation(UpdateCause.BIAS_CORRECTION, residual=rate.residual)
                        return by_another(rate, cause, is_certain=self._steps > 1, is_simpler=not is_round)
            return rate
        side, sign = (0, 1) if factor < 1 else (1, -1)
        norms = self._histories[side].norms
        if len(norms) < self._steps or not all(norm > 0 for norm in norms):
            return rate
        limit = float(factor**sign * norms[self._at - 1])
        expected = [min(1.0, limit / norm) for norm in norms[: self._steps]]
        if all(abs(r**sign / e - 1) < 10 * _MATCH for r, e in zip(ratios, expected, strict=True)):
            is_certain = max(expected) / min(expected) > 1 + 30 * _MATCH
            usual = next((one for one in (float(f"{limit:.0e}"), 0.25) if abs(limit / one - 1) < _MATCH), None)
            if is_certain or usual:
                ours, theirs = (usual or limit, None) if factor < 1 else (None, usual or limit)
                cause = Explanation(UpdateCause.CLIPPING, ours, theirs, rate.residual)
                return by_another(rate, cause, is_certain=is_certain, is_simpler=not is_round)
        if self._steps == 1 and any(abs(factor**-sign - 1 - m) < _MATCH for m in (0.9, 0.95, 0.99)):
            return replace(rate, possible=(UpdateCause.RULE,))
        return rate

    def _ratio(self, steps: int, chosen: Bools) -> float:
        ours, theirs = (self._own(side, steps).rate[chosen] for side in (0, 1))
        return float(np.median(ours / np.where(theirs == 0, 1.0, theirs)))

    def _decay_differences(self, ours: Fit, theirs: Fit, wrong: Bools, right: Bools) -> Iterator[UpdateDifference]:
        target = self._histories[0]
        values = [_decay(one) for one in (ours, theirs)]
        are_known = np.isfinite(ours.decay_error) & np.isfinite(theirs.decay_error)
        wrong = wrong & are_known
        for chosen in _alike(values[0] - values[1], wrong):
            decays = [float(np.median(value[chosen])) for value in values]
            decays = [0.0 if abs(one) < DECAY * max(map(abs, decays)) else one for one in decays]
            factor = decays[0] / decays[1] if decays[1] else None
            agreeing = int((right & are_known).sum())
            yield UpdateDifference(
                UpdateCause.WEIGHT_DECAY, _names(target, chosen), agreeing, decays[0], decays[1], factor
            )


def frozen(not_updated: Sequence[str], updated_here: Sequence[str], agreeing: int) -> Iterator[UpdateDifference]:
    """Yield the parameters that only one side did not update.

    If a side updates none of several parameters, its learning rate is 0: one setting is a simpler explanation than
    freezing all of them.
    """
    is_all = not agreeing and not (not_updated and updated_here)
    for cause, names, ours, theirs in (
        (UpdateCause.NOT_UPDATED, not_updated, 0.0, None),
        (UpdateCause.UPDATED_HERE, updated_here, None, 0.0),
    ):
        if is_all and len(names) > 1:
            yield UpdateDifference(
                UpdateCause.LEARNING_RATE, tuple(names), agreeing, ours, theirs, possible=(cause,), residual=0.0
            )
        elif names:
            yield UpdateDifference(cause, tuple(names), agreeing)


def by_another(rate: UpdateDifference, other: Explanation, *, is_certain: bool, is_simpler: bool) -> UpdateDifference:
    """Return a difference of learning rates with another explanation that leaves an equal residual, the more likely one
    first."""
    if not (is_certain or is_simpler):
        return replace(rate, possible=(other.cause,), others=(other,))
    of_rate = Explanation(UpdateCause.LEARNING_RATE, rate.target, rate.golden, rate.residual)
    possible = () if is_certain else (UpdateCause.LEARNING_RATE,)
    others = () if is_certain else (of_rate,)
    return replace(rate, cause=other.cause, target=other.target, golden=other.golden, possible=possible, others=others)


def _allowed(own: Fit) -> Floats:
    return np.maximum(FORM[0], FORM[1] * own.misfit)


def _rate_excess(ours: Fit, theirs: Fit) -> Floats:
    scale = np.maximum(np.abs(theirs.rate), np.finfo(np.float64).tiny)
    allowed = np.maximum(RATE * scale, ERRORS * np.hypot(ours.rate_error, theirs.rate_error))
    with np.errstate(over="ignore"):  # a golden rate of 0: the relative difference is unlimited
        excess: Floats = np.abs(ours.rate - theirs.rate) / allowed
    return excess


def _decay_excess(ours: Fit, theirs: Fit, ulps: Floats) -> Floats:
    """Return the excess of learning rate times weight decay; 0 if another learning rate alone explains it."""
    error = np.hypot(ours.decay_error, theirs.decay_error)
    scale = np.maximum(np.abs(ours.decay), np.abs(theirs.decay))
    # Kernels multiply by 1 - lr * wd, which is rounded once for all elements.
    limit = np.maximum.reduce([ERRORS * error, DECAY * scale, ulps])
    ratio = np.abs(ours.rate) / np.maximum(np.abs(theirs.rate), np.finfo(np.float64).tiny)
    excess: Floats = np.minimum(
        np.abs(ours.decay - theirs.decay) / limit,
        np.abs(ours.decay - theirs.decay * ratio) / (limit * np.maximum(ratio, 1.0)),
    )
    return np.where(np.isfinite(error), excess, 0.0)


def _decay(found: Fit) -> Floats:
    decay: Floats = found.decay / np.where(found.rate == 0, 1.0, found.rate)
    return decay


def _alike(values: Floats, chosen: Bools) -> Iterator[Bools]:
    """Yield the chosen parameters in groups of nearly equal values, largest group first."""
    left = chosen.copy()
    found = []
    while left.any():
        first = values[np.flatnonzero(left)[0]]
        group = left & (np.abs(values - first) <= 0.02 * abs(first))
        found.append(group)
        left &= ~group
    return iter(sorted(found, key=lambda group: -int(group.sum())))


def _changed(ours: Form, theirs: Form, target: History, rate: Floats) -> tuple[Form, Sequence[UpdateDifference]]:
    """Return the setting that converts the golden's form to the target's: a single one if that explains it, otherwise
    all.

    Of several such settings, those come first that keep the golden's learning rate, then those with round numbers;
    those that are equally good are possible causes. All that were tried are listed with their residuals.
    """
    theirs = replace(theirs, is_eps_first=ours.is_eps_first)
    allowed = _allowed(fit_form(ours, target))
    found: list[tuple[tuple[bool, bool], Form, UpdateDifference]] = []
    tried: dict[UpdateCause, Explanation] = {}
    for name, start, is_refined in _single_changes(ours, theirs, target):
        refined = refine(start, target, [name]) if is_refined else fit_form(start, target)
        if is_refined:
            refined = rounded(refined, target, name)
        one = _difference(name, refined.form, theirs)
        residual = float(np.median(refined.misfit))
        if one.cause not in tried or residual < tried[one.cause].residual:
            tried[one.cause] = Explanation(one.cause, one.target, one.golden, residual)
        if np.mean(refined.misfit <= allowed) < MIN_EXPLAINED:
            continue
        apart = float(np.median(np.abs(refined.rate / np.where(rate == 0, 1.0, rate) - 1)))
        is_odd = isinstance(one.target, float) and not is_written(one.target)
        is_odd |= name == "eps" and abs(log10(refined.form.eps) - round(log10(refined.form.eps))) > _MATCH
        found.append(((apart > _MATCH, is_odd), refined.form, replace(one, residual=residual)))
    others = tuple(sorted(tried.values(), key=lambda one: one.residual))
    if found:
        best, form, first = min(found, key=lambda one: one[0])
        same = dict.fromkeys(one.cause for rank, _, one in found if rank == best and one.cause is not first.cause)
        left = tuple(one for one in others if one.cause is not first.cause)
        return form, (replace(first, possible=tuple(same), others=left),)
    residual = float(np.median(fit_form(ours, target).misfit))
    if ours.rule is not theirs.rule:
        return ours, (replace(_difference("rule", ours, theirs), residual=residual, others=others),)
    names = [name for name in _FIELDS if name != "rule"]
    values = [(name, getattr(ours, name), getattr(theirs, name)) for name in names]
    all_of_them = [_difference(name, ours, theirs) for name, a, b in values if a != b and abs(a - b) > 0.02 * abs(b)]
    all_of_them = all_of_them or [UpdateDifference(UpdateCause.UNKNOWN, ())]
    causes = {one.cause for one in all_of_them}
    left = tuple(one for one in others if one.cause not in causes)
    return ours, [replace(one, residual=residual, others=left) for one in all_of_them]


def _difference(name: str, ours: Form, theirs: Form) -> UpdateDifference:
    """Return the difference of one number of two forms; None instead of an infinite one, if gradients are not
    clipped."""
    target, golden = (None if getattr(form, name) == inf else getattr(form, name) for form in (ours, theirs))
    return UpdateDifference(_FIELDS[name], (), 0, target, golden)


def _single_changes(ours: Form, theirs: Form, target: History) -> Iterator[tuple[str, Form, bool]]:
    """Yield the golden's form with one number changed, and whether that number is to be searched, or used as it is."""
    if theirs.is_adaptive:
        for name in ("beta1", "beta2", "eps"):
            if name == "eps" or len(target.gradients) > 1:
                for start in dict.fromkeys((replace(theirs, **{name: getattr(ours, name)}), theirs)):
                    yield name, start, True
        if ours.l2:
            yield "l2", replace(theirs, rule=Rule.ADAM, l2=ours.l2), True
    elif not ours.is_adaptive and len(target.gradients) > 1:
        other = Rule.NESTEROV if theirs.rule is Rule.MOMENTUM else Rule.MOMENTUM
        if theirs.momentum:
            yield "rule", replace(theirs, rule=other), False
            yield "momentum", theirs, True
        if not ours.momentum:
            yield "momentum", replace(theirs, rule=Rule.SGD, momentum=0.0), False
        else:
            rule = ours.rule if theirs.rule is Rule.SGD else theirs.rule
            yield "momentum", replace(theirs, rule=rule, momentum=ours.momentum), True
    if theirs.max_norm < inf:
        yield "max_norm", replace(theirs, max_norm=inf), False
    if ours.max_norm < inf:
        yield "max_norm", replace(theirs, max_norm=ours.max_norm), False
    if theirs.rule is not Rule.SGD and all(norm > 0 for norm in target.norms) and target.norms:
        for share in (0.9, 0.5, 0.25, 0.1, 0.03):
            yield "max_norm", replace(theirs, max_norm=share * min(target.norms)), True


def _names(history: History, chosen: Bools) -> tuple[str, ...]:
    return tuple(history.names[n] for n in np.flatnonzero(chosen))
