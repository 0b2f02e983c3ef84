"""Residuals of the calls of two runs: each executed again in float64, in worker processes.

Calls of a dump executed again in float64, on their own inputs or on those of their counterparts: in processes, with
progress.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from msprobe.base import names
from msprobe.compare.core.limits import BUILT_IN, Kind, Limits, Source
from msprobe.compare.core.noise import (
    FULL,
    LOWEST,
    OPAQUE,
    Class,
    Evidence,
    Judgement,
    Output,
    PrecisionClass,
    Sign,
    Unseen,
    amplification,
    class_of,
    judge,
)
from msprobe.compare.core.reason import DRIFT
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import DIFFERENT, EQUAL
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.workers.run import Lost, run
from msprobe.replay.recorded import NotReplayed, Replayed, Residual
from msprobe.replay.replay import Partner, Place, crossed, replay
from msprobe.store.reader import read_file
from msprobe.store.record import PARTS, Dump

from .pairs import Paired

Answer = Replayed | NotReplayed

_AT_ONCE = 32
"""Calls of one task."""

_WORTH_WORKERS = 400
"""Calls below which this process alone is done before others have imported what they need."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Calls of one dump, which is named by its file, by their places in it."""

    file: str
    calls: tuple[int, ...]


def replayed(
    dumps: Sequence[Dump], calls: Sequence[Sequence[int]], workers: int, title: str = ""
) -> list[dict[int, Answer]]:
    """The answers for calls of each dump, by the call's place. `workers` as in `msprobe.compare.workers.run`."""
    if workers == 1 or sum(map(len, calls)) < _WORTH_WORKERS:
        return [{at: replay(dump, at) for at in mine} for dump, mine in zip(dumps, calls, strict=True)]
    bundles = [
        (side, Bundle(dump.where, tuple(mine[at : at + _AT_ONCE])))
        for side, (dump, mine) in enumerate(zip(dumps, calls, strict=True))
        for at in range(0, len(mine), _AT_ONCE)
    ]
    found: list[dict[int, Answer]] = [{} for _ in dumps]
    for n, result in run(replay_bundle, [bundle for _, bundle in bundles], workers=workers, title=title):
        side, bundle = bundles[n]
        if isinstance(result, Lost):
            result = [replay(dumps[side], at) for at in bundle.calls]
        found[side].update(zip(bundle.calls, result, strict=True))
    return found


@dataclass(frozen=True, slots=True)
class Crossing:
    """A golden's call by its place, to be executed on the tensors of the target's call that is its counterpart."""

    call: int
    partners: Mapping[Place, Partner]


@dataclass(frozen=True, slots=True)
class Crossings:
    """Crossings of one pair of dumps, which are named by their files."""

    golden: str
    target: str
    every: tuple[Crossing, ...]


def crossed_each(
    golden: Dump, target: Dump, crossings: Sequence[Crossing], workers: int, title: str = ""
) -> list[Answer]:
    """The answers for calls of the golden on the target's tensors. `workers` as in `msprobe.compare.workers.run`."""
    if workers == 1 or len(crossings) < _WORTH_WORKERS:
        return [crossed(golden, one.call, target, one.partners) for one in crossings]
    bundles = [
        Crossings(golden.where, target.where, tuple(crossings[at : at + _AT_ONCE]))
        for at in range(0, len(crossings), _AT_ONCE)
    ]
    found: list[list[Answer]] = [[] for _ in bundles]
    for n, result in run(cross_bundle, bundles, workers=workers, title=title):
        if isinstance(result, Lost):
            result = [crossed(golden, one.call, target, one.partners) for one in bundles[n].every]
        found[n] = result
    return [answer for part in found for answer in part]


def cross_bundle(bundle: Crossings) -> list[Answer]:
    """The answers of one task, wherever it runs."""
    golden, target = _read(bundle.golden), _read(bundle.target)
    return [crossed(golden, one.call, target, one.partners) for one in bundle.every]


def replay_bundle(bundle: Bundle) -> list[Answer]:
    """The answers of one task, wherever it runs."""
    dump = _read(bundle.file)
    return [replay(dump, at) for at in bundle.calls]


@lru_cache(maxsize=4)
def _read(file: str) -> Dump:
    return read_file(Path(file))


@dataclass(frozen=True, slots=True)
class Residuals:
    """The residuals of one pair of outputs, with the one option that explains the golden side best."""

    operation: str
    moves_data: bool
    option: str
    target: Residual
    golden: Residual
    is_exhaustive: bool


Key = tuple[str, tuple[str, ...]]
"""Part and path of an output."""


def residuals(
    ours: Answer | None, theirs: Answer | None, mine: Key, other: Key, told: Iterable[object]
) -> Residuals | None:
    """The residuals of the output `mine` of a target's call and of `other` of a golden's.

    What the target's record does not tell (an eps that is an attribute) is what the golden was `told`, its arguments
    that are no tensors; where that is not recorded either, it is chosen for both as it explains the golden best. None
    where a call was not replayed, or has no such output.
    """
    if not isinstance(ours, Replayed) or not isinstance(theirs, Replayed):
        return None
    words = {_word(value) for value in told}
    is_sure = ours.is_exhaustive and theirs.is_exhaustive
    found = [
        Residuals(theirs.operation, ours.moves_data and theirs.moves_data, option or label, t, g, is_sure)
        for option, of_golden in theirs.residuals.items()
        for g in of_golden
        if (g.part, g.path) == other
        for label in _same_option(option, ours.residuals, words)
        for t in ours.residuals[label]
        if (t.part, t.path) == mine
    ]
    return min(found, key=lambda one: one.golden.eta, default=None)


def _same_option(option: str, known: Mapping[str, object], words: set[str]) -> Iterator[str]:
    """Which of the target's candidates means the same as the golden's."""
    if option in known:
        yield option
    elif known:
        meant = (label for label in known if all(_word(text.partition("=")[2]) in words for text in label.split(",")))
        yield next(meant, next(iter(known)))


def _word(value: object) -> str:
    """A number or word as a label has it."""
    try:
        return repr(float(str(value)))
    except ValueError:
        return str(value)


_PASS = GRADES.index("pass")
_WRONG = GRADES.index("warning"), GRADES.index("error")

_TINY_FAULT = 2.5
"""The only call that differs is no noise where the target's residual is so many times the golden's."""


class Kernels:
    """By pair of outputs that differs: `outputs` are its residuals, `judgements` what they say, `options` what the
    records did not tell. `crossed` are those whose target was held against the golden's function. `origins` are the
    outputs that differ although all inputs are equal to the bit; `by_bits` those of them that are wrong because most
    calls like it are equal. `replays` are the answers by side and call; none where no difference is to be noise.
    `kinds` are those of `outputs`. `are_noisy`: the two runs are not equal to the bit where nothing is wrong.
    """

    def __init__(self, paired: Paired, workers: int, title: str, limits: Limits = BUILT_IN) -> None:
        self._paired, self._limits = paired, limits
        self.kinds: dict[int, Kind] = {}
        self._leaves = [event for event in paired.events if event in paired.innermost]
        self.options: dict[int, str] = {}
        self.origins: list[int] = []
        self.outputs: dict[int, Output] = {}
        self._coarse: float | None = None
        self.crossed: set[int] = set()
        self.replays = self._replay(workers, title)
        self._crossings = {} if limits.is_exact else self._cross(workers, title)
        self.judgements = self._judge_residuals()
        self.by_bits = self._by_bits()
        self.are_noisy = self._find_noise()

    def _find_noise(self) -> bool:
        """Whether the two runs are not equal to the bit where nothing is wrong; of two frameworks they never are."""
        if self._paired.is_across or (not self.origins and self.judgements and self._have_drifted):
            return True
        known = (self.judgements.get(row) for row in self.origins if row not in self.by_bits)
        return any(
            judgement is not None and not judgement.is_wrong and judgement.is_of is not Class.OPAQUE
            for judgement in known
        )

    @property
    def _have_drifted(self) -> bool:
        """Whether parameters differ by no more than earlier steps explain: then no call has equal inputs, and nothing
        else can tell whether the runs round alike."""
        reasons = self._paired.comparison.reasons.values()
        return bool(self._paired.comparison.target.step) and any(r.why in DRIFT for found in reasons for r in found)

    def _replay(self, workers: int, title: str) -> tuple[dict[int, Answer], dict[int, Answer]]:
        """By side and call: the replays of what made the outputs that differ."""
        if self._limits.is_exact:
            return {}, {}
        calls: tuple[dict[int, None], dict[int, None]] = ({}, {})
        for event in self._paired.events:
            for row in self.differing(event):
                for side in (0, 1) if self._paired.is_across else ():
                    calls[side][int(self._paired.calls[side][event.place])] = None
                for side, at in enumerate(self._paired.makers(row)):
                    calls[side][self._paired.graphs[side].call_of(at)] = None
        found = replayed(
            (self._paired.pairs.target, self._paired.pairs.golden), [sorted(mine) for mine in calls], workers, title
        )
        return found[0], found[1]

    def _cross(self, workers: int, title: str) -> dict[int, Answer]:
        """By place: the golden's call on the target's inputs, of pairs of calls whose outputs differ, where the two may
        be another function: of two frameworks, and where an argument differs that is no tensor."""
        events = [
            event
            for event in self._paired.events
            if event.kind in ("api", "cell")
            and self.differing(event)
            and (self._paired.is_across or has_other_values(self._paired, event))
        ]
        golden, target = self._paired.pairs.golden, self._paired.pairs.target
        wanted = [Crossing(int(self._paired.calls[1][event.place]), self._paired.partners(event)) for event in events]
        found = crossed_each(golden, target, wanted, workers, title)
        return {event.place: answer for event, answer in zip(events, found, strict=True)}

    def differing(self, event: Event) -> list[int]:
        """The pairs of tensors among the outputs of a pair of calls that differ, and were not judged elsewhere."""
        if not event.is_matched:
            return []
        rows = [
            r
            for r in self._paired.outputs(event)
            if self._paired.equal[r] == DIFFERENT and self._paired.pairs.are_tensors(r)
        ]
        if event in self._paired.innermost:
            return rows
        return [r for r in rows if self._paired.judged_elsewhere(r) < 0]

    def _judge_residuals(self) -> dict[int, Judgement]:
        """By row of an output that was replayed on both sides."""
        outputs: dict[int, Output] = {}
        for event in self._paired.events:
            for row in self.differing(event):
                found = self._crossed(row, event) or self._residuals(row)
                if found is None or min(found.target.count, found.golden.count) == 0:
                    continue
                self.options[row] = found.option
                kind = self.kinds[row] = Kind(found.operation, event.direction, output_of(event, found.target.path))
                sides = found.target, found.golden
                own = self._own_residual(row, event) if row in self.crossed else math.nan
                outputs[row] = Output(kind, _place(event), found.moves_data, *sides, found.is_exhaustive, own)
        self.outputs = outputs
        return dict(zip(outputs, judge(list(outputs.values()), self._limits), strict=True))

    def kind(self, row: int, event: Event) -> Kind:
        """The kind of an output: by the operation where it was replayed, else by what was called."""
        if (known := self.kinds.get(row)) is not None:
            return known
        columns, at = self._paired.pairs.target.columns, int(self._paired.rows[0][row])
        return Kind(stem_of(event), event.direction, output_of(event, columns.paths[columns.path[at]]))

    def _crossed(self, row: int, event: Event) -> Residuals | None:
        """The target's residual against the golden's function."""
        answer = self._crossings.get(event.place)
        golden = self.replays[1].get(int(self._paired.calls[1][event.place]))
        found = residuals(answer, golden, self._own_key(0, row), self._own_key(1, row), ())
        if found is not None:
            self.crossed.add(row)
        return found

    def _own_residual(self, row: int, event: Event) -> float:
        """The target's residual against its own function, under the best of the options that it may have."""
        answer = self.replays[0].get(int(self._paired.calls[0][event.place]))
        if not isinstance(answer, Replayed):
            return math.nan
        key = self._own_key(0, row)
        every = (r.eta for found in answer.residuals.values() for r in found if (r.part, r.path) == key)
        return min(every, default=math.nan)

    def _own_key(self, side: int, row: int) -> Key:
        return self._key(side, int(self._paired.rows[side][row]))

    def _key(self, side: int, at: int) -> Key:
        columns = self._paired.graphs[side].columns
        return PARTS[columns.part[at]], columns.paths[columns.path[at]]

    def _residuals(self, row: int) -> Residuals | None:
        mine, theirs = self._paired.makers(row)
        ours, golden = self._paired.graphs
        return residuals(
            self.replays[0].get(ours.call_of(mine)),
            self.replays[1].get(golden.call_of(theirs)),
            self._key(0, mine),
            self._key(1, theirs),
            golden.values(golden.call_of(theirs)),
        )

    def _by_bits(self) -> set[int]:
        """The rows of outputs that differ although all inputs, and the outputs of most calls like it, are equal."""
        if self._paired.is_across:
            return set()
        same: Counter[Hashable] = Counter()
        others: dict[Hashable, list[list[int]]] = defaultdict(list)
        for event in self._leaves:
            if not self._has_equal_inputs(event):
                continue
            rows = [
                r
                for r in self._paired.outputs(event)
                if self._paired.pairs.are_tensors(r) and self._paired.is_floating(r)
            ]
            if not rows:
                continue
            rows = [r for r in rows if self._paired.equal[r] == EQUAL or not self.is_side_product(r, event)]
            differing = [r for r in rows if self._paired.equal[r] == DIFFERENT]
            key = self._likeness(event)
            if differing:
                others[key].append(differing)
                self.origins += differing
            elif not all(map(self._is_constant, rows)):
                same[key] += 1
        found: set[int] = set()
        for key, calls in others.items():
            if same[key] > len(calls):
                found.update(r for rows in calls for r in rows if not self._is_coarse(r))
        if not found and sum(map(len, others.values())) == 1:
            measured = [r for r in self.origins if r in self.outputs]
            found.update(r for r in measured or self.origins if self._is_tiny_fault(r, same.total()))
        return {r for r in found if not self._is_never_reproducible(r)}

    def _is_never_reproducible(self, row: int) -> bool:
        """Whether a calibration has seen that calls of this kind need not give the same bits twice."""
        output = self.outputs.get(row)
        return output is not None and self._limits.has_shown(output.kind, Sign.BITS.name, output.target.eta)

    def is_side_product(self, row: int, event: Event) -> bool:
        """Whether an output is none that the operation defines, and nobody uses it: what a kernel saves for itself, or
        the memory that it was handed (batch statistics of BatchNorm)."""
        if event.direction != "forward" or event.kind != "api" or row in self.judgements:
            return False
        others = [r for r in self._paired.outputs(event) if r != row]
        if not any(r in self.judgements or self._paired.equal[r] == EQUAL for r in others):
            return False
        is_replayed = False
        for side, (graph, replays) in enumerate(zip(self._paired.graphs, self.replays, strict=True)):
            if graph.users.get(int(self._paired.rows[side][row])):
                return False
            is_replayed |= isinstance(replays.get(int(self._paired.calls[side][event.place])), Replayed)
        return is_replayed

    def _is_constant(self, row: int) -> bool:
        """Whether all elements of a tensor are one number: zeros times anything are zeros in any kernel."""
        columns, at = self._paired.pairs.target.columns, int(self._paired.rows[0][row])
        return columns.max[at] == columns.min[at]

    def _is_coarse(self, row: int) -> bool:
        """Whether an output is as coarse as others of its precision class."""
        output = self.outputs.get(row)
        return output is not None and output.target.eta > FULL and not self.judgements[row].is_wrong

    def _is_tiny_fault(self, row: int, reproducible: int) -> bool:
        """Whether the only call that differs, of many that could, is told apart from noise by its residual."""
        output = self.outputs.get(row)
        if output is None:
            return True
        if self._is_coarse(row):
            return False
        t, g = output.target, output.golden
        return reproducible >= 1 and (t.eta > _TINY_FAULT * g.eta or t.peak > 2 * _TINY_FAULT * g.peak)

    def _has_equal_inputs(self, event: Event) -> bool:
        rows = [r for p in (event.place, *event.forwards) for r in self._paired.rows_of(p)]
        if event.direction == "forward":
            rows = [r for r in rows if self._paired.is_given[r]]
        else:
            rows = [r for r in rows if self._paired.pairs.call_of[r] != event.place or self._paired.is_given[r]]
        return all(
            self._paired.equal[r] == EQUAL
            or (self._paired.comparison.grades[r] == _PASS and not self._paired.pairs.are_tensors(r))
            for r in rows
        )

    def _likeness(self, event: Event) -> Hashable:
        """What two calls have in common that one kernel computes in the same way: operation and shapes."""
        columns = self._paired.pairs.target.columns
        looks = tuple(columns.look[int(self._paired.rows[0][r])] for r in event.rows if self._paired.rows[0][r] >= 0)
        return stem_of(event), event.direction, looks

    def hides_order(self, row: int) -> bool:
        """Whether an output looks the same in whatever order its inputs are joined."""
        return False

    def evidence(self, row: int, event: Event, judgement: Judgement, came: float, most: float) -> Evidence:
        """What decided about an output whose inputs differ by `came`, and which may differ by `most` times that."""
        output = self.outputs.get(row)
        distance = self._paired.distance(row)
        amplified = amplification(distance, came, self.floor(row) if self.are_noisy else 0.0)
        source = judgement.source
        if self._limits.is_exact:
            source = Source.EXACT
        elif most > OPAQUE and amplified > OPAQUE:
            source = Source.CALIBRATED
        return Evidence(
            judgement.sign,
            judgement.is_of,
            math.nan if output is None else output.target.eta,
            math.nan if output is None else output.golden.eta,
            judgement.bound,
            distance,
            most * came,
            self.options.get(row, ""),
            source,
            self.kind(row, event),
            amplified,
        )

    def floor(self, row: int) -> float:
        """The relative rounding error of one call that writes this tensor, in the coarsest class of the two runs."""
        columns = self._paired.pairs.golden.columns
        dtype = columns.looks[columns.look[int(self._paired.rows[1][row])]][1]
        unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype.rsplit(".", 1)[-1].lower(), 2.0**-23)
        return max(10 * unit, self._coarsest)

    @property
    def _coarsest(self) -> float:
        if self._coarse is None:
            found = [
                max(o.target.eta, o.golden.eta)
                for row, o in self.outputs.items()
                if not self.judgements[row].is_wrong and max(o.target.eta, o.golden.eta) <= LOWEST
            ]
            greatest = max(found, default=0.0)
            self._coarse = 3 * greatest if greatest > FULL else 0.0
        return self._coarse

    def unseen(self, noise: Sequence[int]) -> Unseen | None:
        """What noise hides because only statistics are known, of the pairs of records that are noise; None where
        elements are known."""
        return None

    def classes(self) -> Iterable[PrecisionClass]:
        for side in ("target", "golden"):
            found: dict[Class, Counter[str]] = defaultdict(Counter)
            for row, output in self.outputs.items():
                eta = getattr(output, side).eta
                if FULL < eta <= LOWEST and not self.judgements[row].is_wrong and not output.moves_data:
                    found[class_of(eta)][output.kind[0]] += 1  # type: ignore[index]  # a tuple, above
            for is_of, operations in found.items():
                yield PrecisionClass(side, is_of, tuple(op for op, _ in operations.most_common()), operations.total())


def has_other_values(paired: Paired, event: Event) -> bool:
    """Whether an argument of a pair of calls, or of their forward, differs that is no tensor."""
    rows = (row for place in (event.place, *event.forwards) for row in paired.rows_of(place))
    return any(
        paired.is_given[row] and not paired.pairs.are_tensors(row) and paired.comparison.grades[row] in _WRONG
        for row in rows
    )


def stem_of(event: Event) -> str:
    """What was called: a function, or the class of a cell."""
    stem = names.parse(event.called).stem
    return stem if event.kind == "api" else stem.rpartition(".")[2]


def output_of(event: Event, path: tuple[str, ...]) -> str:
    """Which output of a call a record is; of cells all are alike."""
    return ".".join(path[:1]) if event.kind == "api" else event.kind


def _place(event: Event) -> str:
    """Where a call stands, without the numbers of layers."""
    parent = event.parents[0] if event.parents else ""
    path = names.parse(parent).path if parent else ""
    name = names.parse(event.called)
    own = name.path if event.kind == "cell" else name.stem
    return ".".join("#" if part.isdigit() else part for part in f"{path}/{own}".split("."))
