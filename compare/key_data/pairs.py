"""Key data of two runs: paired by tag, step, rank, micro step and id, measured element by element, judged.

The number in a file's name that a graph saved counts all saves of its process and differs between runs. The order of
the saves under one name does not: it begins the id of those.

The columns of the sheet have definitions of their own, those of the older tool. For elements a and b:

| number | formula |
|---|---|
| same | a = b; NaN and NaN are the same, so are infinities of one sign, and -0.0 and 0.0 |
| absolute | abs(a - b) |
| relative | abs(a - b) / max(abs(a), abs(b)), between 0 and 2; 0 where both are 0 |
| within t | abs(a - b) <= t max(abs(a), abs(b)) |

Integers and booleans are subtracted exactly, whatever their widths and signs. Pairs of float32 are computed in float32
(whose roundings the older tool prints), wherever the difference has room there; float16 as float32; everything else in
float64 or the complex number of the two. Where NaN or an infinity stands on one side only, or two infinities differ,
the element is in no share, and the greatest errors are NaN (with a NaN there) or infinite.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import logger, once
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.standard import family, standard_of
from msprobe.compare.judge.verdict import PASS, Cause, Verdict, judge_measures, unjudged
from msprobe.compare.measure.tensors import measure as measure_for_judging
from msprobe.store.layout import DATA
from msprobe.store.npy import NpyFile, examine, open_npy, open_tensor
from msprobe.store.reader import tensor_file
from msprobe.store.saves.graph_saves import Saved, is_indexed
from msprobe.store.saves.single_saves import SingleTree, ValueFolder, saves_at, single_tree

Part: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Key:
    """Where in a run a tensor was saved. Two runs' tensors with one key belong together."""

    tag: str
    step: int
    rank: int
    micro_step: int
    id: tuple[Part, ...]
    """`(0,)` for a single tensor, `(3,)` or `("key",)` for one of a list or dict; order, then path, out of a graph."""

    def order(self) -> tuple[object, ...]:
        """What the rows of a sheet are sorted by: numbers as numbers, and before texts."""
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.id)
        return self.tag, self.step, self.rank, self.micro_step, parts


def files_by_key(spot: ValueFolder, *, by_index: bool) -> Iterator[tuple[Key, str]]:
    """Every file of a spot with its key. Saves of an index without a file are logged."""
    files = set(spot.folder.files)
    saves = saves_at(spot, by_index=by_index)
    here = [saved for saved in saves if saved.record.file in files]
    if len(here) < len(saves):
        told = f"{spot.folder.path}: {len(saves) - len(here)} saves of its index have no file there and are left out"
        once(told, told)
    for saved in here:
        yield Key(spot.tag, spot.step, spot.rank, spot.micro_step or 0, _id(saved, spot)), saved.record.file


def _id(saved: Saved, spot: ValueFolder) -> tuple[Part, ...]:
    path = tuple(map(_part, saved.record.path))
    if spot.is_of_graph:
        return (saved.number, *((saved.name,) if saved.name != spot.key else ()), *path)
    # Under another name only a number is an id: two runs may use two names.
    return path if path and (saved.name == spot.key or isinstance(path[0], int)) else (0,)


def _part(text: str) -> Part:
    """A number as a number, if it is written as one writes it: `3`, not `03`."""
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor of the target (the first tree) with the golden's (the second); either may be missing, never both."""

    key: Key
    target: Path | None
    golden: Path | None


def find(root: Path) -> SingleTree:
    """Look through `root/data`, links to folders included, and log what in it is no key data.

    UsageError where it is missing or cannot be read.
    """
    if not (root / DATA).is_dir():
        raise UsageError(
            f"{root} has no folder data; give the folder that holds it, which is the dump_path of the run that saved "
            "the key data. What `save` left in a save_dir of its own is compared by `msprobe compare`"
        )
    try:
        tree = single_tree(root / DATA, follow=True)
    except DumpError as err:
        raise UsageError(str(err)) from err
    if tree.strangers:
        logger.warning(
            "%s: %d npy files do not stand in data/<tag>/step<n>/rank<n>/ and are not compared, such as %s",
            tree.data,
            len(tree.strangers),
            tree.strangers[0],
        )
    return tree


def pair(target: SingleTree, golden: SingleTree) -> list[Pair]:
    """Every file of both trees once, sorted by tag, step, rank, micro step and id."""
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
    """The spots of one micro step: those beside the folders of micro steps count as of the first one."""
    found: dict[tuple[object, ...], list[ValueFolder]] = defaultdict(list)
    for spot in tree.spots:
        found[spot.tag, spot.step, spot.rank, spot.micro_step or 0].append(spot)
    return found


def _by_key(spots: Sequence[ValueFolder], by_index: bool) -> dict[Key, dict[str, Path]]:
    """The files of each key, usually one, by their paths in the tree."""
    found: dict[Key, dict[str, Path]] = defaultdict(dict)
    for spot in spots:
        for key, file in files_by_key(spot, by_index=by_index):
            found[key][f"{spot.inside}/{file}"] = spot.folder.path / file
    return found


def _join(target: dict[str, Path], golden: dict[str, Path]) -> Iterator[tuple[Path | None, Path | None]]:
    """The files of one key: equal paths belong together, the rest by their order."""
    if len(target) == len(golden) == 1:
        yield from zip(target.values(), golden.values(), strict=True)
        return
    for inside in sorted(target.keys() & golden.keys()):
        yield target[inside], golden[inside]
    left = [path for inside, path in target.items() if inside not in golden]
    right = [path for inside, path in golden.items() if inside not in target]
    yield from zip_longest(left, right)


Array = np.ndarray[Any, Any]
Tensor: TypeAlias = Array | NpyFile

BLOCK = 1 << 16  # elements; what is made of a block stays in the processor's cache

_EXACT = 1 << 53  # what a cell can hold exactly


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of one pair. `first` is the flat index, in C order, of the first element that differs, or -1."""

    size: int
    same: int
    first: int
    max_absolute: float
    max_relative: float
    within_1e_3: int
    within_1e_2: int


def measure(target: Tensor, golden: Tensor) -> Found:
    """Measure two tensors of one shape, arrays of any layout or open npy files, block by block.

    Nothing is copied whole. DumpError where a file cannot be read.
    """
    same = within_1e_3 = within_1e_2 = 0
    first = -1
    absolute = relative = 0.0
    for start in range(0, target.size, BLOCK):
        t, g = _operands(*(_part_of(side, start, start + BLOCK) for side in (target, golden)))
        alike = t == g
        if t.dtype.kind in "fc" and not alike.all():
            alike |= (t != t) & (g != g)
        count = int(np.count_nonzero(alike))
        same += count
        if count == alike.size:
            continue
        differs = ~alike
        if first < 0:
            first = start + int(np.argmax(differs))
        found = _differing(t[differs], g[differs])
        absolute, relative = _greater(absolute, found[0]), _greater(relative, found[1])
        within_1e_3 += found[2]
        within_1e_2 += found[3]
    return Found(target.size, same, first, absolute, relative, same + within_1e_3, same + within_1e_2)


def _part_of(side: Tensor, start: int, stop: int) -> Array:
    """Elements in C order, in native byte order."""
    if not isinstance(side, np.ndarray):
        part = side.part(start, min(stop, side.size))
    elif side.flags.c_contiguous:
        part = side.reshape(-1)[start:stop]
    else:
        part = side.flat[start:stop]  # a copy of these elements alone, whatever the layout
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _operands(t: Array, g: Array) -> tuple[Array, Array]:
    """Both sides in one dtype that can be subtracted."""
    if t.dtype.kind in "bui" and g.dtype.kind in "bui":
        common: np.dtype[Any] = np.dtype(np.int64)
        if t.dtype.kind == g.dtype.kind == "u":
            common = np.dtype(np.uint64)
        elif np.uint64 in (t.dtype, g.dtype):  # no integer of 64 bits holds both: Python's do
            common = np.dtype(object)
    else:
        common = np.result_type(t, g)
        if common == np.float16:
            common = np.dtype(np.float32)
    return t.astype(common, copy=False), g.astype(common, copy=False)


def _differing(t: Array, g: Array) -> tuple[float, float, int, int]:
    """Greatest absolute and relative error of elements that are not the same; how many are within 1e-3, and 1e-2."""
    if t.dtype.kind in "uiO":
        distance, size = _integers(t, g)
        exact = int(distance.max())
        distance, size = distance.astype(np.float64), size.astype(np.float64)
        return exact if exact <= _EXACT else float(exact), *_shares(distance / size, distance, size)
    with np.errstate(all="ignore"):  # overflows and infinities are looked for
        distance, size = np.abs(t - g), np.maximum(np.abs(t), np.abs(g))
        finite = np.isfinite(size)
        if not finite.all():
            worst = math.nan if np.isnan(distance[~finite]).any() else math.inf
            return worst, worst, *(_differing(t[finite], g[finite])[2:] if finite.any() else (0, 0))
        greatest = float(distance.max())
        ratio = distance / size
        if math.isinf(greatest):
            wide = np.dtype(np.complex128 if t.dtype.kind == "c" else np.float64)
            if t.dtype.itemsize < wide.itemsize:
                return _differing(t.astype(wide), g.astype(wide))
            ratio = np.abs(t / size - g / size)  # float64 has no room for the difference, but for the ratio
        return greatest, *_shares(ratio, distance, size)


def _integers(t: Array, g: Array) -> tuple[Array, Array]:
    """abs(t - g) and max(abs(t), abs(g)), exactly."""
    if t.dtype == object:
        return np.abs(t - g), np.maximum(np.abs(t), np.abs(g))
    # Modulo 2^64 the greater minus the smaller is their distance, also of int64 whose difference int64 cannot hold;
    # likewise the absolute value of -2^63.
    distance = np.maximum(t, g).view(np.uint64) - np.minimum(t, g).view(np.uint64)
    return distance, np.maximum(np.abs(t).view(np.uint64), np.abs(g).view(np.uint64))


def _shares(ratio: Array, distance: Array, size: Array) -> tuple[float, int, int]:
    near, nearly = (int(np.count_nonzero(distance <= size * limit)) for limit in (0.001, 0.01))
    return float(ratio.max()), near, nearly


def _greater(a: float, b: float) -> float:
    """The greater of two, NaN being greater than everything."""
    return a if a != a or a >= b else b


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one pair; `found` is None where nothing could be measured, a shape where there is no file."""

    key: Key
    target_shape: tuple[int, ...] | None
    golden_shape: tuple[int, ...] | None
    found: Found | None
    verdict: Verdict


def judge_all(pairs: Sequence[Pair]) -> list[Row]:
    """One row per pair, in their order: the task of a worker process."""
    return [judge(pair) for pair in pairs]


def judge(pair: Pair) -> Row:
    """The row of one pair, `unjudged` where a side is missing or cannot be read."""
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
    except Exception as err:  # one pair that fails, for whatever reason, is one row; the others go on
        reason = Reason(Why.FAILED, name=str(err) or type(err).__name__, names=(str(pair.target), str(pair.golden)))
        return Row(pair.key, *shapes, None, unjudged(Cause.FAILED, reason))


def lost(pair: Pair, how: str) -> Row:
    """The row of a pair whose worker processes died over it; `how` is a sentence."""
    reason = Reason(Why.PROCESS_DIED, name=how.removesuffix("."), names=(str(pair.target), str(pair.golden)))
    return Row(pair.key, None, None, None, unjudged(Cause.FAILED, reason))


def size_of(pair: Pair) -> int:
    """Bytes to be read for a pair, as far as the disk tells."""
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


def _compared(target: Tensor, golden: Tensor) -> tuple[Found | None, Verdict]:
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
    found, verdict = measure(target, golden), PASS
    if found.same < found.size:
        # The standard of the coarser dtype: nobody can ask for digits that one side never had.
        standard = max(map(standard_of, dtypes), key=lambda one: one.relative)
        verdict = judge_measures(measure_for_judging(target, golden, standard), standard, target.shape)
    return found, Verdict("error" if is_error else verdict.grade, (*remarks, *verdict.reasons))


def _mapped(tensor: Tensor) -> Array:
    """A tensor of which any part can be had without the whole."""
    if isinstance(tensor, np.ndarray):
        return tensor
    with open_tensor(tensor.path) as file:
        return np.memmap(file, tensor.dtype, "r", examine(tensor.path).offset, tensor.shape).view(np.ndarray)


def _common(target: Array, golden: Array) -> tuple[Array, Array]:
    """Both cut to the common minimum of each axis; flattened first where they differ in the number of axes."""
    if target.ndim != golden.ndim:
        target, golden = target.reshape(-1), golden.reshape(-1)
    cut = tuple(slice(min(lengths)) for lengths in zip(target.shape, golden.shape, strict=True))
    return target[cut], golden[cut]
