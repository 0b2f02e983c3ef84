"""A recorded call executed again in float64, on its own inputs or on those of its counterpart in another dump.

The dump has to be of task `tensor`. Replaying is deterministic and raises nothing: whatever prevents it is a
`NotReplayed`. Torch is imported when the first call is replayed.
"""

import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from msprobe.base.errors import MappingError
from msprobe.mapping.transform import parse
from msprobe.store.record import Dump, Part

from .plan import plan_of
from .recorded import Array, CannotReplay, Cause, Leaf, NotReplayed, Path, RecordedCall, Replayed, call_of, mapped
from .references import WHOLE, References, Results

T = TypeVar("T")


def replay(dump: Dump, at: int) -> Replayed | NotReplayed:
    """Return the residuals of the call at a place of a dump's `calls`, forward or backward; or why there are none."""
    return _attempted(lambda: call_of(dump, at))


def _attempted(call_to_replay: Callable[[], RecordedCall]) -> Replayed | NotReplayed:
    def compute() -> Replayed | NotReplayed:
        call = call_to_replay()
        plan = plan_of(call)
        from .reference.compute import computed  # here: it imports torch

        return computed(call, plan)

    return _outcome(compute)


def _outcome(compute: Callable[[], T]) -> T | NotReplayed:
    """Return what a computation with torch returns, or why it cannot. Raises nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compute()
    except CannotReplay as err:
        return err.outcome
    except Exception as err:  # a dump may contain any arguments, and torch may raise any exception
        if isinstance(err, ModuleNotFoundError) and err.name == "torch":
            return NotReplayed(Cause.NO_LIBRARY)
        return NotReplayed(Cause.FAILED, type(err).__name__)


def references(call: RecordedCall, whole: int = WHOLE) -> Iterator[References | NotReplayed]:
    """Return the expected outputs of a call for each candidate, or the reason why they are unknown. Does not raise.

    A call with more than `whole` elements is judged by a part of itself, if its operation allows that.
    """
    try:
        plan = plan_of(call)
        try:
            from .reference.compute import referenced  # here: it imports torch
        except ModuleNotFoundError as err:
            if err.name != "torch":
                raise
            yield NotReplayed(Cause.NO_LIBRARY)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from referenced(call, plan, whole)
    except CannotReplay as err:
        yield err.outcome
    except Exception as err:  # a dump may contain any arguments, and torch may raise any exception
        yield NotReplayed(Cause.FAILED, type(err).__name__)


def results(call: RecordedCall, label: str | None = None) -> list[Results] | NotReplayed:
    """Return the results of a call under each candidate, or under the one with a label; or why there are none.

    Unlike `references` it computes no sensitivities, and takes a call whole. Raises nothing.
    """

    def compute() -> list[Results]:
        plan = plan_of(call)
        from .reference.results import results as found  # here: it imports torch

        return list(found(call, plan, label))

    return _outcome(compute)


Place = tuple[bool, Part, Path]
"""Of a record: whether it is in the backward call, its part, its path."""


@dataclass(frozen=True, slots=True)
class Partner:
    """The row of the other dump that has the same tensor, and the transform (`msprobe.mapping.transform`) that brings
    it to the layout of the call's own; -1 where the other call was given the value in another form, a number."""

    row: int
    transform: str = ""


@dataclass(frozen=True, eq=False)
class _Transformed(Leaf):
    """A tensor of the other dump in the layout of the call that takes it."""

    own_shape: tuple[int, ...]
    transform: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the value of the call's record."""
        return self.own_shape

    @cached_property
    def array(self) -> Array:
        """Return the elements; CannotReplay if they cannot be read, or have another shape."""
        try:
            found: Array = parse(self.transform)(self.loaded())
        except MappingError as err:
            raise CannotReplay(Cause.OTHER_SHAPE, self.record.name) from err
        if tuple(found.shape) != self.own_shape:
            raise CannotReplay(Cause.OTHER_SHAPE, self.record.name)
        return found


def crossed(dump: Dump, at: int, other: Dump, partners: Mapping[Place, Partner]) -> Replayed | NotReplayed:
    """Return the residuals of another dump's call against the function of the call at a place of `dump.calls`.

    Two programs are written in two frameworks, so equal names are not sufficient: GELU is approximated on one side, an
    epsilon is another. Here the golden's call, with its options, is executed in float64 on the inputs of the target's
    call, and the outputs of the target's call are compared with that. Both sides of the residual have the same inputs,
    so it contains only the function and the rounding of one kernel, however much the two runs differ.

    `partners` are the other call's records by the places of this call's; each tensor input needs one. Outputs and
    gradients without one are left out; the residuals have the names of the other dump's records. Raises nothing.
    """
    return _attempted(lambda: _exchanged(call_of(dump, at), other, partners))


def effect_of_arguments(
    dump: Dump, at: int, other: Dump, other_at: int, partners: Mapping[Place, Partner]
) -> float | None:
    """Return by how much the functions of two calls differ on the same inputs, as a share of the norm of the outputs.

    The call at a place of `dump.calls` and the other dump's are both executed in float64 on the inputs of the other,
    each with its own arguments that are not tensors; `partners` as for `crossed`. The greatest share among the outputs,
    under the candidates of what the records do not tell that both have, else under those that agree best. None where
    one cannot be executed, or their outputs have different shapes. Raises nothing.
    """
    try:
        calls = _exchanged(call_of(dump, at), other, partners), call_of(other, other_at)
    except CannotReplay:
        return None
    except Exception:  # a dump may contain any arguments
        return None
    ours, theirs = ({r.label: r for r in references(call) if isinstance(r, References)} for call in calls)
    labels = [(label, label) for label in ours if label in theirs] or [(a, b) for a in ours for b in theirs]
    shares = (_greatest_share(ours[mine], theirs[yours]) for mine, yours in labels)
    return min((share for share in shares if share is not None), default=None)


def _greatest_share(ours: References, theirs: References) -> float | None:
    """Return the greatest relative difference between references of the same records; None without a common one."""
    values = {one.record.record.name: one.value for one in theirs.outputs}
    found = [
        _share_of(one.value, values[one.record.record.name])
        for one in ours.outputs
        if one.record.record.name in values and one.value.shape == values[one.record.record.name].shape
    ]
    return max(found, default=None)


def _share_of(a: Array, b: Array) -> float:
    """Return the norm of the difference over the norm; infinite where other elements are not finite."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    are_same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.isfinite(a[~are_same]).all() or not np.isfinite(b[~are_same]).all():
        return math.inf
    difference = float(np.linalg.norm((a - b)[~are_same]))
    size = float(np.linalg.norm(a[np.isfinite(a)]))
    return difference / size if difference and size else difference and math.inf


def _exchanged(call: RecordedCall, other: Dump, partners: Mapping[Place, Partner]) -> RecordedCall:
    """Return a call with the tensors of another dump."""
    inputs: dict[Leaf, Leaf] = {}  # an argument is in the call, and next to its gradient

    def partner_of(leaf: Leaf, part: Part, is_backward: bool = False) -> Leaf | None:
        partner = partners.get((is_backward, part, leaf.record.path))
        if partner is None:
            return None
        if partner.row < 0:
            return leaf
        columns = other.columns
        record = columns.record(partner.row, bisect_right(columns.starts, partner.row) - 1)
        if not partner.transform and (record.shape or ()) == leaf.shape:
            return Leaf(other, record)
        return _Transformed(other, record, leaf.shape, partner.transform)

    def input_of(value: Any, part: Part = "input") -> Any:
        if not isinstance(value, Leaf):
            return value
        if value not in inputs:
            found = partner_of(value, part)
            if found is None:
                raise CannotReplay(Cause.MISSING_TENSOR, value.record.name)
            inputs[value] = found
        return inputs[value]

    def partnered(
        pairs: Iterable[tuple[Any, Leaf]], part: Part, is_backward: bool = False
    ) -> Iterator[tuple[Any, Leaf]]:
        for key, leaf in pairs:
            if (found := partner_of(leaf, part, is_backward)) is not None:
                yield key, found

    made = replace(
        call,
        args=mapped(call.args, input_of),
        kwargs=mapped(call.kwargs, input_of),
        parameters={key: input_of(leaf, "parameters") for key, leaf in call.parameters.items()},
        outputs=dict(partnered(call.outputs.items(), "output")),
        incoming=dict(partnered(call.incoming.items(), "input", is_backward=True)),
    )
    if len(made.incoming) < len(call.incoming):
        raise CannotReplay(Cause.MISSING_TENSOR, call.name)
    gradients = partnered(call.gradients, "output", is_backward=True)
    return replace(made, gradients=tuple((inputs.get(of, of), gradient) for of, gradient in gradients))
