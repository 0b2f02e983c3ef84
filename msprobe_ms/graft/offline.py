"""Estimates without a second training: values of the golden are propagated through the recorded calls of one step.

`Estimates.run` takes the place of a run of the training: `propagate` gives the loss and the gradients that follow from
a graft, and the gap between these and the golden is measured. Updates are not available. The step is the first one
whose gap exceeds the noise floor: what differs in a later one may follow from it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msprobe.base.log import logger
from msprobe.checks.invariants.rows import gradient, gradient_rows, loss_of

from .gap import (
    BIT_EQUAL,
    LOSS,
    Array,
    Floor,
    FloorSource,
    RunGap,
    Squares,
    floor_of,
    gap_of_parts,
    is_bit_equal,
    parts_of,
)
from .hypotheses import Hypothesis
from .plan import plan_of
from .proof import Estimate, Found, Proof, Run, estimate
from .propagate import Propagation, Replays, Stop
from .runs import Study

COVERED = 0.5
"""Share of the square of the gradients' gap that an estimate has to reach for a verdict if the losses do not differ."""


def estimated(
    study: Study, repeated: Callable[[], RunGap] | None, budget: int, given: Sequence[Hypothesis] = ()
) -> Proof:
    """Return the proof by estimates for the target of a study; `repeated` as for `floor_of`, `given` as for `prove`."""
    first, floor = _first_differing(study, repeated)
    estimates = Estimates(first, floor)
    if not estimates.gap.is_noise(floor):
        estimates.floor = _with_replay(floor, estimates.replay_gap())
    return estimate(first, estimates.gap, estimates.floor, estimates.run, budget, given)


def _first_differing(study: Study, repeated: Callable[[], RunGap] | None) -> tuple[Study, Floor]:
    """Return the first step whose gap exceeds the noise floor, and this floor; without any, the first step that has a
    finding, or the first one."""
    known = BIT_EQUAL if repeated is None and is_bit_equal(study) else None
    if repeated is not None:
        known = floor_of(study, repeated)
    alone = [replace(study, steps=(step,)) for step in study.steps]
    floors = [known or floor_of(one) for one in alone]
    for one, floor in zip(alone, floors, strict=True):
        if not Estimates(one, floor).gap.is_noise(floor):
            return one, floor
    at = next((at for at, one in enumerate(alone) if one.steps[0].findings), 0)
    return alone[at], floors[at]


def _with_replay(floor: Floor, replayed: RunGap) -> Floor:
    """Return the larger of a noise floor and the gap that a replay without a graft has."""
    loss, gradients = replayed.loss or 0.0, replayed.gradients or 0.0
    if loss <= floor.loss and gradients <= floor.gradients:
        return floor
    return replace(
        floor, loss=max(floor.loss, loss), gradients=max(floor.gradients, gradients), source=FloorSource.REPLAY
    )


class Estimates:
    """Estimated runs of one step. `gap` is that of the target."""

    def __init__(self, study: Study, floor: Floor) -> None:
        self._study, self._step, self.floor = study, study.steps[0], floor
        self._replays = Replays(self._step)
        dump = self._step.comparison.target
        arrays = {name: gradient(dump, rows) for name, rows in gradient_rows(dump).items()}
        self._recorded: dict[str, Array] = {name: array for name, array in arrays.items() if array is not None}
        self._parts = parts_of(self._step, loss_of(dump), self._recorded)
        self.gap = gap_of_parts(self._parts)

    def run(self, every: Sequence[Found], what: str) -> Run:
        """Estimate the run with grafts."""
        logger.info("%sreplaying calls", what)
        grafts = [each.graft for each in every]
        found = Propagation(self._replays, plan_of(self._study, grafts).steps.get(self._step.step))
        gradients = {name: value for name, value in found.gradients() if value is not None}
        arrays = {name: value for name, value in gradients.items() if not isinstance(value, Stop)}
        loss = found.loss
        reached = parts_of(self._step, None if isinstance(loss, Stop) else loss, arrays)
        for name in {name for graft in grafts for name in graft.missing & self._parts.keys()}:
            reached[name] = 0.0, self._parts[name][1]
        whole = gap_of_parts({**self._parts, **reached})
        stops = dict.fromkeys(value for value in (loss, *gradients.values()) if isinstance(value, Stop))
        return Run(self._study, replace(whole, parts=reached), self._estimate(found, reached, tuple(stops)))

    def _estimate(self, found: Propagation, reached: Mapping[str, Squares], stops: tuple[Stop, ...]) -> Estimate:
        names = [key for key in self._parts if key != LOSS]
        of_reached = [name for name in names if name in reached]
        # That the gradients that a graft puts in are the golden's shows nothing.
        total, covered = (
            sum(self._parts[name][0] for name in each if name not in found.given) for each in (names, of_reached)
        )
        share = covered / total if total else float(len(of_reached) == len(names))
        loss = self._parts.get(LOSS)
        differs = loss is not None and not gap_of_parts({LOSS: loss}).is_noise(self.floor)
        return Estimate(
            len(found.replayed),
            stops,
            tuple(found.deviating),
            (int(LOSS in reached), int(loss is not None)),
            (len(of_reached), len(names)),
            share,
            LOSS in reached if differs else share >= COVERED,
        )

    def replay_gap(self) -> RunGap:
        """Return the gap between the target and its replay without a graft: how far rounding of the replay leads."""
        found = Propagation(self._replays, None, replays_all=True)
        loss, recorded = found.loss, loss_of(self._step.comparison.target)
        parts: dict[str, Squares] = {}
        if isinstance(loss, float) and recorded is not None:
            parts[LOSS] = ((loss - recorded) ** 2, recorded**2)
        for name, value in found.gradients():
            if value is not None and not isinstance(value, Stop):
                of_recorded = self._recorded[name].astype("float64")
                parts[name] = float(((value - of_recorded) ** 2).sum()), float((of_recorded**2).sum())
        return gap_of_parts(parts)
