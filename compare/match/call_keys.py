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

from msprobe.base import names
from msprobe.base.names import Name
from msprobe.store.record import Call

_CELLS = ("cell", "parameters_grad")
_ROUND = re.compile(r"round[0-9]+")


class Side:
    """The calls of one dump with their keys; what was renamed can be learned, so that keys say the golden's names."""

    def __init__(self, calls: Sequence[Call], names_of: dict[str, Name], has_parents: bool = True) -> None:
        """`names_of` remembers names taken apart; both sides share it, as most of their names are equal."""
        self.calls = calls
        self.at = {call.name: i for i, call in enumerate(calls)}
        self.again = [call.is_recompute for call in calls]
        self.tells_again = False
        """Whether the other side's marks of recomputation can be trusted to be marked here too."""
        self._has_parents = has_parents
        self._names_of = names_of
        self._paths: dict[str, str] = {}
        self._stems: dict[str, str] = {}
        self._canonical: dict[str, str] = {}
        self._called: dict[str, str] = {}
        self._names = [self.name_of(call.name) for call in calls]
        self._places: dict[int, Hashable] = {}

    def __len__(self) -> int:
        return len(self.calls)

    def name(self, i: int) -> Name:
        """The name of call i, taken apart."""
        return self._names[i]

    def name_of(self, call: str) -> Name:
        """Any call's name, taken apart."""
        known = self._names_of.get(call)
        if known is None:
            known = self._names_of[call] = names.parse(call)
        return known

    def parsed(self) -> Iterable[Name]:
        """The names of all calls, taken apart."""
        return self._names

    def learn(self, mine: Name, theirs: Name) -> None:
        """From now on `mine` is called `theirs` here; what stands inside a renamed cell moves with it."""
        if mine.kind == "cell":
            self._paths.setdefault(mine.path, theirs.path)
        self._stems.setdefault(mine.stem, bare_stem(theirs))
        self._canonical.clear()
        self._called.clear()
        self._places.clear()

    def stem(self, i: int) -> str:
        """The stem of call i as the golden side would say it, a cell's without `Cell` or `Module`."""
        name = self.name(i)
        known = self._canonical.get(name.stem)
        if known is None:
            known = self._canonical[name.stem] = self._said(name)
        return known

    def parent(self, i: int) -> str:
        """The stem of the enclosing cell, empty at the root."""
        parent = self.parent_name(i)
        return self.called(parent) if parent is not None else ""

    def called(self, call: str) -> str:
        """The stem of any call's name as the golden side would say it."""
        known = self._called.get(call)
        if known is None:
            known = self._called[call] = self._said(self.name_of(call))
        return known

    def parent_name(self, i: int) -> str | None:
        """The name of the enclosing cell's call, None at the root."""
        return self.calls[i].parent if self._has_parents else None

    def place(self, i: int) -> Hashable:
        """Stem, direction, enclosing cell, and whether it is a recomputation where both dumps mark those."""
        known = self._places.get(i)
        if known is None:
            told = self.tells_again and self.again[i]
            known = self._places[i] = self.stem(i), self._names[i].direction, self.parent(i), told
        return known

    def look(self, i: int) -> Hashable:
        """The place with the paths, shapes and arguments of the records."""
        return self.place(i), self.again[i], contents(self.calls[i])

    def form(self, i: int) -> Hashable:
        """The place with the paths and ranks of the records."""
        return self.place(i), ranks(self.calls[i])

    def bare(self, i: int) -> Hashable:
        """Stem and direction with the paths, shapes and arguments of the records."""
        return self.stem(i), self.name(i).direction, self.again[i], contents(self.calls[i])

    def named(self, i: int) -> Hashable:
        """The whole name; of an API, whose number alone says little, with its place."""
        call = self.calls[i]
        return identity(call.name), self.again[i], () if self.name(i).kind == "cell" else self.place(i)

    def forward_of(self, i: int) -> int | None:
        """The forward call of backward call i, where the dump holds it."""
        return self._counterpart(i, "forward")

    def backward_of(self, i: int) -> int | None:
        """The backward call of forward call i, where the dump holds it."""
        return self._counterpart(i, "backward")

    def _counterpart(self, i: int, direction: names.Direction) -> int | None:
        name = self.name(i)
        if name.direction in ("", direction):
            return None
        if name.kind == "cell":
            return self.at.get(names.cell_call(name.stem, name.number, direction))
        return self.at.get(names.api_call(name.stem, name.number, direction)) if name.kind == "api" else None

    def _said(self, name: Name) -> str:
        if name.stem in self._stems:
            return self._stems[name.stem]
        stem = bare_stem(name)
        if not self._paths or name.kind not in _CELLS:
            return stem
        path = name.path
        at = len(path)
        while at > 0:
            if path[:at] in self._paths:
                return self._paths[path[:at]] + stem[at:]
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


def contents(call: Call) -> Hashable:
    """Paths, shapes and arguments of all records."""
    return tuple([(r.part, r.path, r.shape if r.kind == "tensor" else repr(r.value)) for r in call.records])


def ranks(call: Call) -> Hashable:
    """Paths and ranks of all records."""
    return tuple([(r.part, r.path, r.kind, None if r.shape is None else len(r.shape)) for r in call.records])


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
