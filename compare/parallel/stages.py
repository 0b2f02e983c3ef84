"""Pipeline stages in sequence, as one process would have made their calls.

A stage counts its layers and its calls from 0. Virtual stages (chunk v of stage p has number v * stages + p) are put in
order: for every micro batch the forward of all in sequence, then the backward of all, last first. Layers and calls are
numbered again in that order. Micro batches are distinguished by the numbers of the outermost cells around the calls.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.base.names import Name, parse
from msprobe.compare.core.layouts import Layout

from .dumps import RankDump


class Segment(NamedTuple):
    """The position of a call in a step: micro batch, 0 or 1 for forward and backward, and the place of the stage."""

    micro: int
    phase: int
    turn: int


class Key(NamedTuple):
    """A key that is equal for one call in every layout of the model: its cell call, the function, and its number."""

    around: str
    what: str
    number: int


class Part(NamedTuple):
    """A call of a stage, by its name on that stage."""

    stage: int
    name: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A call of the whole model.

    `parts` are its calls on the stages, in order: several if a cell contains layers of several stages, so that it has
    its arguments on the first of them and its results on the last.
    """

    name: str
    key: Key
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Chain:
    """All calls of the model in order, the cells around them, and calls of several stages of which one is kept.

    `segments` are the positions of the parts; `exchanging` are the cells that exchange data among the ranks themselves,
    an empty text for the code around all cells.
    """

    calls: tuple[Placed, ...]
    parents: Mapping[str, str | None]
    segments: Mapping[Part, Segment]
    repeated: tuple[str, ...] = ()
    exchanging: frozenset[str] = frozenset()

    def names(self) -> dict[Part, str]:
        """Return the names in the whole model."""
        return {part: call.name for call in self.calls for part in call.parts}


def chain_of(
    stages: Sequence[RankDump],
    numbering: "Layers",
    dropped: Sequence[frozenset[str]],
    internal: Sequence[frozenset[str]],
) -> Chain:
    """Return the calls of all stages of one tensor parallel rank as one chain.

    `dropped` are the exchanges of each, which the model does not have, and `internal` the calls that the framework
    makes around modules to distribute it.
    """
    segments = {
        Part(stage, name): segment
        for stage, dump in enumerate(stages)
        for name, segment in _segments(dump, numbering, stage).items()
        if name not in dropped[stage] and name not in internal[stage]
    }
    parts = sorted(segments, key=segments.__getitem__)  # calls of one segment belong to one stage, and keep their order
    cells, repeated = _cells(parts, numbering)
    renamed = {part: name for name, each in cells.items() for part in each}
    around = {
        Part(stage, dump.construct.get(name) or "")
        for stage, dump in enumerate(stages)
        for name in dropped[stage] - internal[stage]
    }
    exchanging = frozenset(parse(renamed.get(part, "")).stem for part in around)
    chain = _named(parts, cells, renamed, repeated, stages, segments, numbering)
    return replace(chain, exchanging=exchanging)


def _order(dump: RankDump) -> Iterator[str]:
    """Return all calls in the order in which they began, then those that only have an entry."""
    yield from dump.construct
    yield from (name for name in dump.entries if name not in dump.construct)


def _cells(parts: Iterable[Part], numbering: "Layers") -> tuple[dict[str, list[Part]], dict[Part, str]]:
    """Return the calls of cells by their names in the whole model, and those that a later stage makes again."""
    found: dict[str, list[Part]] = {}
    repeated: dict[Part, str] = {}
    for part in parts:
        name = parse(part.name)
        if name.kind == "api":
            continue
        new = numbering.renamed(name, part.stage)
        if new in found and not numbering.holds_layers(name):
            repeated[part] = new
        else:
            found.setdefault(new, []).append(part)
    return found, repeated


def _named(
    parts: Iterable[Part],
    cells: Mapping[str, list[Part]],
    renamed: Mapping[Part, str],
    repeated: Mapping[Part, str],
    stages: Sequence[RankDump],
    segments: Mapping[Part, Segment],
    numbering: "Layers",
) -> Chain:
    copies = _Copies(stages)
    counts: Counter[str] = Counter()
    numbers: dict[tuple[int, str, int], int] = {}
    ordinals: Counter[tuple[str, str]] = Counter()
    made: dict[str, Placed] = {}
    parents: dict[str, str | None] = {}
    for part in parts:
        construct = stages[part.stage].construct
        around = list(_around(part.name, construct))
        if any(Part(part.stage, name) in repeated for name in (part.name, *around)):
            continue
        name = parse(part.name)
        if not around and name.kind == "api" and copies.has(part, name):
            continue
        parent = renamed.get(Part(part.stage, around[0])) if around else None
        if name.kind == "api":
            # A backward call has the number of its forward.
            call = part.stage, name.stem, name.number
            if call not in numbers:
                numbers[call] = counts[name.stem]
                counts[name.stem] += 1
            new = names.api_call(name.stem, numbers[call], name.direction)
            made[new] = Placed(new, _key(name, new, numbering.without_index(parent or ""), made, ordinals), (part,))
        else:
            new = renamed[part]
            made.setdefault(new, Placed(new, Key("", numbering.without_index(new), 0), tuple(cells[new])))
        if part.name in construct:
            parents.setdefault(new, parent)
    return Chain(tuple(made.values()), parents, segments, tuple(dict.fromkeys(repeated.values())))


class _Copies:
    """Finds the calls outside of cells that each stage makes although the model makes them once: reading the batch,
    creating masks.

    The n-th call with the same values is a copy of the n-th on another stage.
    """

    def __init__(self, stages: Sequence[RankDump]) -> None:
        self._stages = stages
        self._made: Counter[tuple[int, str]] = Counter()
        self._kept: Counter[str] = Counter()
        self._left: set[tuple[int, str, int]] = set()

    def has(self, part: Part, name: Name) -> bool:
        """Return whether a call is a copy of one on an earlier stage."""
        call = part.stage, name.stem, name.number
        if name.direction == "backward":
            return call in self._left
        entry = self._stages[part.stage].entries.get(part.name)
        if len(self._stages) == 1 or not isinstance(entry, dict):
            return False
        values = [entry.get(key) for key in ("input_args", "input_kwargs", "output")]
        what = json.dumps([name.stem, values], sort_keys=True)
        self._made[part.stage, what] += 1
        if self._made[part.stage, what] <= self._kept[what]:
            self._left.add(call)
            return True
        self._kept[what] += 1
        return False


def _key(name: Name, new: str, parent: str, made: Mapping[str, Placed], ordinals: "Counter[tuple[str, str]]") -> Key:
    """Return the key of a call: for cells the name; other calls are counted by kind inside the cell around them."""
    if name.direction == "backward" and (forward := made.get(names.counterpart(new, "forward"))):
        return Key(forward.key.around, f"{name.stem} backward", forward.key.number)
    what = f"{name.stem} {name.direction}"
    ordinals[parent, what] += 1
    return Key(parent, what, ordinals[parent, what] - 1)


def _around(name: str, construct: Mapping[str, str | None]) -> Iterator[str]:
    """Return the cells around a call, innermost first."""
    while (parent := construct.get(name)) is not None:
        yield parent
        name = parent


def _segments(dump: RankDump, numbering: "Layers", stage: int) -> dict[str, Segment]:
    """Return the segment of every call of a stage: that of the outermost cell around it, otherwise of its forward, or
    of the previous cell.

    Calls outside of cells after a backward prepare the next micro batch.
    """
    found: dict[str, Segment] = {}
    now = Segment(0, 0, numbering.turn(stage, 0, 0))
    waiting: list[str] = []
    for original in _order(dump):
        outermost = parse([original, *_around(original, dump.construct)][-1])
        if outermost.kind in ("cell", "parameters_grad"):
            phase = int(outermost.direction == "backward")
            found[original] = Segment(
                max(outermost.number, 0), phase, numbering.turn(stage, numbering.chunk(outermost), phase)
            )
            if outermost.kind == "cell":
                now = found[original]
                found |= dict.fromkeys(waiting, now)
                waiting.clear()
            continue
        twin = names.counterpart(original, "forward")
        if outermost.direction == "backward" and twin != original and twin in found:
            micro, _, turn = found[twin]
            found[original] = Segment(micro, 1, -turn)
        elif now.phase and outermost.direction == "forward":
            waiting.append(original)
        else:
            found[original] = now
    return found | dict.fromkeys(waiting, now)


class Layers:
    """The numbers of layers and chunks on all stages, and those in the whole model.

    If each stage counts the layers of a list from 0, their numbers are increased by the number of layers on earlier
    stages; otherwise the numbers are already those of the whole model. `is_indexed`: the names of cells begin with the
    number of a chunk, which is 0 in the whole model.
    """

    def __init__(self, stages: Sequence[RankDump], layout: Layout) -> None:
        """Find the numbers; raise a DumpError if chunks of virtual stages are indistinguishable."""
        self._stages, self._chunks = len(stages), layout.vpp
        paths = [[parse(name) for name in dump.construct] for dump in stages]
        cells = [name.path.split(".") for each in paths for name in each if name.kind == "cell"]
        firsts = {path[0] for path in cells if path}
        self.is_indexed = bool(firsts) and firsts <= {str(chunk) for chunk in range(layout.vpp)}
        if layout.vpp > 1 and (not self.is_indexed or len(firsts) < layout.vpp):
            raise DumpError(
                f"{stages[0].where}: the cells of {layout.vpp} chunks (--vpp {layout.vpp}) cannot be "
                "distinguished by a number at the beginning of their names; pass the list of chunks to start(), "
                "or give another --vpp"
            )
        held: dict[str, dict[int, set[int]]] = {}
        for stage, each in enumerate(paths):
            for name in each:
                if name.kind == "cell" and (found := self._layer(name)):
                    virtual = self.chunk(name) * self._stages + stage
                    held.setdefault(found[0], {}).setdefault(virtual, set()).add(found[1])
        self._is_written = self.is_indexed
        self._before = {container: _raised(by_stage) for container, by_stage in held.items()}

    def write_like(self, other: "Layers") -> None:
        """Add the number of a chunk to names if those of the other side have it."""
        self._is_written = other.is_indexed

    def without_index(self, name: str) -> str:
        """Return a name of the whole model without the number of a chunk."""
        first, _, rest = name.partition(".")
        return f"{first}.{rest.partition('.')[2]}" if name and self._is_written else name

    def chunk(self, name: Name) -> int:
        """Return the chunk of a cell."""
        return int(name.path.split(".")[0]) if self.is_indexed else 0

    def turn(self, stage: int, chunk: int, phase: int) -> int:
        """Return the position of a virtual stage in a micro batch: in backward, the last is first."""
        virtual = chunk * self._stages + stage
        return -virtual if phase else virtual

    def _layer(self, name: Name) -> tuple[str, int] | None:
        """Return the outermost list that contains a cell, and the element of it."""
        path = name.path.split(".")[int(self.is_indexed) :]
        at = next((at for at, word in enumerate(path) if word.isascii() and word.isdigit() and len(word) < 10), None)
        return None if at is None else (".".join(path[:at]), int(path[at]))

    def holds_layers(self, name: Name) -> bool:
        """Return whether a cell contains a list of layers that is distributed over the stages."""
        path = ".".join(name.path.split(".")[int(self.is_indexed) :])
        return any(shares and f"{container}.".startswith(f"{path}.") for container, shares in self._before.items())

    def renamed(self, name: Name, stage: int) -> str:
        """Return the name of a cell's call in the whole model."""
        if name.kind not in ("cell", "parameters_grad"):
            return name.text
        prefix, *path, kind = name.stem.split(".")
        index = ["0"] if self._is_written else []
        inner = path[int(self.is_indexed) :]
        if found := self._layer(name):
            before = self._before.get(found[0], {}).get(self.chunk(name) * self._stages + stage, 0)
            at = found[0].count(".") + 1 if found[0] else 0
            inner[at] = str(found[1] + before)
        return ".".join((prefix, *index, *inner, kind)) + name.text[len(name.stem) :]


def _raised(by_stage: Mapping[int, set[int]]) -> dict[int, int]:
    """Return by how much the numbers of each virtual stage are increased."""
    if any(min(numbers) for numbers in by_stage.values()):
        return {}
    found, before = {}, 0
    for virtual in sorted(by_stage):
        found[virtual] = before
        before += max(by_stage[virtual]) + 1
    return found
