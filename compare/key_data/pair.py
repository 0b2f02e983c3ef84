"""The files of two trees, found and joined by key. What stands on one side only is a pair too."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import logger
from msprobe.store.layout import DATA
from msprobe.store.saved_trees import is_indexed
from msprobe.store.single_trees import SingleTree, Spot, single_tree

from .key import Key, files_by_key

Files: TypeAlias = dict[str, Path]
"""The files of one key by their paths in the tree, usually one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor of the target (the first tree) with the golden's (the second); either may be missing, never both."""

    key: Key
    target: Path | None
    golden: Path | None


def find(root: Path) -> SingleTree:
    """Look through `root/data`, links to folders included, and say what in it is no key data.

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


def _by_place(tree: SingleTree) -> dict[tuple[object, ...], list[Spot]]:
    """The spots of one micro step: those beside the folders of micro steps count as of the first one."""
    found: dict[tuple[object, ...], list[Spot]] = defaultdict(list)
    for spot in tree.spots:
        found[spot.tag, spot.step, spot.rank, spot.micro_step or 0].append(spot)
    return found


def _by_key(spots: Sequence[Spot], by_index: bool) -> dict[Key, Files]:
    found: dict[Key, Files] = defaultdict(dict)
    for spot in spots:
        for key, file in files_by_key(spot, by_index=by_index):
            found[key][f"{spot.inside}/{file}"] = spot.folder.path / file
    return found


def _join(target: Files, golden: Files) -> Iterator[tuple[Path | None, Path | None]]:
    """The files of one key: equal paths belong together, the rest by their order."""
    if len(target) == len(golden) == 1:
        yield from zip(target.values(), golden.values(), strict=True)
        return
    for inside in sorted(target.keys() & golden.keys()):
        yield target[inside], golden[inside]
    left = [path for inside, path in target.items() if inside not in golden]
    right = [path for inside, path in golden.items() if inside not in target]
    yield from zip_longest(left, right)
