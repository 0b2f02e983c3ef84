"""The keys by which a call is matched: its position, its inputs and outputs, its name.

Two calls are *alike* to some degree when their keys of that degree are equal:

- `look`: the same place, and records of the same paths, shapes and arguments;
- `form`: the same place, and records of the same paths and ranks (another batch size keeps the form);
- `place`: the same stem, direction and enclosing cell;
- `bare`: the same stem and direction, and records as for `look`, whatever the enclosing cell.

Dtypes are in none of them: a float16 run is compared with a float32 run call by call. Nor are values of tensors, which
are what is going to be compared.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby
from typing import Literal

from msprobe.base import names
from msprobe.base.names import Name
from msprobe.store.record import Call

_CELLS = ("cell", "parameters_grad")
_ROUND = re.compile(r"round[0-9]+")


class Side:
    """The calls of one dump with their keys; renamed cells and functions can be learned, so that keys say the golden's
    names."""

    def __init__(self, calls: Sequence[Call], has_parents: bool = True) -> None:
        self.calls = calls
        self.names = [names.parse(call.name) for call in calls]
        self.at = {call.name: i for i, call in enumerate(calls)}
        self.again = [call.is_recompute for call in calls]
        self.knows_again = False
        """Whether both dumps mark recomputations."""
        self._has_parents = has_parents
        self._renamed_paths: dict[str, str] = {}
        self._renamed_stems: dict[str, str] = {}
        self._stems: dict[tuple[bool, str], str] = {}
        self._places: dict[int, Hashable] = {}

    def __len__(self) -> int:
        return len(self.calls)

    def learn(self, mine: Name, theirs: Name) -> None:
        """From now on `mine` is called `theirs` here; what stands inside a renamed cell moves with it."""
        if mine.kind == "cell":
            self._renamed_paths.setdefault(mine.path, theirs.path)
        self._renamed_stems.setdefault(mine.stem, bare_stem(theirs))
        self._stems.clear()
        self._places.clear()

    def stem(self, i: int) -> str:
        """The stem of call i as the golden side would say it, a cell's without `Cell` or `Module`."""
        return self.stem_of(self.names[i])

    def stem_of(self, name: Name) -> str:
        """The stem of any call's name as the golden side would say it."""
        key = name.kind in _CELLS, name.stem
        if key not in self._stems:
            self._stems[key] = self._golden_stem(name)
        return self._stems[key]

    def parent_name(self, i: int) -> str | None:
        """The name of the enclosing cell's call, None at the root."""
        return self.calls[i].parent if self._has_parents else None

    def place(self, i: int) -> Hashable:
        """Stem, direction, enclosing cell, and whether it is a recomputation where both dumps mark those."""
        if i not in self._places:
            parent = self.parent_name(i)
            around = "" if parent is None else self.stem_of(names.parse(parent))
            again = self.knows_again and self.again[i]
            self._places[i] = self.stem(i), self.names[i].direction, around, again
        return self._places[i]

    def look(self, i: int) -> Hashable:
        """The place with the paths, shapes and arguments of the records."""
        return self.place(i), self.again[i], _contents(self.calls[i])

    def form(self, i: int) -> Hashable:
        """The place with the paths and ranks of the records."""
        records = self.calls[i].records
        ranks = [(r.part, r.path, r.kind, None if r.shape is None else len(r.shape)) for r in records]
        return self.place(i), tuple(ranks)

    def bare(self, i: int) -> Hashable:
        """Stem and direction with the paths, shapes and arguments of the records."""
        return self.stem(i), self.names[i].direction, self.again[i], _contents(self.calls[i])

    def named(self, i: int) -> Hashable:
        """The whole name; of an API, whose number alone says little, with its place."""
        call = self.calls[i]
        return identity(call.name), self.again[i], () if self.names[i].kind == "cell" else self.place(i)

    def forward_of(self, i: int) -> int | None:
        """The forward call of backward call i, where the dump holds it."""
        return self._in_direction(i, "forward")

    def backward_of(self, i: int) -> int | None:
        """The backward call of forward call i, where the dump holds it."""
        return self._in_direction(i, "backward")

    def _in_direction(self, i: int, direction: Literal["forward", "backward"]) -> int | None:
        name = self.names[i]
        if name.kind not in ("cell", "api") or name.direction == direction:
            return None
        return self.at.get(names.counterpart(name.text, direction))

    def _golden_stem(self, name: Name) -> str:
        if name.stem in self._renamed_stems:
            return self._renamed_stems[name.stem]
        stem = bare_stem(name)
        if not self._renamed_paths or name.kind not in _CELLS:
            return stem
        path = name.path
        at = len(path)
        while at > 0:
            if path[:at] in self._renamed_paths:
                return self._renamed_paths[path[:at]] + stem[at:]
            at = path.rfind(".", 0, at)
        return stem


def identity(name: str) -> str:
    """The name under which a call is looked for: `X.parameters_grad` and `X.parameters_grad.0` are one."""
    return name[:-2] if name.endswith(".parameters_grad.0") else name


def bare_stem(name: Name) -> str:
    """The stem; of a cell, path and class without `Cell` or `Module`."""
    return name.stem.partition(".")[2] if name.kind in _CELLS else name.stem


def word(name: Name) -> str:
    """What the call does: the class of a cell or primitive, the operation of an API (`__add__`, `Add`, `add_`: add)."""
    *before, last = name.stem.split(".")
    if name.kind == "cell":
        return last
    operation = last.strip("_").lower() or last
    # The second execution of a kernel in one step: `Kernel.Default.MatMul.round1`.
    is_round = len(before) > 1 and before[0] in ("Kernel", "Parameter") and _ROUND.fullmatch(last)
    return f"{before[-1].lower()}.{operation}" if is_round else operation


def _contents(call: Call) -> Hashable:
    return tuple([(r.part, r.path, r.shape if r.kind == "tensor" else repr(r.value)) for r in call.records])


def alike(a: Call, b: Call, with_parents: bool, with_values: bool) -> bool:
    """Whether two calls also stand in the same cell and have records of the same paths and shapes (and arguments)."""
    if len(a.records) != len(b.records) or (with_parents and a.parent != b.parent):
        return False
    for x, y in zip(a.records, b.records, strict=True):
        if x.shape != y.shape or x.path != y.path or x.part != y.part:
            return False
        if with_values and x.value is not y.value and repr(x.value) != repr(y.value):
            return False
    return True


def seem_recomputed(calls: Iterable[Name]) -> list[bool]:
    """Which calls are the second run of a recomputed cell, in a dump that does not mark them.

    A run of forward calls between backward calls is one where most of it still waits for a backward from before: the
    next micro step would begin only after all of them.
    """
    every = list(calls)
    with_backward = {name.stem for name in every if name.direction == "backward"}
    waiting: Counter[str] = Counter()
    seem: list[bool] = []
    for is_backward, group in groupby(every, key=lambda name: name.direction == "backward"):
        run = [name.stem for name in group]
        known = [stem for stem in run if stem in with_backward]
        is_again = not is_backward and 2 * sum(waiting[stem] > 0 for stem in known) > len(known)
        seem += [is_again] * len(run)
        if is_backward:
            waiting.subtract(run)
        elif not is_again:
            waiting.update(known)
    return seem
