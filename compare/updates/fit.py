"""Fit an optimizer's settings to one side's weights and gradients of consecutive steps.

Noise between two runs has no influence: each side's updates follow from its own gradients up to the rounding of its
weights. So the residual of a fit is measured in units of that rounding, and a side is explained if it is a few of them.

Every rule here is `w_N - w_(N-1) = -lr * a - lr * wd * b` in float64, with columns `a` and `b` that follow from the
gradients and weights of all steps so far (from a state of zero) and from a `Form`: all other settings of an optimizer.

| rule | a | b |
|---|---|---|
| SGD | g | w |
| momentum | m(g) | m(w), m(x)_k = momentum * m(x)_(k-1) + x_k |
| Nesterov | g + momentum * m(g) | w + momentum * m(w) |
| Adam | m / (sqrt(v) + eps) of g + wd * w | none: weight decay is part of the form, as it is not linear |
| AdamW | m / (sqrt(v) + eps) of g | w |

m and v of Adam are the moving averages of x and x^2 with beta1 and beta2, divided by 1 - beta^k. If eps is added before
this correction, it counts as eps / sqrt(1 - beta2^k). An optimizer without the correction takes, in its k-th step,
`uncorrected(form, k)` times the learning rate, and adds its eps at the same place. One step cannot distinguish these,
so a `Form` always corrects. Clipping divides eps by the remaining share of the gradients, so the eps of one step shows
the limit of the norm, or a limit the eps; `simplest` selects among such explanations.

Sources: Sutskever et al. 2013 as in `torch.optim.SGD` and `mindspore.nn.Momentum`; Kingma and Ba, arXiv:1412.6980,
algorithm 1 (`torch.optim.Adam`) and the order of computation in section 2, where eps is added before the correction
(`mindspore.nn.Adam`); Loshchilov and Hutter, arXiv:1711.05101 (`torch.optim.AdamW`, and without bias correction
`mindspore.nn.AdamWeightDecay`). Clipping by the global norm multiplies all gradients of a step with min(1, max_norm /
norm).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.locate.finding import Rule

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Form:
    """A rule with all settings that are not factors of its columns.

    `eps` is added to the square root: to the corrected one, or, if `is_eps_first`, before the correction. `l2` is the
    weight decay of Adam, 0 for other rules.
    """

    rule: Rule
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    l2: float = 0.0
    max_norm: float = inf
    is_eps_first: bool = False

    @property
    def is_adaptive(self) -> bool:
        """Return whether it divides by a root of squared gradients."""
        return self.rule in (Rule.ADAM, Rule.ADAMW)

    @property
    def is_l2(self) -> bool:
        """Return whether weight decay is part of the form."""
        return self.rule is Rule.ADAM and self.l2 > 0


def columns(form: Form, history: "History") -> list[Floats]:
    """Return the columns `a` and, if the rule has one, `b` of the last step."""
    weights, gradients = history.weights, list(history.gradients)
    if form.max_norm < inf:
        gradients = [g * min(1.0, form.max_norm / norm) for g, norm in zip(gradients, history.norms, strict=True)]
    last_g, last_w = gradients[-1], weights[len(gradients) - 1]
    if form.is_adaptive:
        if form.l2:
            gradients = [g + form.l2 * w for g, w in zip(gradients, weights, strict=False)]
        direction = _adam(form, gradients)
        return [direction, last_w] if form.rule is Rule.ADAMW else [direction]
    if form.rule is Rule.SGD:
        return [last_g, last_w]
    found = [_accumulated(gradients, form.momentum), _accumulated(weights[: len(gradients)], form.momentum)]
    if form.rule is Rule.NESTEROV:
        found = [last + form.momentum * m for last, m in zip((last_g, last_w), found, strict=True)]
    return found


def _accumulated(values: Sequence[Floats], momentum: float) -> Floats:
    total = np.zeros_like(values[0])
    for value in values:
        total = momentum * total + value
    return total


def _adam(form: Form, gradients: Sequence[Floats]) -> Floats:
    mean, square = np.zeros_like(gradients[0]), np.zeros_like(gradients[0])
    for g in gradients:
        mean = form.beta1 * mean + (1 - form.beta1) * g
        square = form.beta2 * square + (1 - form.beta2) * g * g
    steps = len(gradients)
    root = np.sqrt(square / (1 - form.beta2**steps))
    eps = form.eps / sqrt(1 - form.beta2**steps) if form.is_eps_first else form.eps
    # If all gradients were zero and eps is zero too, frameworks give NaN; nothing is updated in practice.
    direction: Floats = mean / (1 - form.beta1**steps) / np.maximum(root + eps, np.finfo(np.float64).tiny)
    return direction


def uncorrected(form: Form, steps: int) -> float:
    """Return the factor by which an Adam without bias correction multiplies the learning rate in a step, counted from
    1."""
    return (1 - form.beta1**steps) / sqrt(1 - form.beta2**steps)


EXPLAINED = 3.0
"""Largest residual of an accepted fit (root mean square), in units of `History.rounding`. Correct rules leave at most
0.96 for float32 parameters (PyTorch 2.13 and MindSpore 2.10; SGD, momentum, Nesterov, Adam, AdamW; one to six steps);
the closest wrong setting, eps of 1e-6 instead of 1e-8 after three steps, leaves 148."""

VISIBLE = 3.0
"""Updates smaller than this many roundings of the weights (root mean square) are not evidence about settings."""

KERNEL = 1e-6
"""Relative rounding of an update by the optimizer's own float32 arithmetic, sums of squares and roots included."""

MIN_EXPLAINED = 0.9
"""A form that explains this share of the parameters is the optimizer's; some parameters may have separate updates."""

_BETA1 = (0.9, 0.0, 0.5, 0.8, 0.95, 0.99)
_BETA2 = (0.999, 0.95, 0.99, 0.98, 0.9, 0.9999)
_EPS = (1e-8, 3e-7, 1e-5)
_MOMENTUM = (0.9, 0.5, 0.8, 0.95, 0.99)
_USUAL_EPS = (1e-8, 1e-6, 1e-5, 1e-7, 1e-10)
_L2 = (1e-4, 1e-3, 1e-2, 1e-1)
"""Start values of a search: those of public trainings; between them it is refined."""

_FEW = 4096  # elements of all parameters together with which a search begins
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class History:
    """Some parameters of one side over consecutive steps, as flat float64 arrays, one parameter after the other.

    `names` are the parameters, `starts` the position of each, and the end. `weights` are those of steps 0 to N,
    `gradients` those of steps 0 to N-1: all known steps, at least one. `ulps` is the spacing of the parameters' dtype
    at 1. `norms` are the global norms of the gradients, by step; NaN if unknown. `is_whole`: the state of the optimizer
    was zero before the first of the steps. Some elements may represent all.
    """

    names: tuple[str, ...]
    starts: NDArray[np.int64]
    weights: tuple[Floats, ...]
    gradients: tuple[Floats, ...]
    ulps: Floats
    norms: tuple[float, ...] = ()
    is_whole: bool = True

    @cached_property
    def update(self) -> Floats:
        """Return w_N - w_(N-1)."""
        return self.weights[-1] - self.weights[-2]

    @cached_property
    def rounding(self) -> Floats:
        """Return the rounding of each element: half a spacing of the greater weight, and the rounding of the
        optimizer's own arithmetic."""
        scale = np.maximum(np.abs(self.weights[-1]), np.abs(self.weights[-2]))
        spacing = np.repeat(self.ulps, np.diff(self.starts)) * 2.0 ** np.floor(
            np.log2(np.maximum(scale, np.finfo(np.float32).tiny))
        )
        found: Floats = np.hypot(0.5 * spacing, KERNEL * np.abs(self.update))
        return found

    @cached_property
    def is_visible(self) -> NDArray[np.bool_]:
        """Return for each parameter whether its update is more than rounding."""
        return self.rms(self.update / self.rounding) >= VISIBLE

    def rms(self, values: Floats) -> Floats:
        """Return the root mean square of each parameter."""
        found: Floats = np.sqrt(np.add.reduceat(values * values, self.starts[:-1]) / np.diff(self.starts))
        return found

    def until(self, steps: int) -> "History":
        """Return the history with fewer steps."""
        return replace(
            self, weights=self.weights[: steps + 1], gradients=self.gradients[:steps], norms=self.norms[:steps]
        )

    def thinned(self, size: int) -> "History":
        """Return the history with some elements of every parameter."""
        each = max(1, size // len(self.names))
        picked = [
            np.unique(np.linspace(start, stop - 1, min(each, stop - start)).astype(np.int64))
            for start, stop in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        ]
        return self._picked(picked)

    def of(self, chosen: Sequence[int]) -> "History":
        """Return the history of some parameters, by number."""
        found = self._picked([np.arange(self.starts[n], self.starts[n + 1]) for n in chosen])
        return replace(found, names=tuple(self.names[n] for n in chosen), ulps=self.ulps[list(chosen)])

    def _picked(self, elements: Sequence[NDArray[np.int64]]) -> "History":
        """Return the history of some elements, by parameter."""
        at = np.concatenate(elements)
        return replace(
            self,
            starts=np.concatenate([[0], np.cumsum([len(one) for one in elements])]),
            weights=tuple(w[at] for w in self.weights),
            gradients=tuple(g[at] for g in self.gradients),
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of a form for a history, one entry per parameter.

    `rate` is the learning rate, `decay` learning rate times weight decay; with their standard errors (inf if the
    parameter contains no information about it). `misfit` is the root mean square of the residual, in units of rounding.
    """

    form: Form
    rate: Floats
    rate_error: Floats
    decay: Floats
    decay_error: Floats
    misfit: Floats

    @property
    def cost(self) -> float:
        """Return the value that a search minimizes; a single parameter with other rules does not decide it."""
        return float(np.mean(np.log1p(self.misfit**2)))

    @cached_property
    def explains(self) -> NDArray[np.bool_]:
        """Return for each parameter whether only rounding remains, with a learning rate: equal weights can be mistaken
        for gradients of one sign, as a weight decay that does not exist."""
        usual = float(np.median(self.rate))
        return (self.misfit <= EXPLAINED) & ((self.rate > 1e-3 * usual) | (self.rate_error > 1e-2 * usual))


def either(mask: NDArray[np.bool_], one: Fit, other: Fit) -> Fit:
    """Return the entries of one fit where the mask is true, otherwise of the other; the form is that of the other."""
    names = ("rate", "rate_error", "decay", "decay_error", "misfit")
    return Fit(other.form, **{name: np.where(mask, getattr(one, name), getattr(other, name)) for name in names})


def fit_form(form: Form, history: History) -> Fit:
    """Return the learning rate and weight decay of each parameter that explain its update best, by weighted least
    squares."""
    if not form.is_l2:
        return _linear(form, history)
    decayed, plain = (_linear(f, history) for f in (form, replace(form, l2=0.0)))
    is_plain = plain.misfit <= np.maximum(decayed.misfit, 1.0)  # a group without weight decay
    found = either(is_plain, plain, decayed)
    return replace(found, decay=np.where(is_plain, 0.0, found.rate * form.l2))


def fit_tied(form: Form, history: History, decay: Floats) -> Fit:
    """Return the same if the weight decay of each parameter is known: only the learning rate is fitted."""
    return fit_form(form, history) if form.is_l2 else _linear(form, history, decay)


def _linear(form: Form, history: History, known_decay: Floats | None = None) -> Fit:
    def sums(values: NDArray[Any]) -> Floats:
        """Return the sum for each parameter."""
        found: Floats = np.add.reduceat(values, history.starts[:-1])
        return found

    weight: Floats = 1.0 / history.rounding
    a, *rest = (column * weight for column in columns(form, history))
    u, sizes = -history.update * weight, np.diff(history.starts)
    if rest and known_decay is not None:
        a, rest = a + np.repeat(known_decay, sizes) * rest[0], []
    aa, au = sums(a * a), sums(a * u)
    aa_safe = np.maximum(aa, 1e-300)
    rate: Floats = au / aa_safe
    decay = np.zeros_like(aa) if known_decay is None else rate * known_decay
    rate_variance, decay_variance = 1 / aa_safe, np.zeros_like(aa)
    if rest:
        b = rest[0]
        bb, ab, bu = sums(b * b), sums(a * b), sums(b * u)
        determinant = aa * bb - ab * ab
        # A column without information in addition to the other (weights of zero) is left out.
        is_both = determinant > 1e-9 * np.maximum(aa * bb, 1e-300)
        safe = np.where(is_both, determinant, 1.0)
        rate = np.where(is_both, (au * bb - bu * ab) / safe, rate)
        decay = np.where(is_both, (bu * aa - au * ab) / safe, 0.0)
        rate_variance = np.where(is_both, bb / safe, rate_variance)
        decay_variance = np.where(is_both, aa / safe, inf)
    left: Floats = u - np.repeat(rate, sizes) * a
    if rest:
        left = left - np.repeat(decay, sizes) * rest[0]
    misfit = history.rms(left)
    inflated = np.maximum(misfit, 0.5)
    return Fit(form, rate, np.sqrt(rate_variance) * inflated, decay, np.sqrt(decay_variance) * inflated, misfit)


def fit(history: History) -> Fit:
    """Return the form that explains one side best, for all its parameters together; parameters keep their own
    factors."""
    few = history.thinned(_FEW)
    best: Fit | None = None
    for forms in _searched(history):
        found = min((fit_form(form, few) for form in forms), key=lambda one: one.cost)
        found = refine(found.form, history)
        # Clipping can look like unusual moments: of two explanations, the one with round numbers is used.
        is_rounder = is_round(found.form) and _is_accepted(found, history)
        is_better = best is None or found.cost < best.cost - 1e-3
        if is_better or (best is not None and is_rounder and not is_round(best.form)):
            best = found
        if best is not None and is_round(best.form) and _is_accepted(best, history):
            break  # simpler rules come first
    assert best is not None
    return simplest(best, history)


def simplest(found: Fit, history: History) -> Fit:
    """Return the fit of the form with the roundest numbers whose residual is not greater than that of `found`.

    Numbers that have almost no effect on the updates (a small eps) become usual ones. An unusual eps is also explained
    by the place where it is added, or by clipping.
    """
    few = history.thinned(_FEW)
    best, allowed = fit_form(found.form, few), _no_more(fit_form(found.form, few))
    for name in ("beta1", "beta2", "momentum", "l2"):
        best = _first_within(allowed, few, [_rounded(best.form, name)]) or best
    if best.form.is_adaptive:
        best = _first_within(allowed, few, _with_usual_eps(best.form, few)) or best
    if best.form.max_norm < inf:
        best = _first_within(allowed, few, [_rounded(best.form, "max_norm")]) or best
    whole = fit_form(best.form, history)
    return whole if (whole.misfit <= _no_more(found)).all() else found


def _no_more(found: Fit) -> Floats:
    """Return the largest residual of each parameter with which another form is as good as this one."""
    return np.maximum(EXPLAINED / 2, 1.1 * found.misfit)


def _first_within(allowed: Floats, history: History, forms: Iterable[Form]) -> Fit | None:
    fits = (fit_form(form, history) for form in forms)
    return next((one for one in fits if (one.misfit <= allowed).all()), None)


def _with_usual_eps(form: Form, history: History) -> Iterator[Form]:
    """Yield the form with a usual eps, added before or after the correction, with or without clipping."""
    root = sqrt(1 - form.beta2 ** len(history.gradients))
    places = [(False, form.eps), (True, form.eps * root)] if not form.is_eps_first else [(True, form.eps)]
    for is_first, eps in places:
        for usual in (*_USUAL_EPS, float(f"{eps:.0e}")):
            yield replace(form, eps=usual, is_eps_first=is_first)
    norms = history.norms
    if not norms or not all(norm > 0 for norm in norms):
        return
    limit = norms[-1] if form.max_norm == inf else form.max_norm
    if form.max_norm < inf and form.max_norm > min(norms):
        return  # a limit between the norms is visible by itself
    for is_first, eps in places:
        for usual in _USUAL_EPS:
            clipped = _rounded(
                replace(form, eps=usual, is_eps_first=is_first, max_norm=limit * usual / eps), "max_norm"
            )
            if clipped.max_norm < min(norms):
                yield clipped


def _rounded(form: Form, name: str) -> Form:
    """Return the form with two digits of a number, or of its distance to 1."""
    value = getattr(form, name)
    is_moment = name in ("beta1", "beta2", "momentum")
    return _changed_in(form, name, 1 - float(f"{1 - value:.1e}") if is_moment else float(f"{value:.1e}"))


def rounded(found: Fit, history: History, name: str) -> Fit:
    """Return the fit with two digits of a number, if its residual is not greater."""
    return _first_within(_no_more(found), history, [_rounded(found.form, name)]) or found


def _changed_in(form: Form, name: str, value: float) -> Form:
    changed: dict[str, Any] = {name: value}
    return replace(form, **changed)


def _is_accepted(found: Fit, history: History) -> bool:
    visible = history.is_visible
    if not visible.any():
        return True  # no update to explain
    return bool(np.mean(found.explains[visible]) > MIN_EXPLAINED and np.median(found.misfit) < EXPLAINED / 2)


def is_round(form: Form) -> bool:
    """Return whether the moments of a form are usual numbers."""
    return all(is_written(value) for value in (form.momentum, form.beta1, form.beta2))


def is_written(value: float) -> bool:
    """Return whether a number, or for one above 0.5 its distance to 1, has at most two digits, within a thousandth."""
    values = (value, 1 - value) if value > 0.5 else (value,)
    return any(abs(float(f"{x:.1e}") - x) <= 1e-3 * abs(x) for x in values)


def _searched(history: History) -> Iterator[list[Form]]:
    """Yield the forms with which searches begin, simple rules first; rules with a state only if all of its steps are
    known."""
    yield [Form(Rule.SGD)]
    if not history.is_whole:
        return
    several = len(history.gradients) > 1
    if several:
        for rule in (Rule.MOMENTUM, Rule.NESTEROV):
            yield [Form(rule, momentum=m) for m in _MOMENTUM]
    betas = list(product(_BETA1, _BETA2)) if several else [(0.9, 0.999)]
    adam = [Form(Rule.ADAMW, beta1=b1, beta2=b2, eps=eps) for (b1, b2), eps in product(betas, _EPS)]
    yield adam
    yield [replace(form, rule=Rule.ADAM, l2=l2) for form in adam if form.eps == _EPS[0] for l2 in _L2]
    known = [norm for norm in history.norms if norm == norm and norm > 0]
    if several and len(known) == len(history.gradients):
        limits = [0.9 * min(known), *sorted(known)[: len(known) // 2 + 1]]
        yield [Form(Rule.MOMENTUM, momentum=m, max_norm=c) for m in _MOMENTUM for c in limits]
        yield [replace(form, max_norm=c) for form in adam if form.eps == _EPS[0] for c in limits]


def refine(form: Form, history: History, chosen: Sequence[str] = ()) -> Fit:
    """Return the best form near one, by Gauss-Newton on the numbers that its rule has, or on the chosen ones."""
    best = fit_form(form, history)
    names = list(chosen or _free(form, len(history.gradients)))
    damping = 1e-3
    for _ in range(_ROUNDS if names else 0):
        if best.misfit.max() < 0.7:
            break
        scale = 1.0 / np.sqrt(1.0 + best.misfit**2)  # so that parameters that do not follow a form have no influence
        weight = np.repeat(scale / np.sqrt(np.diff(history.starts)), np.diff(history.starts))
        base = _left(best, history) * weight
        jacobian = np.stack(
            [(_left(fit_form(_moved(best.form, n, _STEP), history), history) * weight - base) / _STEP for n in names], 1
        )
        normal = jacobian.T @ jacobian
        gradient = jacobian.T @ base
        for _ in range(6):
            lifted = normal + damping * np.diag(np.maximum(np.diag(normal), 1e-30))
            move = np.clip(-np.linalg.solve(lifted, gradient), -2.0, 2.0)
            moved = best.form
            for name, by in zip(names, move.tolist(), strict=True):
                moved = _moved(moved, name, by)
            found = fit_form(moved, history)
            if found.cost < best.cost:
                break
            damping *= 10
        else:
            break
        gained, best, damping = best.cost - found.cost, found, max(damping / 10, 1e-9)
        if gained < 1e-6:
            break
    return best


_STEP = 1e-5


def _free(form: Form, steps: int) -> list[str]:
    names = ["eps"] if form.is_adaptive else []
    if steps > 1:
        names = ["beta1", "beta2", "eps"] if form.is_adaptive else [] if form.rule is Rule.SGD else ["momentum"]
        names += ["max_norm"] * (form.max_norm < inf)
    return names + ["l2"] * form.is_l2


def _moved(form: Form, name: str, by: float) -> Form:
    """Return the form with one number changed on an unbounded scale: its logarithm, or that of its distance to 1."""
    value = getattr(form, name)
    if name in ("beta1", "beta2", "momentum"):
        moved = min(max(1 - (1 - value) * float(np.exp(by)), 0.0), 1 - 1e-7)
    else:
        moved = float(np.clip(value * np.exp(by), 1e-20, 1e20))
    return _changed_in(form, name, moved)


def _left(found: Fit, history: History) -> Floats:
    """Return the residual of a fit for each element, in units of rounding."""
    sizes = np.diff(history.starts)
    a, *rest = columns(found.form, history)
    if found.form.is_l2:
        a = np.where(np.repeat(found.decay == 0, sizes), columns(replace(found.form, l2=0.0), history)[0], a)
    explained = np.repeat(found.rate, sizes) * a
    if rest:
        explained = explained + np.repeat(found.decay, sizes) * rest[0]
    left: Floats = (history.update + explained) / history.rounding
    return left
