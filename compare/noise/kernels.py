"""Evidence from replays: calls executed again in float64, on their own inputs or on those of their counterparts."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from msprobe.compare.core.limits import Kind, Limits, LimitSource
from msprobe.compare.core.noise import (
    FULL,
    LOWEST,
    OPAQUE,
    ROUNDING,
    Evidence,
    KernelPrecision,
    Output,
    PrecisionClass,
    ResidualJudgement,
    Sign,
    amplification,
    class_of,
    judge,
)
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.workers.run import Lost, run
from msprobe.replay.operations import operation
from msprobe.replay.recorded import Replayed, Residual
from msprobe.replay.replay import Partner, Place, crossed, effect_of_arguments, replay
from msprobe.store.reader import read_file
from msprobe.store.record import PARTS, Dump

from .evidence import OutputEvidence, ReplayOutcome, output_of
from .operation import rounds_inside
from .pairs import AlignedTensors

_AT_ONCE = 32
"""Number of calls in one task."""

_WORTH_WORKERS = 400
"""Number of calls below which this process is faster than starting others."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call of one side by its number in the dump, to be executed on its own inputs or on those of the other side's
    call, whose records are `partners`."""

    side: int
    call: int
    partners: Mapping[Place, Partner] | None = None


def replayed(dumps: Sequence[Dump], requests: Sequence[Request], workers: int, title: str = "") -> list[ReplayOutcome]:
    """Return the result of each request. `workers` as in `msprobe.compare.workers.run`; workers read the dumps
    themselves."""
    if workers == 1 or len(requests) < _WORTH_WORKERS:
        return _outcomes(dumps, requests)
    files = tuple(dump.where for dump in dumps)
    bundles = [(files, tuple(requests[at : at + _AT_ONCE])) for at in range(0, len(requests), _AT_ONCE)]
    found: list[list[ReplayOutcome]] = [[] for _ in bundles]
    for n, result in run(replay_bundle, bundles, workers=workers, title=title):
        found[n] = _outcomes(dumps, bundles[n][1]) if isinstance(result, Lost) else result
    return [outcome for part in found for outcome in part]


def replay_bundle(bundle: tuple[Sequence[str], Sequence[Request]]) -> list[ReplayOutcome]:
    """Return the results of one task, in any process: the files of the dumps, and the requests."""
    return _outcomes([_read(file) for file in bundle[0]], bundle[1])


def _outcomes(dumps: Sequence[Dump], requests: Iterable[Request]) -> list[ReplayOutcome]:
    return [
        replay(dumps[one.side], one.call)
        if one.partners is None
        else crossed(dumps[one.side], one.call, dumps[1 - one.side], one.partners)
        for one in requests
    ]


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
    ours: ReplayOutcome | None, theirs: ReplayOutcome | None, mine: Key, other: Key, values: Iterable[object]
) -> Residuals | None:
    """Return the residuals of the output `mine` of a target's call and of `other` of a golden's.

    A value that the target's record does not contain (an eps that is an attribute) is among `values`, the golden's
    arguments that are not tensors; if it was not recorded there either, it is chosen for both sides such that it
    explains the golden best. None if a call was not replayed, or does not have the output.
    """
    if not isinstance(ours, Replayed) or not isinstance(theirs, Replayed):
        return None
    words = {_word(value) for value in values}
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
    """Yield the target's candidates that mean the same as the golden's option."""
    if option in known:
        yield option
    elif known:
        translated = (
            label for label in known if all(_word(text.partition("=")[2]) in words for text in label.split(","))
        )
        yield next(translated, next(iter(known)))


def _word(value: object) -> str:
    """Return a number or word as labels contain it."""
    try:
        return repr(float(str(value)))
    except ValueError:
        return str(value)


def _least_eta(result: ReplayOutcome | None, key: Key) -> float:
    """Return the residual against the call's own function, for the best of its possible options."""
    every = result.residuals.values() if isinstance(result, Replayed) else ()
    return min((r.eta for found in every for r in found if (r.part, r.path) == key), default=math.nan)


_TINY_FAULT = 2.5
"""The only call that differs is not noise if the target's residual is at least this many times the golden's."""


_APPROXIMATED = {("tanh", "forward"): 1e-4, ("tanh", "backward"): 5e-4}
"""Functions that kernels approximate, by direction, with the relative error of the output. MindSpore 2.10 on a CPU,
float32: the error of tanh is up to 7.7e-5 for inputs from 3 to 5, and that of its gradient, 1 - tanh**2, twice that."""


class ReplayEvidence(OutputEvidence):
    """Evidence by the residuals of replayed calls; nothing is replayed if the limits are exact.

    By row: `outputs` are the residuals, `_options` the options that are not recorded and were chosen.
    """

    _aligned: AlignedTensors

    def __init__(self, aligned: AlignedTensors, workers: int, title: str, limits: Limits) -> None:
        self._workers, self._title, self._limits = workers, title, limits
        self.outputs: dict[int, Output] = {}
        self._kinds: dict[int, Kind] = {}
        self._options: dict[int, str] = {}
        super().__init__(aligned)

    def _judge(self) -> Mapping[int, ResidualJudgement]:
        aligned = self._aligned
        if not self._limits.is_exact:
            self.replays = self._replay()
        crossings = {} if self._limits.is_exact else self._cross()
        for event, rows in self.outputs_that_differ():
            outcomes = [
                replays.get(calls[event.place]) for replays, calls in zip(self.replays, aligned.calls, strict=True)
            ]
            for row in rows:
                own, keys = math.nan, self._keys(aligned.rows[0][row], aligned.rows[1][row])
                found = residuals(crossings.get(event.place), outcomes[1], *keys, ())
                if found is not None:
                    self.crossed.add(row)
                    own = _least_eta(outcomes[0], keys[0])
                elif not aligned.has_other_kernels and aligned.has_other_function(row):
                    continue
                found = found or self._residuals(row)
                if found is None or min(found.target.count, found.golden.count) == 0:
                    continue
                self._options[row] = found.option
                kind = self._kinds[row] = Kind(found.operation, event.direction, output_of(event, found.target.path))
                self.outputs[row] = Output(
                    kind,
                    self.places[event.at],
                    found.moves_data,
                    found.target,
                    found.golden,
                    found.is_exhaustive,
                    own,
                    rounds_inside(operation(found.operation)),
                )
        judged = dict(zip(self.outputs, judge(list(self.outputs.values()), self._limits), strict=True))
        if aligned.has_other_kernels:
            for row, judgement in judged.items():
                if judgement.sign not in (Sign.NONE, Sign.OTHER_FUNCTION) and self._is_approximation(row):
                    judged[row] = judgement._replace(sign=Sign.NONE)
        return judged

    def _is_approximation(self, row: int) -> bool:
        """Return whether kernels approximate the function of an output, and its error is within the limit of that. The
        error depends on the inputs, so that other calls of the kind are not evidence."""
        kind = self._kinds[row]
        return self.outputs[row].target.relative <= _APPROXIMATED.get((kind.operation, kind.direction), 0.0)

    def _replay(self) -> Sequence[Mapping[int, ReplayOutcome]]:
        """Return by side and call the replays of the calls whose outputs differ."""
        aligned = self._aligned
        calls = set[tuple[int, int]]()
        for event, rows in self.outputs_that_differ():
            if aligned.has_other_kernels:
                calls |= {(side, aligned.calls[side][event.place]) for side in (0, 1)}
            for row in rows:
                makers = enumerate(aligned.makers(row))
                calls |= {(side, aligned.graphs[side].call_of[at]) for side, at in makers}
        ordered = sorted(calls)
        outcomes = self._outcomes([Request(side, call) for side, call in ordered])
        found: tuple[dict[int, ReplayOutcome], dict[int, ReplayOutcome]] = ({}, {})
        for (side, call), result in zip(ordered, outcomes, strict=True):
            found[side][call] = result
        return found

    def _cross(self) -> Mapping[int, ReplayOutcome]:
        """Return by place the golden's call executed on the target's inputs, for pairs of calls with outputs that
        differ and possibly different functions: those of two frameworks, and those with an argument that differs and is
        not a tensor."""
        aligned = self._aligned
        events = [
            event
            for event, _ in self.outputs_that_differ()
            if event.kind in ("api", "cell") and (aligned.has_other_kernels or aligned.has_other_values(event))
        ]
        wanted = [Request(1, aligned.calls[1][event.place], aligned.partners(event)) for event in events]
        return {event.place: result for event, result in zip(events, self._outcomes(wanted), strict=True)}

    def _outcomes(self, requests: Sequence[Request]) -> list[ReplayOutcome]:
        return replayed((self._aligned.pairs.target, self._aligned.pairs.golden), requests, self._workers, self._title)

    def _residuals(self, row: int) -> Residuals | None:
        """Return the residuals of both sides against their own functions, for the calls that produced an output."""
        makers = self._aligned.makers(row)
        calls = [graph.call_of[at] for graph, at in zip(self._aligned.graphs, makers, strict=True)]
        ours, theirs = (replays.get(call) for replays, call in zip(self.replays, calls, strict=True))
        return residuals(ours, theirs, *self._keys(*makers), self._aligned.graphs[1].values(calls[1]))

    def _keys(self, target: int, golden: int) -> tuple[Key, Key]:
        t, g = self._aligned.graphs[0].columns, self._aligned.graphs[1].columns
        return (PARTS[t.part[target]], t.path_of(target)), (PARTS[g.part[golden]], g.path_of(golden))

    def _is_noise_seen(self) -> bool:
        """Return whether noise is known; also if parameters have drifted: then no call has equal inputs, and the
        rounding of the runs is unknown otherwise."""
        is_later = bool(self._aligned.comparison.target.step)
        return super()._is_noise_seen() or (
            not self.origins and bool(self.judgements) and is_later and self._have_drifted
        )

    def _is_rewritten(self) -> bool:
        return not self._limits.is_exact and super()._is_rewritten()

    def kind(self, row: int, event: Event) -> Kind:
        """Return the kind of an output: by the operation if it was replayed, otherwise by the function or cell."""
        return self._kinds.get(row) or super().kind(row, event)

    def is_side_product(self, row: int, event: Event) -> bool:
        aligned = self._aligned
        if event.direction != "forward" or event.kind != "api" or row in self.judgements:
            return False
        others = [r for r in aligned.outputs(event) if r != row]
        if not any(r in self.judgements or aligned.equal[r] == EQUAL for r in others):
            return False
        if any(graph.users.get(rows[row]) for graph, rows in zip(aligned.graphs, aligned.rows, strict=True)):
            return False
        calls = (calls[event.place] for calls in aligned.calls)
        return any(isinstance(found.get(at), Replayed) for found, at in zip(self.replays, calls, strict=True))

    def precision(self, row: int) -> KernelPrecision:
        output = self.outputs.get(row)
        return KernelPrecision.OPAQUE if output is None else class_of(output.target.eta)

    def is_without_effect(self, event: Event, rows: Sequence[int]) -> bool | None:
        """Return the same as `OutputEvidence.is_without_effect`; arguments that are not tensors are judged by both
        functions in float64, on the inputs of the target."""
        aligned = self._aligned
        if self._limits.is_exact or any(aligned.are_tensors[row] for row in rows):
            return super().is_without_effect(event, rows)
        target, golden = (calls[event.place] for calls in aligned.calls)
        dumps = aligned.pairs.golden, aligned.pairs.target
        effect = effect_of_arguments(dumps[0], golden, dumps[1], target, aligned.partners(event))
        return super().is_without_effect(event, rows) if effect is None else effect <= ROUNDING

    def _is_never_reproducible(self, row: int) -> bool:
        output = self.outputs.get(row)
        return output is not None and self._limits.has_shown(output.kind, Sign.BITS.name, output.target.eta)

    def _is_coarse(self, row: int) -> bool:
        output = self.outputs.get(row)
        return output is not None and output.target.eta > FULL and not self.judgements[row].is_wrong

    def _tiny_faults(self, reproducible: int) -> Iterable[int]:
        measured = [row for row in self.origins if row in self.outputs]
        for row in measured if reproducible else ():
            t, g = self.outputs[row].target, self.outputs[row].golden
            if not self._is_coarse(row) and (t.eta > _TINY_FAULT * g.eta or t.peak > 2 * _TINY_FAULT * g.peak):
                yield row
        yield from () if measured else self.origins

    def evidence(self, row: int, event: Event, judgement: ResidualJudgement, error: float, most: float) -> Evidence:
        output = self.outputs.get(row)
        distance = self._aligned.distance(row)
        amplified = amplification(distance, error, self.floor(row) if self.are_noisy else 0.0)
        source = judgement.source
        if self._limits.is_exact:
            source = LimitSource.EXACT
        elif most > OPAQUE and amplified > OPAQUE:
            source = LimitSource.CALIBRATED
        return Evidence(
            judgement.sign,
            judgement.is_of,
            math.nan if output is None else output.target.eta,
            math.nan if output is None else output.golden.eta,
            judgement.bound,
            distance,
            most * error,
            self._options.get(row, ""),
            source,
            self.kind(row, event),
            amplified,
        )

    def floor(self, row: int) -> float:
        dtype, _ = self._aligned.dtype_and_shape(1, row)
        return max(self.rounding_of(dtype), self._coarsest)

    @cached_property
    def _coarsest(self) -> float:
        etas = [max(o.target.eta, o.golden.eta) for row, o in self.outputs.items() if not self.judgements[row].is_wrong]
        greatest = max((eta for eta in etas if eta <= LOWEST), default=0.0)
        return 3 * greatest if greatest > FULL else 0.0

    def classes(self) -> Iterable[PrecisionClass]:
        for side in ("target", "golden"):
            found: dict[KernelPrecision, Counter[str]] = defaultdict(Counter)
            for row, output in self.outputs.items():
                eta = getattr(output, side).eta
                if FULL < eta <= LOWEST and not self.judgements[row].is_wrong and not output.moves_data:
                    found[class_of(eta)][self._kinds[row].operation] += 1
            for is_of, operations in found.items():
                yield PrecisionClass(side, is_of, tuple(op for op, _ in operations.most_common()), operations.total())
