"""Recognize parameters that have other names on the two sides: by their values, then by the layer that they are in.

A model that was ported with other names (`blocks.0.norm1.gamma`, `h.0.ln_1.weight`) mostly has equal weights, each of
which identifies its layer. Parameters that differ in such a layer, or in the same layer of another block, are then
found by their place. Nothing is paired by similarity: values are bitwise equal, and occur only once on each side.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, TypeAlias

import numpy as np

from msprobe.base.errors import DumpError, MappingError
from msprobe.mapping.transform import IDENTITY, Transform, parse

from .formats import Array, Parameter

FoundBy = Literal["", "equal values", "its layer", "what is left"]

TRANSPOSED = parse("transpose(1, 0)")


@dataclass(frozen=True, slots=True)
class Place:
    """A name that a parameter may have in PyTorch, and the transform into PyTorch's layout."""

    name: str
    transform: Transform = IDENTITY

    @property
    def owner(self) -> str:
        """Return the layer's path."""
        return self.name.rpartition(".")[0]

    @property
    def own(self) -> str:
        """Return the parameter's name in its layer."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Recognized:
    """Two names of one parameter, its place in PyTorch on each side, and how it was recognized."""

    target: str
    golden: str
    of_target: Place
    of_golden: Place
    found_by: FoundBy


@dataclass
class _Side:
    """The parameters of one side without a counterpart so far, and the possible places of each, best first."""

    free: dict[str, Parameter]
    places: Mapping[str, tuple[Place, ...]]


_Path: TypeAlias = tuple[str, ...]


class _Layers:
    """The corresponding layers of target and golden by the pairs so far.

    In a path `blocks.1.norm1`, `blocks.1` is a block and `.norm1` the rest. A rest that was paired in one block is
    known in the others, as soon as the blocks are paired: their numbers may differ if a block is missing. A layer with
    several counterparts, on either side, has none.
    """

    def __init__(self) -> None:
        self._partners: dict[_Path, set[_Path]] = defaultdict(set)
        self._back: dict[_Path, set[_Path]] = defaultdict(set)

    def learn(self, target: str, golden: str) -> None:
        """Add a pair of layers."""
        self._enter(("layer", target), ("layer", golden))
        for (block, rest), (golden_block, golden_rest) in zip(_cuts(target), _cuts(golden), strict=False):
            self._enter(("block", block), ("block", golden_block))
            self._enter(("rest", rest, _pattern(block)), ("rest", golden_rest, _pattern(golden_block)))

    def _enter(self, target: _Path, golden: _Path) -> None:
        self._partners[target].add(golden)
        self._back[golden].add(target)

    def of(self, owner: str) -> str | None:
        """Return the golden's layer; None if it is unknown, or the pairs so far contradict each other."""
        if ("layer", owner) in self._partners:
            return next((name for _, name in self._one(("layer", owner))), None)
        for block, rest in _cuts(owner):
            for _, golden_block in self._one(("block", block)):
                for _, golden_rest, pattern in self._one(("rest", rest, _pattern(block))):
                    if pattern == _pattern(golden_block):
                        return golden_block + golden_rest
        return None

    def _one(self, target: _Path) -> set[_Path]:
        """Return the one counterpart, if it is unique on both sides; otherwise nothing."""
        found = self._partners.get(target, set())
        return found if len(found) == 1 and all(len(self._back[golden]) == 1 for golden in found) else set()


def _cuts(owner: str) -> Iterator[tuple[str, str]]:
    """Yield a path split after each of its numbers, the last first."""
    parts = owner.split(".")
    for at in range(len(parts), 0, -1):
        if parts[at - 1].isdecimal():
            yield ".".join(parts[:at]), "".join(f".{part}" for part in parts[at:])


def _pattern(block: str) -> str:
    return ".".join("#" if part.isdecimal() else part for part in block.split("."))


def recognize(
    target: Mapping[str, Parameter],
    golden: Mapping[str, Parameter],
    places: Mapping[str, tuple[Place, ...]],
    golden_places: Mapping[str, tuple[Place, ...]],
) -> list[Recognized]:
    """Return pairs among the parameters that were not paired by names; each side's elements are read once."""
    sides = _Side(dict(target), places), _Side(dict(golden), golden_places)
    layers = _Layers()
    found: list[Recognized] = []

    def take(pair: Recognized) -> None:
        found.append(pair)
        del sides[0].free[pair.target], sides[1].free[pair.golden]

    for pair in list(_by_values(*sides)):
        take(pair)
        if pair.of_target.own == pair.of_golden.own:
            layers.learn(pair.of_target.owner, pair.of_golden.owner)
    for name in list(sides[0].free):
        if partner := _by_layer(name, *sides, layers):
            take(partner)
    for pair in list(_only_remaining(*sides)) if found else ():
        take(pair)
    return found


def _by_values(target: _Side, golden: _Side) -> Iterator[Recognized]:
    shapes = [Counter(tuple(sorted(one.shape)) for one in side.free.values()) for side in (target, golden)]
    common = {_without_ones(shape) for shape in shapes[0]} & {_without_ones(shape) for shape in shapes[1]}
    known, golden_known = (_digests(side, common) for side in (target, golden))
    done: set[str] = set()
    for digest, names in known.items():
        partners = golden_known.get(digest, {})
        if len(names) != 1 or len(partners) != 1:
            continue
        (name, ours), (partner, theirs) = *names.items(), *partners.items()
        if name in done or partner in done:
            continue
        done |= {name, partner}
        yield _pair(name, partner, ours, theirs, "equal values")


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def _digests(side: _Side, common: set[tuple[int, ...]]) -> dict[bytes, dict[str, tuple[Place, ...]]]:
    """Return by digest of the elements in PyTorch's layout the names, and the places at which they have that layout.

    A matrix is also identified by its transpose, which a port may have omitted or added.
    """
    found: dict[bytes, dict[str, tuple[Place, ...]]] = {}
    for name, one in side.free.items():
        if one.size < 2 or _without_ones(tuple(sorted(one.shape))) not in common:
            continue
        array = distinctive_elements(one)
        if array is None or array.dtype.kind not in "fc":
            continue
        for place in side.places[name]:
            try:
                laid = place.transform(array)
            except MappingError:
                continue
            for version in (laid, TRANSPOSED(laid)) if laid.ndim == 2 else (laid,):
                at = found.setdefault(digest(version), {})
                at[name] = (*at.get(name, ()), place)
    return found


def distinctive_elements(one: Parameter) -> Array | None:
    """Return the elements of a parameter; None if they are all equal (ones and zeros are in many layers) or
    unreadable."""
    try:
        array = one.load()
    except DumpError:
        return None  # reported when it is judged
    return array if array.size and not (array == array.flat[0]).all() else None


def digest(array: Array) -> bytes:
    """Return a digest of shape and elements."""
    made = blake2b(repr(array.shape).encode(), digest_size=16)
    made.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return made.digest()


def _pair(name: str, partner: str, ours: Iterable[Place], theirs: Iterable[Place], found_by: FoundBy) -> Recognized:
    """Return a pair with the first two places that agree on the parameter's own name; with the first of each if none
    do."""
    ours, theirs = list(ours), list(theirs)
    agreed = ((a, b) for a in ours for b in theirs if a.own == b.own)
    of_target, of_golden = next(agreed, (ours[0], theirs[0]))
    return Recognized(name, partner, of_target, of_golden, found_by)


def _by_layer(name: str, target: _Side, golden: _Side, layers: _Layers) -> Recognized | None:
    for place in target.places[name]:
        owner = layers.of(place.owner)
        for partner in golden.free if owner is not None else ():
            for at in golden.places[partner]:
                if (at.owner, at.own) == (owner, place.own):
                    return Recognized(name, partner, place, at, "its layer")
    return None


def _only_remaining(target: _Side, golden: _Side) -> Iterator[Recognized]:
    """Yield the remaining ones, if both sides have one each of the same kind: own name, as in PyTorch, and shape."""
    ours, theirs = (
        [((side.places[name][0].own, one.shape), name) for name, one in side.free.items()] for side in (target, golden)
    )
    partners = dict(theirs)
    if len(dict(ours)) == len(ours) and len(partners) == len(theirs) and dict(ours).keys() == partners.keys():
        for kind, name in ours:
            yield _pair(name, partners[kind], target.places[name], golden.places[partners[kind]], "what is left")
