"""Key data of two runs: paired by tag, step, rank, micro step and id, measured element by element, judged.

The number in the name of a file that a graph saved counts all saves of its process and differs between runs. The order
of the saves under one name does not: it is the first part of their id.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

import numpy as np

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import log_once, logger
from msprobe.compare.core.reason import Cause, Reason, Why
from msprobe.compare.core.standard import coarser_standard, family
from msprobe.compare.judge.verdict import PASS, Verdict, judge_measures, unjudged
from msprobe.compare.measure.symmetric import SymmetricMeasures, measure_symmetric
from msprobe.compare.measure.tensors import Array, Tensor, measure
from msprobe.store.layout import DATA
from msprobe.store.npy import examine, open_npy, open_tensor
from msprobe.store.reader import tensor_file
from msprobe.store.saves.graph_saves import Saved, is_indexed
from msprobe.store.saves.single_saves import SingleTree, ValueFolder, saves_at, single_tree

Part: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Key:
    """The place in a run at which a tensor was saved. Tensors of two runs with one key correspond."""

    tag: str
    step: int
    rank: int
    micro_step: int
    id: tuple[Part, ...]
    """`(0,)` for a single tensor, `(3,)` or `("key",)` for one of a list or dict; order, then path, out of a graph."""

    def order(self) -> tuple[object, ...]:
        """Return the sort key of the rows of a sheet: numbers as numbers, before texts."""
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.id)
        return self.tag, self.step, self.rank, self.micro_step, parts


def files_by_key(spot: ValueFolder, *, by_index: bool) -> Iterator[tuple[Key, str]]:
    """Yield every file of a spot with its key. Saves of an index without a file are logged."""
    files = set(spot.folder.files)
    saves = saves_at(spot, by_index=by_index)
    here = [saved for saved in saves if saved.record.file in files]
    if len(here) < len(saves):
        text = f"{spot.folder.path}: {len(saves) - len(here)} saves in its index have no file and are skipped"
        log_once(text, text)
    for saved in here:
        yield Key(spot.tag, spot.step, spot.rank, spot.micro_step or 0, _id(saved, spot)), saved.record.file


def _id(saved: Saved, spot: ValueFolder) -> tuple[Part, ...]:
    path = tuple(map(_part, saved.record.path))
    if spot.is_of_graph:
        return (saved.number, *((saved.name,) if saved.name != spot.key else ()), *path)
    # With another name, only a number is an id: two runs may use two names.
    return path if path and (saved.name == spot.key or isinstance(path[0], int)) else (0,)


def _part(text: str) -> Part:
    """Return a number as a number, if it is written in the usual form: `3`, not `03`."""
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor of the target (the first tree) with the golden's (the second); one of them may be missing."""

    key: Key
    target: Path | None
    golden: Path | None


def find(root: Path) -> SingleTree:
    """Find the files in `root/data`, including links to folders, and log others.

    Raise a UsageError if it is missing or cannot be read.
    """
    if not (root / DATA).is_dir():
        raise UsageError(
            f"{root} has no folder data; give the dump_path of the run that saved the key data. To compare files "
            "written by `save` to a separate save_dir, use `msprobe compare`"
        )
    try:
        tree = single_tree(root / DATA, follow=True)
    except DumpError as err:
        raise UsageError(str(err)) from err
    if tree.strangers:
        logger.warning(
            "%s: %d npy files are not in data/<tag>/step<n>/rank<n>/ and are not compared, such as %s",
            tree.data,
            len(tree.strangers),
            tree.strangers[0],
        )
    return tree


def pair(target: SingleTree, golden: SingleTree) -> list[Pair]:
    """Return every file of both trees once, sorted by tag, step, rank, micro step and id."""
    found: list[Pair] = []
    left, right = _by_place(target), _by_place(golden)
    for place in left.keys() | right.keys():
        spots = left.get(place, []), right.get(place, [])
        by_index = all(is_indexed(spot.folder) for side in spots for spot in side)
        ours, theirs = (_by_key(side, by_index) for side in spots)
        for key in ours.keys() | theirs.keys():
            found += [Pair(key, *both) for both in _join(ours.get(key, {}), theirs.get(key, {}))]
    return sorted(found, key=lambda pair: pair.key.order())


def _by_place(tree: SingleTree) -> dict[tuple[object, ...], list[ValueFolder]]:
    """Return the spots of one micro step: those next to the folders of micro steps belong to the first one."""
    found: dict[tuple[object, ...], list[ValueFolder]] = defaultdict(list)
    for spot in tree.spots:
        found[spot.tag, spot.step, spot.rank, spot.micro_step or 0].append(spot)
    return found


def _by_key(spots: Sequence[ValueFolder], by_index: bool) -> dict[Key, dict[str, Path]]:
    """Return the files of each key, usually one, by their paths in the tree."""
    found: dict[Key, dict[str, Path]] = defaultdict(dict)
    for spot in spots:
        for key, file in files_by_key(spot, by_index=by_index):
            found[key][f"{spot.inside}/{file}"] = spot.folder.path / file
    return found


def _join(target: dict[str, Path], golden: dict[str, Path]) -> Iterator[tuple[Path | None, Path | None]]:
    """Yield the files of one key: equal paths correspond, the others by their order."""
    if len(target) == len(golden) == 1:
        yield from zip(target.values(), golden.values(), strict=True)
        return
    for inside in sorted(target.keys() & golden.keys()):
        yield target[inside], golden[inside]
    left = [path for inside, path in target.items() if inside not in golden]
    right = [path for inside, path in golden.items() if inside not in target]
    yield from zip_longest(left, right)


@dataclass(frozen=True, slots=True)
class Row:
    """The result for one pair; `found` is None without measures, a shape is None if there is no file."""

    key: Key
    target_shape: tuple[int, ...] | None
    golden_shape: tuple[int, ...] | None
    found: SymmetricMeasures | None
    verdict: Verdict


def judge_all(pairs: Sequence[Pair]) -> list[Row]:
    """Return one row per pair, in their order: the task of a worker process."""
    return [judge(pair) for pair in pairs]


def judge(pair: Pair) -> Row:
    """Return the row of one pair, `unjudged` if a side is missing or cannot be read."""
    problems: list[Reason] = []
    target, golden = (_opened(path, problems) for path in (pair.target, pair.golden))
    shapes = None if target is None else target.shape, None if golden is None else golden.shape
    if pair.target is None or pair.golden is None:
        side = "target" if pair.target else "golden"
        problems.insert(0, Reason(Why.ONE_SIDE_FILE, side, str(pair.target or pair.golden)))
    if target is None or golden is None:
        cause = Cause.UNREADABLE if pair.target and pair.golden else Cause.UNMATCHED
        return Row(pair.key, *shapes, None, unjudged(cause, *problems))
    try:
        return Row(pair.key, *shapes, *_compared(target, golden))
    except Exception as err:  # a pair that fails, for any reason, is one row; the others continue
        reason = Reason(Why.FAILED, name=str(err) or type(err).__name__, names=(str(pair.target), str(pair.golden)))
        return Row(pair.key, *shapes, None, unjudged(Cause.FAILED, reason))


def lost(pair: Pair, how: str) -> Row:
    """Return the row of a pair whose worker processes died; `how` is a sentence."""
    reason = Reason(Why.PROCESS_DIED, name=how.removesuffix("."), names=(str(pair.target), str(pair.golden)))
    return Row(pair.key, None, None, None, unjudged(Cause.FAILED, reason))


def size_of(pair: Pair) -> int:
    """Return the number of bytes to read for a pair, as far as the file system shows."""
    total = 0
    for path in (pair.target, pair.golden):
        try:
            total += path.stat().st_size if path else 0
        except OSError:  # reported when it is judged
            continue
    return total


def _opened(path: Path | None, problems: list[Reason]) -> Tensor | None:
    try:
        return open_npy(tensor_file(path.parent, path.name, "")) if path else None
    except (DumpError, OSError) as err:
        problems.append(Reason(Why.UNREADABLE, name=str(err)))
        return None


def _compared(target: Tensor, golden: Tensor) -> tuple[SymmetricMeasures | None, Verdict]:
    remarks: list[Reason] = []
    dtypes, shapes = (str(target.dtype), str(golden.dtype)), (target.shape, golden.shape)
    is_error = shapes[0] != shapes[1]
    if is_error:
        target, golden = _common(_mapped(target), _mapped(golden))
        why = Why.SHAPES_CUT if len(shapes[0]) == len(shapes[1]) else Why.SHAPES_FLATTENED
        remarks.append(Reason(why, target=shapes[0], golden=shapes[1], at=target.shape))
        if target.size == 0:
            return None, Verdict("error", (*remarks, Reason(Why.NO_COMMON_ELEMENT)))
    if target.dtype != golden.dtype:
        remarks.append(Reason(Why.DTYPES, target=dtypes[0], golden=dtypes[1]))
        is_error = is_error or family(dtypes[0]) != family(dtypes[1])
    found, verdict = measure_symmetric(target, golden), PASS
    if found.same < found.size:
        standard = coarser_standard(*dtypes)
        verdict = judge_measures(measure(target, golden, standard), standard, target.shape)
    return found, Verdict("error" if is_error else verdict.grade, (*remarks, *verdict.reasons))


def _mapped(tensor: Tensor) -> Array:
    """Return a tensor whose parts can be read separately."""
    if isinstance(tensor, np.ndarray):
        return tensor
    with open_tensor(tensor.path) as file:
        return np.memmap(file, tensor.dtype, "r", examine(tensor.path).offset, tensor.shape).view(np.ndarray)


def _common(target: Array, golden: Array) -> tuple[Array, Array]:
    """Return both cut to the common minimum of each axis; flattened first if their numbers of axes differ."""
    if target.ndim != golden.ndim:
        target, golden = target.reshape(-1), golden.reshape(-1)
    cut = tuple(slice(min(lengths)) for lengths in zip(target.shape, golden.shape, strict=True))
    return target[cut], golden[cut]
