"""Both sides of one job, read alike: what one of them does not have must not be what tells their names apart."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.compare.request import Request
from msprobe.store.find import find
from msprobe.store.record import Call, Dump

from .sides import Source

_WORTH_WORKERS = 6 << 20
"""Bytes of a dump.json that are read before another process would have started."""


def read_both(target: Source, golden: Source, request: Request, workers: int = 1) -> tuple[Dump, Dump]:
    """Target and golden of one job, by so many processes (0: as many as cores). DumpError where one cannot be read."""
    if target.family == "kernels":
        from msprobe.store.kernel_files import read_kernels

        left, right = (read_kernels(side.paths, side.rank, side.step) for side in (target, golden))
    elif target.family == "saves":
        from msprobe.store.saved_trees import is_indexed, read_saves

        by_index = all(is_indexed(side.paths[0]) for side in (target, golden))
        left, right = (read_saves(side.paths[0], side.step, side.rank, by_index=by_index) for side in (target, golden))
    elif target.family == "single saves":
        from msprobe.store.saved_trees import is_indexed
        from msprobe.store.single_trees import read_single

        by_index = all(is_indexed(path) for side in (target, golden) for path in side.paths)
        left, right = (read_single(side.paths, side.step, side.rank, by_index=by_index) for side in (target, golden))
    elif target.family == "npy":
        from msprobe.store.npy_trees import names_of, read_npys

        left = read_npys(target.paths[0])
        # The target's names are the table's; what the golden calls otherwise is called back.
        ours = {golden_name: name for name, golden_name in reversed(request.names)}
        right = read_npys(golden.paths[0], ours, names_of(left))
    else:
        left, right = _dumps((target.paths[0], request.stack_file), (golden.paths[0], None), workers)
    if target.family in ("saves", "single saves", "npy"):
        right = replace(right, calls=_in_order_of(left.calls, right.calls))
    return left, right


Named = tuple[Path, Path | None]
"""A dump, and the stack.json that belongs to it where that lies elsewhere."""


def _dumps(target: Named, golden: Named, workers: int) -> tuple[Dump, Dump]:
    """Two dumps with calls; large ones side by side, because columns cross from process to process in no time."""
    from msprobe.compare.workers.cores import cores
    from msprobe.compare.workers.run import Lost, run

    if (workers or cores()) < 2 or min(_size(path) for path, _ in (target, golden)) < _WORTH_WORKERS:
        return _dump(target), _dump(golden)
    found = dict(run(_dump, (target, golden), workers=2))
    for at, (path, _) in enumerate((target, golden)):
        if isinstance(lost := found[at], Lost):
            raise DumpError(f"{path}: could not be read: {lost.reason}")
    return found[0], found[1]  # type: ignore[return-value]  # nothing was lost


def _dump(named: Named) -> Dump:
    from msprobe.store.read import read

    return read(named[0], stack=named[1])


def _size(path: Path) -> int:
    """Bytes of the file that a path means; 0 where it means none, which reading will say."""
    try:
        return find(path).stat().st_size
    except (DumpError, OSError):
        return 0


def _in_order_of(ours: Sequence[Call], theirs: Sequence[Call]) -> tuple[Call, ...]:
    """The golden's saves in the target's order, those that only the golden has behind their neighbour.

    A save is known by its name and count. The files of one run are numbered as they are written, which two runs need
    not do in one order; and files of another name sort elsewhere.
    """
    place = {call.name: at for at, call in enumerate(ours)}
    last = -1
    keys = []
    for at, call in enumerate(theirs):
        last = place.get(call.name, last)
        keys.append((last, call.name not in place, at))
    return tuple(theirs[at] for _, _, at in sorted(keys))
