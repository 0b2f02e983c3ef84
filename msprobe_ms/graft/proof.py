"""The proof: runs with grafts, of the training or estimates of them, the gap that each closes, and the verdict.

One round takes the first finding of the comparison and runs the training with the graft of each of its hypotheses,
until one explains it. That graft stays in all later runs; the next round compares the grafted run with the golden run,
until the gap is noise. So several independent faults are found one after the other.

| verdict | the graft closes |
|---|---|
| proven | at least 90 % of what its finding explains, and grafting everything before it closes less than 5 % |
| contributes | at least 5 % |
| no effect | less |

An estimate (`offline`) has the verdict `likely cause (estimated)` instead of proven, and `not judged` if it did not
reach the loss, or half of the gradients' gap where the losses do not differ.

What a finding explains is the gap that remains if all other grafts that were kept stay, and only this one is left out.
Grafting everything before a finding closes nothing if the comparison found no difference there; otherwise it is run.
If no finding explains the rest of a gap, the other grafts of the findings that explain a part of it are tried; then the
calls that differ are halved: everything up to the middle is grafted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from math import isfinite
from pathlib import Path

from msprobe.base.digest import have_same_kind
from msprobe.base.log import logger
from msprobe.checks.invariants.rows import fingerprint
from msprobe.compare.locate.finding import Divergence
from msprobe.store.graft_plan import GraftPlan
from msprobe.store.record import OUTPUT, Dump
from msprobe.training_command import CommandFailedError

from .calls import calls_graft
from .gap import BIT_EQUAL, Floor, FloorSource, RunGap, closure, closure_of_largest, gap_of, is_bit_equal
from .hypotheses import (
    Family,
    Hypothesis,
    differing_calls,
    everything_before,
    family_of,
    graft_of_all,
    hypotheses,
    is_in_place,
    key_of,
    of_call,
    what_of,
)
from .plan import EVERY, OUTPUTS, Graft, plan_of, united
from .propagate import Stop
from .runs import Step, Study

PROVEN_CLOSES = 0.9
"""Share of what a finding explains that a proven graft closes."""

CONTRIBUTES = 0.05
"""Share from which on a graft has an effect."""

ESTIMATED_REST = 1e-3
"""Share of the gap up to which the rest of an estimate is taken as an error of the replay. Measured: at most 5e-6."""

_MAX_FINDINGS = 3
"""Findings of one comparison that are tried before its calls are halved: the first ones explain most others."""


class Verdict(Enum):
    """The verdict on a graft."""

    PROVEN = "proven"
    CONTRIBUTES = "contributes"
    NO_EFFECT = "no effect"
    LIKELY = "likely cause (estimated)"
    PROBABLY_CONTRIBUTES = "contributes (estimated)"
    PROBABLY_NO_EFFECT = "no effect (estimated)"
    NOT_JUDGED = "not judged"


_ESTIMATED = {
    Verdict.PROVEN: Verdict.LIKELY,
    Verdict.CONTRIBUTES: Verdict.PROBABLY_CONTRIBUTES,
    Verdict.NO_EFFECT: Verdict.PROBABLY_NO_EFFECT,
}


@dataclass(frozen=True)
class Estimate:
    """How an estimate came about, and how much of the gap it reached.

    replayed : the number of calls that were executed again, forward and backward.
    stops : the calls that could not be, and why; what depends on them was not reached.
    deviating : calls whose replay differs from the recorded result by more than rounding; the difference was kept.
    losses, gradients : how many of the losses and of the parameters' gradients were reached, and how many there are.
    covered : the share of the square of the gradients' gap that was reached, without gradients that the graft replaced.
    is_judged : whether that is enough for a verdict.
    """

    replayed: int
    stops: tuple[Stop, ...]
    deviating: tuple[str, ...]
    losses: tuple[int, int]
    gradients: tuple[int, int]
    covered: float
    is_judged: bool


@dataclass(frozen=True)
class Run:
    """A run with grafts: its comparison with the golden, and its gap; of an estimate the comparison is the target's."""

    study: Study
    gap: RunGap
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A graft, and the comparison in which it was found, whose counterparts it uses: those of a run with other grafts
    differ from those of the target where calls are paired by their values."""

    graft: Graft
    study: Study


@dataclass(frozen=True)
class Trial:
    """One run with a graft.

    hypothesis : the graft that was added to those that were kept before.
    study : the comparison in which it was found.
    gap : the gap between this run and the golden run.
    closes : the share of each measure that it closes, of the gap before it.
    closed : the same of the largest measure; of a kept graft the share of what its finding explains.
    before : the share that grafting everything before it closes; None if the budget did not allow to measure it.
    verdict : the verdict.
    share : the share of the whole gap that it closes; None if the graft was not kept.
    is_halving : whether it is one of the runs that halve the calls.
    estimate : how the run was estimated; None if the training was run.
    """

    hypothesis: Hypothesis
    study: Study
    gap: RunGap
    closes: RunGap
    closed: float
    before: float | None = 0.0
    verdict: Verdict = Verdict.NO_EFFECT
    share: float | None = None
    is_halving: bool = False
    estimate: Estimate | None = None

    @property
    def is_judged(self) -> bool:
        """Return whether the run reached enough of the gap for a verdict."""
        return self.estimate is None or self.estimate.is_judged

    @property
    def explains(self) -> bool:
        """Return whether the graft closes as much as that of a cause."""
        return self.is_judged and self.closed >= PROVEN_CLOSES

    def judged(self, closed: float, before: float | None) -> "Trial":
        """Return the trial with the verdict that follows from what it and everything before it close."""
        if closed >= PROVEN_CLOSES and before is not None and before < CONTRIBUTES:
            verdict = Verdict.PROVEN
        else:
            verdict = Verdict.CONTRIBUTES if closed >= CONTRIBUTES else Verdict.NO_EFFECT
        if self.estimate is not None:
            verdict = _ESTIMATED[verdict] if self.estimate.is_judged else Verdict.NOT_JUDGED
        return replace(self, closed=closed, before=before, verdict=verdict)


@dataclass(frozen=True)
class Proof:
    """The result.

    study : the comparison of the target with the golden run, before any graft.
    gap, floor : the gap of the target, and the gap that is noise.
    trials : all runs in order, with the final verdicts.
    rest : the gap of the run with all grafts that were kept.
    runs : the number of runs.
    is_estimate : whether the runs are estimates, without the training.
    is_exhausted : whether the budget ended the search.
    untested : calls that the user named and that were not tested, because no gap was left.
    deviating : how many results before the first graft of the first run differ from those of the target.
    """

    study: Study
    gap: RunGap
    floor: Floor
    trials: tuple[Trial, ...] = ()
    rest: RunGap = field(default_factory=RunGap)
    runs: int = 0
    is_exhausted: bool = False
    deviating: int = 0
    is_estimate: bool = False
    untested: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether there is nothing to prove: the gap is noise, or the comparison found nothing that is not.

        An estimate has one step only; a gap that it has without a finding may come from an earlier one, and remains.
        """
        return self.gap.is_noise(self.floor) or (self.has_no_finding and not self.is_estimate)

    @property
    def has_no_finding(self) -> bool:
        """Return whether the comparison found no call, parameter or update that differs beyond noise."""
        return next(self.study.findings, None) is None

    @property
    def kept(self) -> tuple[Trial, ...]:
        """Return the trials whose grafts were kept."""
        return tuple(trial for trial in self.trials if trial.share is not None)

    @property
    def proven(self) -> tuple[Trial, ...]:
        """Return the trials that are proven, or likely causes."""
        return tuple(trial for trial in self.trials if trial.verdict in (Verdict.PROVEN, Verdict.LIKELY))

    @property
    def has_rest(self) -> bool:
        """Return whether a gap remains that is neither noise nor, of an estimate, an error of the replay."""
        return not self.rest.is_noise(self.floor) and not (self.is_estimate and abs(self.rest_share) <= ESTIMATED_REST)

    @property
    def rest_share(self) -> float:
        """Return the share of the gap that no kept graft closes; with the shares of these it adds up to 1."""
        return 1.0 - sum(trial.share or 0.0 for trial in self.kept)


class BudgetError(Exception):
    """No more runs of the training are allowed."""


@dataclass
class _Search:
    """The state of a search.

    execute : runs with grafts; the text is logged.
    is_estimate : whether these runs are estimates.
    """

    study: Study
    floor: Floor
    execute: Callable[[Sequence[Found], str], Run]
    budget: int
    is_estimate: bool = False
    trials: list[Trial] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)  # of `trials`
    gaps: list[RunGap] = field(default_factory=list)  # before each kept graft, and after the last one
    runs: int = 0
    deviating: int = 0
    untested: tuple[str, ...] = ()
    others: dict[int, Sequence[Hypothesis]] = field(default_factory=dict)  # of the finding of a kept trial, not tested

    def run(self, every: Sequence[Found], what: str) -> Run:
        """Run with grafts; raise a BudgetError if no run is left."""
        if self.runs >= self.budget:
            raise BudgetError
        self.runs += 1
        done = self.execute(every, f"run {self.runs} of at most {self.budget}: {what}: ")
        if self.is_estimate:
            return done
        grafts = [each.graft for each in every]
        if self.runs == 1:
            self.deviating = _deviating(self.study, done.study, grafts)
        grafted = {name for graft in grafts for name, _ in graft.values}
        if self.floor.source is FloorSource.MODEL and is_bit_equal(done.study, grafted):
            self.floor = BIT_EQUAL  # a finding at the first call leaves nothing before it that could show this
        return done

    def test(self, study: Study, hypothesis: Hypothesis, what: str = "") -> tuple[Run, Trial]:
        """Run with a graft that was found in a comparison, and those that were kept. A run in which the comparison
        finds nothing else may raise the noise floor. A training that fails because of values of another shape closes
        nothing. `what` is logged; without it, the hypothesis is."""
        try:
            done = self.run([*self.grafts, Found(hypothesis.graft, study)], what or _described(hypothesis))
        except CommandFailedError as cause:
            if not hypothesis.graft.is_resizing:
                raise
            logger.warning("%s: %s", _described(hypothesis), cause)
            done = Run(study, self.gaps[-1])
        is_alone = all(hypothesis.explains(each) or self.is_settled(each) for _, each in done.study.findings)
        if is_alone and not self.is_estimate:
            self.floor = self.floor.raised(done.gap)
        before = self.gaps[-1]
        closes, closed = closure(before, done.gap, self.floor), closure_of_largest(before, done.gap, self.floor)
        return done, Trial(hypothesis, study, done.gap, closes, closed, estimate=done.estimate)

    @property
    def is_explained(self) -> bool:
        """Return whether the estimates that were kept leave nothing but errors of the replay."""
        rest, whole = (gap.above(self.floor).largest for gap in (self.gaps[-1], self.gaps[0]))
        return self.is_estimate and rest <= ESTIMATED_REST * whole

    def is_settled(self, finding: Divergence) -> bool:
        """Return whether a graft that was kept explains a finding."""
        return any(self.trials[at].hypothesis.explains(finding) for at in self.kept)

    @property
    def grafts(self) -> list[Found]:
        """Return the grafts that were kept."""
        return [Found(self.trials[at].hypothesis.graft, self.trials[at].study) for at in self.kept]


def prove(
    study: Study,
    floor: Floor,
    train: Callable[[GraftPlan, str], Path],
    compare: Callable[[Path], Study],
    budget: int,
    given: Sequence[Hypothesis] = (),
) -> Proof:
    """Return the proof for the target of a study, in at most `budget` runs.

    `train` runs the training with a plan and returns the folder of its dump, `compare` compares that with the golden.
    If hypotheses are given, only these are tested.
    """

    def execute(grafts: Sequence[Found], what: str) -> Run:
        plan = united([plan_of(each.study, [each.graft]) for each in grafts])
        found = compare(train(plan, what))
        return Run(found, gap_of(found, {name for each in grafts for name in each.graft.missing}))

    gap = gap_of(study)
    search = _Search(study, floor, execute, budget, gaps=[gap])
    if gap.is_noise(floor):
        _look_for_equal_bits(search)
    return _searched(search, given)


def estimate(
    study: Study,
    gap: RunGap,
    floor: Floor,
    execute: Callable[[Sequence[Found], str], Run],
    budget: int,
    given: Sequence[Hypothesis] = (),
) -> Proof:
    """Return the same by at most `budget` estimates, which `execute` makes; `gap` is that of the target."""
    return _searched(_Search(study, floor, execute, budget, is_estimate=True, gaps=[gap]), given)


def _searched(search: _Search, given: Sequence[Hypothesis]) -> Proof:
    study, gap, floor = search.study, search.gaps[0], search.floor
    if gap.is_noise(floor):
        return Proof(
            study, gap, floor, rest=gap, runs=search.runs, deviating=search.deviating, is_estimate=search.is_estimate
        )
    is_exhausted = False
    try:
        if given:
            _test(search, given)
        else:
            _find(search)
    except BudgetError:
        is_exhausted = True
    _enter_shares(search)
    return Proof(
        study,
        gap,
        search.floor,
        tuple(search.trials),
        search.gaps[-1],
        search.runs,
        is_exhausted,
        search.deviating,
        search.is_estimate,
        search.untested,
    )


def _test(search: _Search, given: Sequence[Hypothesis]) -> None:
    """Test hypotheses one after the other; the grafts of proven ones are kept."""
    for number, hypothesis in enumerate(given):
        if search.gaps[-1].is_noise(search.floor):
            search.untested = tuple(one.name for one in given[number:])
            return
        before = search.gaps[-1]
        done, trial = search.test(search.study, hypothesis)
        search.trials.append(trial.judged(trial.closed, None))
        if not trial.explains:
            continue
        search.kept.append(len(search.trials) - 1)
        share = _share_before(search, before, trial, is_first=False)
        search.trials[-1] = trial.judged(trial.closed, share)
        if search.trials[-1].verdict in (Verdict.PROVEN, Verdict.LIKELY):
            search.gaps.append(done.gap)
        else:
            search.kept.pop()


def _find(search: _Search) -> None:
    """Find the causes by the findings of the comparison, round by round."""
    current = search.study
    while not (search.gaps[-1].is_noise(search.floor) or search.is_explained):
        tried = len(search.trials)
        following = _round(search, current) or _exchanged(search)
        if following is None and all(trial.is_judged for trial in search.trials[tried:]):
            following = _halved(search, current)  # otherwise the cause may be one that was not judged
        if following is None:
            break
        current = following
    _leave_one_out(search)


def _look_for_equal_bits(search: _Search) -> None:
    """Run the first hypothesis if the runs may be bitwise equal but for the first finding, whose gap would be noise
    otherwise."""
    step, finding = next(search.study.findings, (None, None))
    if step is None or finding is None or search.floor.source is not FloorSource.MODEL:
        return
    if step.comparison.relation.has_other_names or search.gaps[0].is_noise(BIT_EQUAL):
        return
    later = [each.step for each in search.study.steps if each.step >= step.step]
    for hypothesis in hypotheses(step, finding, later)[:1]:
        search.run([Found(hypothesis.graft, search.study)], _described(hypothesis))


def _round(search: _Search, current: Study) -> Study | None:
    """Find a graft that explains a finding of a comparison, and keep it; return the comparison of the run with it, None
    if there is no such graft."""
    before = search.gaps[-1]
    for number, (step, finding) in enumerate(_tried(search, current)):
        later = [each.step for each in current.steps if each.step >= step.step]
        resolved: list[tuple[int, Study]] = []
        families: dict[Family, str] = {}
        for at in search.kept:
            families.setdefault(family_of(search.trials[at].hypothesis.finding), search.trials[at].hypothesis.name)
        every = hypotheses(step, finding, later, families)
        # Of an estimate, the calls that follow are replayed with the recorded shapes.
        waiting = [one for one in every if not (search.is_estimate and one.graft.is_resizing)]
        while waiting:
            hypothesis = waiting.pop(0)
            done, trial = search.test(current, hypothesis)
            search.trials.append(trial.judged(trial.closed, 0.0))
            if before.is_noise(search.floor):  # as this run has shown
                return done.study
            is_resolved = trial.explains or (trial.is_judged and _is_resolved(search, done.study, hypothesis))
            if is_resolved:
                resolved.append((len(search.trials) - 1, done.study))
            is_enough = trial.explains or (resolved and trial.closed >= CONTRIBUTES)
            if is_enough or (is_resolved and _is_shown(search, done, hypothesis)):
                break
        if resolved:  # that which closes most; of several faults one may close nothing alone
            at, found = max(resolved, key=lambda one: search.trials[one[0]].closed)
            search.others[at] = waiting
            is_first = number == 0 and not (search.is_estimate and search.kept)
            _keep(search, at, is_first=is_first)
            return found
    return None


def _keep(search: _Search, at: int, *, is_first: bool) -> None:
    """Keep the graft of a trial, and judge it by what is before it."""
    before, trial = search.gaps[-1], search.trials[at]
    search.kept.append(at)
    search.gaps.append(trial.gap)
    share = _share_before(search, before, trial, is_first=is_first)
    search.trials[at] = trial.judged(trial.closed, share)


def _exchanged(search: _Search) -> Study | None:
    """Keep another graft for a finding whose graft closes a part of the gap only, and return the comparison of the run
    with it; None if none closes more. The grafts that were kept after it are not kept."""
    for number in reversed(range(len(search.kept))):
        at = search.kept[number]
        trial, others = search.trials[at], search.others.pop(at, ())
        if trial.closed >= PROVEN_CLOSES or not others:
            continue
        kept, gaps = search.kept, search.gaps
        search.kept, search.gaps = kept[:number], gaps[: number + 1]
        try:
            for hypothesis in others:
                done, other = search.test(trial.study, hypothesis)
                search.trials.append(other.judged(other.closed, 0.0))
                if other.is_judged and other.closed >= trial.closed + CONTRIBUTES:
                    _keep(search, len(search.trials) - 1, is_first=trial.before == 0.0)
                    return done.study
        finally:
            if len(search.kept) == number:
                search.kept, search.gaps = kept, gaps
    return None


def _tried(search: _Search, current: Study) -> Iterator[tuple[Step, Divergence]]:
    """Return the findings that are tried: the first ones that no earlier round has tried."""
    known = {key_of(trial.hypothesis.finding) for trial in search.trials}
    number = 0
    for step, finding in current.findings:
        if number == _MAX_FINDINGS:
            return
        if key_of(finding) not in known and not search.is_settled(finding):
            known.add(key_of(finding))
            number += 1
            yield step, finding


def _is_resolved(search: _Search, found: Study, hypothesis: Hypothesis) -> bool:
    """Return whether a run with a graft has the golden's values, and no other finding up to the place of the hypothesis
    any more."""
    place = hypothesis.place
    its_step = next((step for step in found.steps if (step.step, step.rank) == place[:2]), None)
    if its_step is None or not (search.is_estimate or is_in_place(its_step, hypothesis.graft)):
        return False
    return all(
        (step.step, step.rank, finding.at) > place or hypothesis.explains(finding) or search.is_settled(finding)
        for step, finding in found.findings
    )


def _is_shown(search: _Search, done: Run, hypothesis: Hypothesis) -> bool:
    """Return whether a resolved finding's call gives the golden's results as soon as it takes the golden's inputs or
    parameters: that is the cause, even if of several faults it closes nothing alone."""
    key = key_of(hypothesis.finding)
    is_replaced = any(
        name == key[0] and place.partition(".")[0] in (OUTPUTS, EVERY) for name, place in hypothesis.graft.values
    )
    return not (search.is_estimate or is_replaced or any(key_of(finding) == key for _, finding in done.study.findings))


def _share_before(search: _Search, before: RunGap, trial: Trial, *, is_first: bool) -> float | None:
    """Return the share that grafting everything before a trial's graft closes; 0 if nothing differs there, None if no
    run is left."""
    finding = trial.hypothesis.finding
    if is_first and not finding.hidden:
        return 0.0
    if search.runs >= search.budget:
        return None
    graft = Found(everything_before(trial.hypothesis), trial.study)
    done = search.run([*search.grafts[:-1], graft], f"everything before {finding.name}")
    return closure_of_largest(before, done.gap, search.floor)


def _halved(search: _Search, current: Study) -> Study | None:
    """Find the first call up to which grafting all calls closes the gap, and keep its graft if that alone does."""
    left = [each for each in current.findings if not search.is_settled(each[1])]
    left += search.study.findings  # if none is left, the rest of the gap begins at a call that has none
    step, finding = next(iter(left), (None, None))
    calls = [] if step is None else differing_calls(step)
    if step is None or finding is None or len(calls) < 2:
        return None
    low, high, share = 0, len(calls), 0.0
    while high - low > 1:
        middle = (low + high) // 2
        graft = calls_graft(step, calls[:middle])
        hypothesis = Hypothesis(f"the first {middle} of {len(calls)} calls", graft, step, finding, middle)
        _, trial = search.test(current, hypothesis, hypothesis.name)
        search.trials.append(replace(trial.judged(trial.closed, 1.0), is_halving=True))
        if trial.explains:
            high = middle
        else:
            low, share = middle, trial.closed
    hypothesis = of_call(step, finding, calls[high - 1])
    if hypothesis.graft in [trial.hypothesis.graft for trial in search.trials]:
        return None
    done, trial = search.test(current, hypothesis)
    search.trials.append(trial.judged(trial.closed, share))
    if not trial.explains:
        return None
    search.kept.append(len(search.trials) - 1)
    search.gaps.append(done.gap)
    return done.study


def _leave_one_out(search: _Search) -> None:
    """Judge each kept graft by the gap that remains without it, if others were kept after it; one without which nothing
    remains is not kept."""
    grafts, last = [each.graft.values for each in search.grafts], search.gaps[-1]
    needless = [  # a later one includes it
        number for number, values in enumerate(grafts) if values and any(values < each for each in grafts[number + 1 :])
    ]
    for number in reversed(range(len(search.kept) - 1)):  # of two that replace the same, the first one is the cause
        at = search.kept[number]
        trial = search.trials[at]
        if trial.closed >= PROVEN_CLOSES or number in needless:
            continue
        left_out = {number, *needless}
        others = [graft for other, graft in enumerate(search.grafts) if other not in left_out]
        without = search.run(others, f"all but {_described(trial.hypothesis)}")
        closed = closure_of_largest(without.gap, last, search.floor)
        search.trials[at] = trial.judged(closed, trial.before)
        if closed < CONTRIBUTES:
            needless.append(number)
    for number, at in enumerate(search.kept):
        trial = search.trials[at]
        first = number
        while (
            first - 1 in needless and search.trials[search.kept[first - 1]].hypothesis.place < trial.hypothesis.begins
        ):
            first -= 1
        if first < number and number not in needless:
            # All calls before it agreed with the grafts that were not needed: they were everything before it.
            before = closure_of_largest(search.gaps[first], search.gaps[number], search.floor)
            search.trials[at] = trial.judged(trial.closed, before)
            if trial.explains and before >= CONTRIBUTES:
                search.trials[at] = _joined([search.trials[each] for each in search.kept[first:number]], trial)
    for number in sorted(needless, reverse=True):
        del search.kept[number], search.gaps[number + 1]


def _joined(earlier: Sequence[Trial], trial: Trial) -> Trial:
    """Return a trial together with earlier ones whose grafts close a part of the same gap: one cause, which begins at
    the first of them. The run had all of these grafts."""
    every = [one.hypothesis for one in (*earlier, trial)]
    first = every[0]
    if any(one.place[:2] != first.place[:2] for one in every):
        return trial
    keys = (key for one in every for key in (key_of(one.finding)[0], *one.covers))
    hypothesis = replace(
        first,
        graft=graft_of_all(one.graft for one in every),
        settles=frozenset(key for one in every for key in one.settles),
        covers=tuple(dict.fromkeys(key for key in keys if key != first.name)),
        number=sum(one.number for one in every),
    )
    return replace(trial, hypothesis=hypothesis).judged(trial.closed, earlier[0].before)


def _enter_shares(search: _Search) -> None:
    """Enter the share of the whole gap that each kept graft closes, in the order in which they were kept."""
    sizes = [gap.above(search.floor).largest for gap in search.gaps]
    for at, (before, after) in zip(search.kept, pairwise(sizes), strict=True):
        share = 0.0
        if before != after:
            share = (before - after) / sizes[0] if isfinite(sizes[0]) else float(before == sizes[0])
        search.trials[at] = replace(search.trials[at], share=share)


def _described(hypothesis: Hypothesis) -> str:
    others = f" and {hypothesis.number - 1} more" if hypothesis.number > 1 else ""
    return f"{hypothesis.name}{others} ({', '.join(what.value for what in what_of(hypothesis.graft))})"


def _deviating(study: Study, found: Study, grafts: Sequence[Graft]) -> int:
    """Return how many results of calls before the first grafted call of the first step differ from the target's: the
    command is not the training of the target, or is not deterministic."""
    mine, theirs = study.steps[0].comparison.target, found.steps[0].comparison.target
    if any(graft.parameters and graft.is_in(study.steps[0].step) for graft in grafts):
        return 0
    grafted = {name for graft in grafts for name, _ in graft.values}
    differing = 0
    for call, name in enumerate(mine.columns.names):
        if name in grafted or mine.names[call].direction != "forward":
            break
        if (other := theirs.place.get(name)) is None:
            differing += 1
            continue
        rows = [list(dump.columns.tensors(at, OUTPUT)) for dump, at in ((mine, call), (theirs, other))]
        is_same = len(rows[0]) == len(rows[1])
        is_same = is_same and all(_has_same_values(mine, row, theirs, its) for row, its in zip(*rows, strict=True))
        differing += not is_same
    if differing:
        logger.warning("%d results before the first graft differ from those of the target", differing)
    return differing


def _has_same_values(one: Dump, row: int, other: Dump, other_row: int) -> bool:
    """Return whether two records have equal shapes, dtypes and values: digests if both runs have them, or else
    statistics."""
    digests = one.columns.digest[row], other.columns.digest[other_row]
    if all(digests) and have_same_kind(*digests):
        return fingerprint(one, row) == fingerprint(other, other_row)
    both = ((dump.columns, at) for dump, at in ((one, row), (other, other_row)))
    found = [(own.shape(at), own.dtype(at), *map(repr, own.numbers_of(at))) for own, at in both]
    return found[0] == found[1]
