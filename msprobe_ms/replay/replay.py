"""One recorded call executed again in float64, on its own inputs or on those of its counterpart.

One recorded call executed again in float64, and the residual of what was recorded.

`replay(dump, number)` needs a dump of task `tensor`; torch is imported when the first call is replayed. It is
deterministic, and raises nothing: whatever stands in the way is a `NotReplayed`.

A recorded call executed on the tensors of another dump's call: do the two compute the same function?

Two programs are written in two frameworks, so equal names say little: GELU is approximated on one side, an epsilon is
another. The golden's call, with its options, is executed in float64 on the inputs that the target's call was given, and
what the target's call returned is held against that. The inputs are the same on both sides of the residual, so however
far the two runs have drifted apart, nothing but the function and the rounding of one kernel is left in it.
"""

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msprobe.base.errors import MappingError
from msprobe.mapping.transform import parse
from msprobe.store.record import Dump, Part

from .plan import plan_of
from .recorded import Array, CannotReplay, Cause, Leaf, NotReplayed, Path, RecordedCall, Replayed, call_of

__all__ = ["answered", "replay"]


def replay(dump: Dump, at: int) -> Replayed | NotReplayed:
    """The residuals of the call at a place of a dump's `calls`, forward or backward; or why there are none."""
    return answered(lambda: call_of(dump, at))


def answered(called: Callable[[], RecordedCall]) -> Replayed | NotReplayed:
    """The residuals of a call; `called` puts it together, and raises CannotReplay where that is not possible."""
    try:
        call = called()
        plan = plan_of(call)
        try:
            from .reference.compute import computed  # here: it imports torch
        except ModuleNotFoundError as err:
            if err.name != "torch":
                raise
            return NotReplayed(Cause.NO_TORCH)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return computed(call, plan)
    except CannotReplay as err:
        return err.answer
    except Exception as err:  # a foreign dump may hold any arguments, and torch raises what it likes
        return NotReplayed(Cause.FAILED, type(err).__name__)


Place = tuple[bool, Part, Path]
"""Where a record stands in a call: whether in its backward, the part, the path."""


@dataclass(frozen=True, slots=True)
class Partner:
    """The row of the other dump that has the same tensor, and the transform (`msprobe.mapping.transform`) that brings
    it to the layout of the call's own; -1 where the other call was given the value in another form, a number."""

    row: int
    transform: str = ""


@dataclass(frozen=True, eq=False)
class _Placed(Leaf):
    """A tensor of the other dump in the layout of the call that takes it."""

    looks: tuple[int, ...]
    transform: str

    @property
    def shape(self) -> tuple[int, ...]:
        """As the call's own record says."""
        return self.looks

    @cached_property
    def array(self) -> Array:
        """The elements; CannotReplay where they cannot be read, or have another shape."""
        try:
            found: Array = parse(self.transform)(self.loaded())
        except MappingError as err:
            raise CannotReplay(Cause.OTHER_SHAPE, self.record.name) from err
        if tuple(found.shape) != self.looks:
            raise CannotReplay(Cause.OTHER_SHAPE, self.record.name)
        return found


def crossed(dump: Dump, at: int, other: Dump, partners: Mapping[Place, Partner]) -> Replayed | NotReplayed:
    """The residuals of another dump's call against the function of the call at a place of `dump.calls`.

    `partners` are the other call's records by the places of this call's; each tensor input needs one. Outputs and
    gradients without one are left out; the residuals have the names of the other dump's records. Raises nothing.
    """
    return answered(lambda: _Exchange(other, partners).call(call_of(dump, at)))


class _Exchange:
    """Puts the tensors of another dump into a call."""

    def __init__(self, other: Dump, partners: Mapping[Place, Partner]) -> None:
        self._other, self._partners = other, partners
        self._made: dict[Leaf, Leaf] = {}  # an argument stands in the call, and beside its gradient

    def call(self, call: RecordedCall) -> RecordedCall:
        made = replace(
            call,
            args=self._filled(call.args),
            kwargs=self._filled(dict(call.kwargs)),
            parameters={key: self._needed(leaf, "parameters") for key, leaf in call.parameters.items()},
            outputs=dict(self._known(call.outputs.items(), is_backward=False, part="output")),
        )
        if not call.is_backward:
            return made
        incoming = dict(self._known(call.incoming.items(), is_backward=True, part="input"))
        if len(incoming) < len(call.incoming):
            raise CannotReplay(Cause.MISSING_TENSOR, call.name)
        gradients = tuple(self._known(call.gradients, is_backward=True, part="output"))
        pairs = tuple((self._made.get(of, of), gradient) for of, gradient in gradients)
        return replace(made, incoming=incoming, gradients=pairs)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, Leaf):
            return self._needed(value, "input")
        if isinstance(value, tuple):
            return tuple(map(self._filled, value))
        if isinstance(value, dict):
            return {key: self._filled(inner) for key, inner in value.items()}
        return value

    def _needed(self, leaf: Leaf, part: Part) -> Leaf:
        found = self._made.get(leaf)
        if found is None:
            found = self._of(leaf, is_backward=False, part=part)
            if found is None:
                raise CannotReplay(Cause.MISSING_TENSOR, leaf.record.name)
            self._made[leaf] = found
        return found

    def _known(
        self, leaves: Iterable[tuple[Any, Leaf]], *, is_backward: bool, part: Part
    ) -> Iterable[tuple[Any, Leaf]]:
        for key, leaf in leaves:
            if (found := self._of(leaf, is_backward=is_backward, part=part)) is not None:
                yield key, found

    def _of(self, leaf: Leaf, *, is_backward: bool, part: Part) -> Leaf | None:
        partner = self._partners.get((is_backward, part, leaf.record.path))
        if partner is None:
            return None
        if partner.row < 0:
            return leaf
        columns = self._other.columns
        record = columns.record(partner.row, bisect_right(columns.starts, partner.row) - 1)
        if not partner.transform and (record.shape or ()) == leaf.shape:
            return Leaf(self._other, record)
        return _Placed(self._other, record, leaf.shape, partner.transform)
