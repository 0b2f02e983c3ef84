"""Calls of a dump executed again in float64, on their own inputs or on those of their counterparts: in processes, with
progress."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from msprobe.compare.workers.run import Lost, run
from msprobe.replay.crossed import Partner, Place, crossed
from msprobe.replay.replay import replay
from msprobe.replay.result import NotReplayed, Replayed, Residual
from msprobe.store.read import read_file
from msprobe.store.record import Dump

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
