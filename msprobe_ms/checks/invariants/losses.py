"""The weight of a token in the loss: the same on all ranks, and in all micro batches of a step.

The gradient that a loss receives in the backward, divided by the number of its tokens if it is their mean, is the
weight of one token. If each rank (or micro batch) takes the mean over its own tokens and these means are averaged,
tokens of a rank with few of them weigh more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, isnan, nan, prod

from msprobe.base.errors import DumpError
from msprobe.compare.core.standard import family
from msprobe.store.reader import load_tensor
from msprobe.store.record import INPUT, OUTPUT, VALUE, Dump
from msprobe.store.stacks_and_construct import user_line

from .judgement import Judgement, Run, Status, Why, unjudged

_OF_TOKENS = ("cross_entropy", "nll_loss")
"""Losses whose targets are class numbers, of which some may be ignored."""

_OF_ELEMENTS = (
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits"),
)
"""Losses of each element."""

_IGNORED = -100
"""The class number that is ignored unless the call has another `ignore_index`."""

_REDUCTIONS = ("mean", "sum", "none")

_UNEQUAL = 1e-3
"""By how much equal weights may differ by rounding, as a share."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """One call of a loss with its backward.

    gradient : the gradient of a scalar loss, or of each token that has one.
    tokens : the number of its tokens, NaN where they cannot be counted.
    is_mean : whether the call itself divides by that number.
    """

    rank: int
    call: str
    gradient: float
    tokens: float
    is_mean: bool

    @property
    def weight(self) -> float:
        """Return the weight of one token."""
        return self.gradient / self.tokens if self.is_mean else self.gradient


def tokens_weigh_alike(run: Run) -> Iterator[Judgement]:
    """All tokens of a step have one weight in the loss, whichever rank and micro batch has them."""
    judged: list[Judgement] = []
    for step, ranks in run.steps.items():
        groups: dict[object, list[_Loss]] = {}
        for rank, dump in ranks.items():
            for key, at in _calls(dump):
                found = _loss(dump, at, rank)
                if isinstance(found, Why):
                    judged.append(unjudged(found, dump.columns.names[at]))
                else:
                    groups.setdefault(key, []).append(found)
        judged += [_judged(step, each) for each in groups.values() if len(each) > 1]
    yield from judged or [unjudged(Why.NO_LOSS)]


def _calls(dump: Dump) -> Iterator[tuple[object, int]]:
    """Return the losses with what is equal for those of other ranks and micro batches: the line and the number of the
    call among those of one forward."""
    names = dump.names
    found: dict[tuple[str | None, object], list[int]] = {}
    for at, name in enumerate(names):
        word = name.stem.rpartition(".")[2]
        if name.direction == "forward" and name.kind == "api" and word in (*_OF_TOKENS, *_OF_ELEMENTS):
            parent = names[dump.parents[at]].path if dump.parents[at] >= 0 else None
            found.setdefault((word, (parent, user_line(dump.calls.stack(at)))), []).append(at)
    outermost = [name.path for at, name in enumerate(names) if _is_outermost(dump, at)]
    forwards = max(map(outermost.count, set(outermost)), default=1)
    for site, calls in found.items():
        each = len(calls) // forwards if len(calls) % forwards == 0 else len(calls)
        for number, at in enumerate(calls):
            yield (*site, number % each), at


def _is_outermost(dump: Dump, at: int) -> bool:
    name = dump.names[at]
    return name.kind == "cell" and name.direction == "forward" and dump.parents[at] < 0


def _loss(dump: Dump, at: int, rank: int) -> _Loss | Why:
    """Return a call of a loss; a reason where its tokens cannot be counted."""
    columns = dump.columns
    name = columns.names[at]
    after = dump.counterpart(at, "backward")
    given = next(columns.tensors(after, INPUT), None) if after >= 0 else None
    result = next(columns.tensors(at, OUTPUT), None)
    ins = list(columns.tensors(at, INPUT))
    if given is None or result is None or len(ins) < 2:
        return Why.NO_RECORD
    values = {columns.path_of(row): columns.values[row] for row in columns.rows(at) if columns.kind[row] == VALUE}
    reduction = next((value for value in values.values() if value in _REDUCTIONS), "mean")
    high, low, mean, norm = columns.numbers_of(given)
    if not all(map(isfinite, (high, low, mean, norm))) or not norm:
        return Why.NO_RECORD
    if prod(columns.shape(result) or ()) != 1 or reduction == "none":
        sign = 1.0 if high > 0 else -1.0
        size = prod(columns.shape(given) or ())
        weight = max(sign * high, sign * low)
        # each is the weight or 0: the sum of the squares is that of the elements, times the weight
        is_one = min(sign * high, sign * low) >= 0 and abs(norm**2 - weight * sign * mean * size) <= _UNEQUAL * norm**2
        if not is_one:
            return Why.OWN_WEIGHTS
        # those that the loss ignores may have a gradient too, which it multiplies by 0
        count = norm**2 / weight**2
        tokens = count if count < size - 0.5 else _tokens(dump, at, ins, values)
        return _Loss(rank, name, sign * weight, nan if isinstance(tokens, Why) else tokens, False)
    tokens = _tokens(dump, at, ins, values)
    if isinstance(tokens, Why):
        return tokens if reduction == "mean" else _Loss(rank, name, mean, nan, False)
    return _Loss(rank, name, mean, tokens, reduction == "mean")


def _tokens(dump: Dump, at: int, ins: list[int], values: Mapping[tuple[str, ...], object]) -> float | Why:
    """Return the number of tokens that a loss does not ignore."""
    columns = dump.columns
    target, shape = ins[1], columns.shape(ins[1]) or ()
    if dump.names[at].stem.rpartition(".")[2] not in _OF_TOKENS:
        return float(prod(columns.shape(ins[0]) or ()))
    if len(ins) > 2 or family(columns.dtype(target)) not in ("int", "uint"):
        return Why.UNKNOWN_OPTION
    numbers = [
        value for path, value in values.items() if path[-1] == "ignore_index" or (len(path) == 1 and type(value) is int)
    ]
    ignored = numbers[0] if numbers else _IGNORED
    _, low, *_ = columns.numbers_of(target)
    if type(ignored) is int and low > ignored:
        return float(prod(shape))
    record = next(
        each
        for each in dump.calls[columns.call_of(target)].records
        if each.part == "input" and each.path == columns.path_of(target)
    )
    if not record.file:
        return Why.NO_TENSORS
    try:
        return float((load_tensor(dump, record) != ignored).sum())
    except DumpError:
        return Why.NO_RECORD


def _judged(step: int | None, losses: list[_Loss]) -> Judgement:
    first = losses[0]
    weights = [each.weight for each in losses]
    if min(weights) <= 0 < max(weights) or first.is_mean != losses[-1].is_mean:
        return unjudged(Why.OWN_WEIGHTS, first.call)
    ratio = max(map(abs, weights)) / min(map(abs, weights))
    if ratio <= 1 + _UNEQUAL:
        return Judgement(Status.HOLDS, first.call, step=step)
    sums = [abs(each.weight * each.tokens) for each in losses]
    if any(map(isnan, sums)):
        return unjudged(Why.NO_TENSORS, first.call)
    if max(sums) > (1 + _UNEQUAL) * min(sums):
        return unjudged(Why.OWN_WEIGHTS, first.call)
    heavy = [each for each in losses if abs(each.weight) > max(map(abs, weights)) / (1 + _UNEQUAL)]
    ranks = tuple(dict.fromkeys(each.rank for each in heavy))
    is_of_ranks = len({each.rank for each in losses}) > 1
    what = "ranks" if is_of_ranks else "micro batches"
    return Judgement(Status.VIOLATED, heavy[0].call, "", "", step, ranks, what, ratio, 1.0)
