"""The keys by which a call is matched: its position, its inputs and outputs, its name.

Two calls are *alike* to some degree if their keys of that degree are equal:

- `look`: the same place, and records of the same paths, shapes and arguments;
- `form`: the same place, and records of the same paths and ranks (another batch size keeps the form);
- `place`: the same stem, direction and enclosing cell;
- `bare`: the same stem and direction, and records as for `look`, in any enclosing cell.

Dtypes are not in the keys: a float16 run is compared with a float32 run call by call. Values of tensors are not either,
since they are to be compared.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import groupby

from msprobe.base import names
from msprobe.base.names import KERNEL, PARAMETER, Name
from msprobe.compare.core.tensor import source_of
from msprobe.store.record import INPUT, PARAMETERS, Dump

_CELLS = ("cell", "parameters_grad")
_ROUND = re.compile(r"round[0-9]+")


class Side:
    """The calls of one dump with their keys; renamed cells and functions can be learned, so that keys contain the
    golden's names."""

    def __init__(self, dump: Dump, has_parents: bool = True) -> None:
        self.dump = dump
        self.names = dump.names
        self.again = [dump.calls.is_recompute(i) for i in range(len(dump.names))]
        self.in_order = [".parameters_grad" not in called for called in dump.columns.names]
        """Whether the position of a call in the dump shows when it ran."""
        self.marks_recomputed = False
        """Whether both dumps mark recomputations."""
        self._has_parents = has_parents
        self._renamed_paths: dict[str, str] = {}
        self._renamed_stems: dict[str, str] = {}
        self._stems: dict[tuple[bool, str], str] = {}
        self._places: dict[int, Hashable] = {}

    def __len__(self) -> int:
        return len(self.names)

    def learn(self, mine: Name, theirs: Name) -> None:
        """Use the name `theirs` for `mine` from now on; calls inside a renamed cell are included."""
        if mine.kind == "cell":
            self._renamed_paths.setdefault(mine.path, theirs.path)
        self._renamed_stems.setdefault(mine.stem, bare_stem(theirs))
        self._stems.clear()
        self._places.clear()

    def stem(self, i: int) -> str:
        """Return the stem of call i in the golden's names, that of a cell without `Cell` or `Module`."""
        return self.stem_of(self.names[i])

    def stem_of(self, name: Name) -> str:
        """Return the stem of any call's name in the golden's names."""
        key = name.kind in _CELLS, name.stem
        if key not in self._stems:
            self._stems[key] = self._golden_stem(name)
        return self._stems[key]

    def parent_name(self, i: int) -> str | None:
        """Return the name of the enclosing cell's call, None at the root."""
        return self.dump.parent(i) if self._has_parents else None

    def place(self, i: int) -> Hashable:
        """Return stem, direction, enclosing cell, and whether it is a recomputation, if both dumps mark those."""
        if i not in self._places:
            parent = self.parent_name(i)
            around = "" if parent is None else self.stem_of(names.parse(parent))
            again = self.marks_recomputed and self.again[i]
            self._places[i] = self.stem(i), self.names[i].direction, around, again
        return self._places[i]

    def signature(self, i: int) -> Hashable:
        """Return the place with the paths, shapes and arguments of the records."""
        return self.place(i), self.again[i], self.contents(i)

    def form(self, i: int) -> Hashable:
        """Return the place with the paths and ranks of the records."""
        columns = self.dump.columns
        ranks = [(row, None if (shape := columns.shape(row)) is None else len(shape)) for row in columns.rows(i)]
        return self.place(i), tuple([(columns.part[at], columns.path_of(at), columns.kind[at], n) for at, n in ranks])

    def bare(self, i: int) -> Hashable:
        """Return stem and direction with the paths, shapes and arguments of the records."""
        return self.stem(i), self.names[i].direction, self.again[i], self.contents(i)

    def named(self, i: int) -> Hashable:
        """Return the whole name; that of an API, whose number alone is weak evidence, with its place."""
        name = self.names[i]
        return identity(name.text), self.again[i], () if name.kind == "cell" else self.place(i)

    def as_recorded(self, i: int) -> Hashable:
        """Return the whole name, the enclosing cell and the records, without learned names."""
        return self.names[i].text, self.parent_name(i), self.again[i], self.contents(i)

    def shapes(self, i: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return part and shape of each tensor."""
        columns = self.dump.columns
        shapes = ((columns.part[row], columns.shape(row)) for row in columns.rows(i))
        return [(part, shape) for part, shape in shapes if shape is not None]

    def parameters(self, i: int) -> Hashable:
        """Return path and shape of each parameter of a cell, also of its backward call."""
        columns, forward = self.dump.columns, self.dump.counterpart(i, "forward")
        rows = (row for row in columns.rows(i if forward < 0 else forward) if columns.part[row] == PARAMETERS)
        return tuple([(columns.path_of(row), columns.shape(row)) for row in rows])

    def makers(self, i: int) -> list[int]:
        """Return the calls that returned the tensors which call i received, as far as the dump contains them."""
        columns = self.dump.columns
        sources = (source_of(columns.source[row]) for row in columns.rows(i) if columns.part[row] == INPUT)
        found = (self.dump.place.get(source.call, -1) for source in sources if source.part == "output")
        return [made for made in found if made >= 0]

    def contents(self, i: int) -> Hashable:
        """Return part, path and shape of each tensor, and the other arguments."""
        columns = self.dump.columns
        looks = ((row, columns.shape(row)) for row in columns.rows(i))
        parts = [(row, repr(columns.values.get(row)) if shape is None else shape) for row, shape in looks]
        return tuple([(columns.part[row], columns.path_of(row), what) for row, what in parts])

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
    """Return the name under which a call is searched: `X.parameters_grad` and `X.parameters_grad.0` are the same."""
    return name[:-2] if name.endswith(".parameters_grad.0") else name


def bare_stem(name: Name) -> str:
    """Return the stem; for a cell, path and class without `Cell` or `Module`."""
    return name.stem.partition(".")[2] if name.kind in _CELLS else name.stem


def word(name: Name) -> str:
    """Return the operation of a call: the class of a cell or primitive, the operation of an API (`__add__`, `Add`,
    `add_`: add)."""
    *before, last = name.stem.split(".")
    if name.kind == "cell":
        return last
    operation = last.strip("_").lower() or last
    # The second execution of a kernel in one step: `Kernel.Default.MatMul.round1`.
    is_round = len(before) > 1 and before[0] in (KERNEL, PARAMETER) and _ROUND.fullmatch(last)
    return f"{before[-1].lower()}.{operation}" if is_round else operation


def seem_recomputed(calls: Iterable[Name]) -> list[bool]:
    """Return which calls are the second run of a recomputed cell, in a dump that does not mark them.

    A sequence of forward calls between backward calls is one if the backward of most of its earlier calls is still to
    come: the next micro step would begin only after all of them.
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
