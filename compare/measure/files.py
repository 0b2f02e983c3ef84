"""Measure pairs of files: in this process, in others, or on a cluster; an interrupted run is resumed."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError, MappingError
from msprobe.compare.core.measures import Measures
from msprobe.compare.core.standard import standard_of
from msprobe.compare.workers.resume import Resume, fingerprint
from msprobe.compare.workers.run import Lost, bundles, run
from msprobe.store.reader import load_file
from msprobe.store.record import Statistics

_AT_ONCE = 16 << 20
"""Bytes of a side that one task reads."""

_WORTH_WORKERS = 256 << 20
"""Bytes of a side up to which this process is faster than starting others."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How tensors are measured: the number of processes (0: as many as cores), the Dask scheduler, and the folder for
    resuming.

    `folder` contains the journal of an interrupted comparison; None for no journal.
    """

    workers: int = 1
    scheduler: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Files:
    """Two files to be measured, and the golden's dtype as its dump names it.

    `as_dumped` is whether the framework wrote each, whose headers are not always numpy's; `describe` whether the
    statistics of both are needed too, because a dump does not contain them. `views` are transforms
    (`msprobe.mapping.transform`) that convert each to the other's layout; the statistics are those of the tensors as
    stored.
    """

    target: str
    golden: str
    dtype: str
    as_dumped: tuple[bool, bool] = (False, False)
    describe: bool = False
    views: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of two files: their shapes, and measures if the shapes are equal; or a sentence about the failure."""

    measures: Measures | None = None
    failure: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    statistics: tuple[Statistics, Statistics] | None = None


def measure_all(files: Sequence[Files], sizes: Sequence[int], effort: Effort) -> list[Outcome]:
    """Measure every pair of files, in their order, on the workers of `effort`."""
    is_much = sum(sizes) >= _WORTH_WORKERS
    resume: AbstractContextManager[Resume | None] = nullcontext()
    if is_much and effort.folder is not None:
        resume = Resume(effort.folder, fingerprint([path for one in files for path in (one.target, one.golden)]))
    with resume as journal:
        known = journal.known() if journal else {}
        found: list[Outcome | None] = [None] * len(files)
        if known:
            found = [_outcome(known[key]) if (key := _key(one)) in known else None for one in files]
        left = [at for at, outcome in enumerate(found) if outcome is None]
        groups = [[left[n] for n in bundle] for bundle in bundles([sizes[at] for at in left], _AT_ONCE)]
        done = run(
            measure_bundle,
            [tuple(files[at] for at in bundle) for bundle in groups],
            workers=effort.workers if is_much else 1,
            scheduler=effort.scheduler,
            title="measuring tensors" if is_much else "",
            sizes=[sum(sizes[at] for at in bundle) for bundle in groups],
        )
        for number, result in done:
            bundle = groups[number]
            outcomes = [Outcome(failure=result.reason)] * len(bundle) if isinstance(result, Lost) else result
            for at, outcome in zip(bundle, outcomes, strict=True):
                found[at] = outcome
                if journal and not outcome.failure:
                    journal.add(_key(files[at]), astuple(outcome))
        if journal:
            journal.done()
    return [outcome or Outcome(failure="it was not measured") for outcome in found]


def _key(files: Files) -> str:
    """Return everything that a result depends on except the contents of the files."""
    return json.dumps(astuple(files))


def _outcome(kept: Any) -> Outcome:
    """Return an outcome from its form in the journal: `astuple`, through JSON."""
    measures, failure, shapes, statistics = kept
    return Outcome(
        None if measures is None else Measures(*measures),
        failure,
        tuple(map(tuple, shapes)),
        None if statistics is None else (Statistics(*statistics[0]), Statistics(*statistics[1])),
    )


def measure_bundle(bundle: Sequence[Files]) -> list[Outcome]:
    """Measure some pairs of files in sequence."""
    return [measure_files(files) for files in bundle]


def measure_files(files: Files) -> Outcome:
    """Measure two files; a file that cannot be read is reported in the outcome, not raised."""
    from .tensors import measure, side_statistics

    try:
        target, golden = map(_open, (files.target, files.golden), files.as_dumped)
        shapes = target.shape, golden.shape
        described = (side_statistics(target), side_statistics(golden)) if files.describe else None
        target, golden = (_viewed(side, view) for side, view in zip((target, golden), files.views, strict=True))
        if target.shape != golden.shape:
            return Outcome(None, "", shapes, described)
        return Outcome(measure(target, golden, standard_of(files.dtype), files.dtype), "", shapes, described)
    except (DumpError, MappingError) as err:
        return Outcome(failure=str(err))


def share_of_files(files: Files, absolute: float, relative: float) -> float | None:
    """Return `greatest_share` of the tensors in two files; None if they cannot be read, or differ in shape."""
    from .tensors import greatest_share

    try:
        target, golden = map(_open, (files.target, files.golden), files.as_dumped)
        target, golden = (_viewed(side, view) for side, view in zip((target, golden), files.views, strict=True))
        return greatest_share(target, golden, absolute, relative) if target.shape == golden.shape else None
    except (DumpError, MappingError):
        return None


def _viewed(tensor: Any, view: str) -> Any:
    """Return a tensor in the other's layout; it is read completely."""
    if not view:
        return tensor
    from msprobe.mapping.transform import parse
    from msprobe.store.tensor_file import TensorFile

    return parse(view)(tensor.part(0, tensor.size).reshape(tensor.shape) if isinstance(tensor, TensorFile) else tensor)


def _open(name: str, as_dumped: bool) -> Any:
    """Return the tensor in a file, read piece by piece if possible."""
    from msprobe.store.npy import open_npy

    path = Path(name)
    return load_file(path, as_dumped=as_dumped) if as_dumped or path.suffix == ".pt" else open_npy(path)
