"""Pairs that the user's mapping files declare, and the rules among them that match nothing."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np

from msprobe.base import names
from msprobe.mapping.layer_tree import PlacedCall, pair_layers
from msprobe.mapping.user_files import NOWHERE, ApiRule, DataRule, UserMapping, bare_cell
from msprobe.store.record import Calls, Dump

from .pairs import Ints, Notes, Pairs, View, call_of_row

Noted = TypeVar("Noted")


@dataclass(frozen=True)
class Given:
    """`calls`: golden call by target call. `rules`: the API rule of a target call. `rows`: golden row by target row,
    with the transform of the target's. `layers`: of the calls, those that the layer mapping paired. `unused`: in
    sentences, the rules that matched nothing."""

    calls: Mapping[int, int] = field(default_factory=dict)
    rules: Mapping[int, ApiRule] = field(default_factory=dict)
    rows: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    layers: Mapping[int, int] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.calls or self.rows)


NOTHING = Given()


def given_by(mapping: UserMapping, target: Dump, golden: Dump) -> Given:
    """What the rules mean for these two dumps; of several rules for a call the most particular one counts."""
    return _Gathering(mapping, target, golden).given if mapping else NOTHING


class _Gathering:
    def __init__(self, mapping: UserMapping, target: Dump, golden: Dump) -> None:
        self._mapping, self._target, self._golden = mapping, target, golden
        self._calls: dict[int, int] = {}
        self._taken: set[int] = set()
        self._rules: dict[int, ApiRule] = {}
        self._unused: list[str] = []
        rows = self._rows()
        self._take(_calls_of(rows, target, golden))
        layers = self._layers()
        self._take(layers.items())
        self._take(self._cells())
        self._apis()
        self.given = Given(self._calls, self._rules, rows, layers, tuple(self._unused))

    def _take(self, pairs: Iterable[tuple[int, int]]) -> None:
        for i, j in pairs:
            if i not in self._calls and j not in self._taken:
                self._calls[i] = j
                self._taken.add(j)

    def _rows(self) -> dict[int, tuple[int, str]]:
        # What the layer mapping wrote down of rows without a partner.
        rules: Mapping[str, DataRule] = {n: rule for n, rule in self._mapping.data.items() if rule.to != NOWHERE}
        if not rules:
            return {}
        ours = _rows_named(self._target, rules)
        theirs = _rows_named(self._golden, {rule.to for rule in rules.values()})
        for name, rule in rules.items():
            if name not in ours:
                self._tell("data_mapping", name, f"the target has no record {name}")
            elif rule.to not in theirs:
                self._tell("data_mapping", name, f"the golden has no record {rule.to}")
        return {ours[n]: (theirs[r.to], r.transform) for n, r in rules.items() if n in ours and r.to in theirs}

    def _layers(self) -> dict[int, int]:
        rules = self._mapping.layers
        if rules is None:
            return {}
        found = pair_layers(placed_calls(self._target), placed_calls(self._golden), rules)
        if not found:
            self._tell(
                "layer_mapping",
                "",
                "no call of the target has a scope that the golden has; it needs construct.json beside both dumps",
            )
        classes = {names.parse(n).stem.rpartition(".")[2] for n in self._target.columns.names} | {"TopLayer"}
        for type_name in rules.by_class:
            if type_name not in classes:
                self._tell("layer_mapping", type_name, f"the target has no cell of class {type_name}")
        return found

    def _cells(self) -> Iterable[tuple[int, int]]:
        rules = self._mapping.cells
        if rules is None:
            return []
        theirs = {key: j for j, n in enumerate(self._golden.columns.names) if (key := _cell_key(n, str))}
        used: set[str] = set()

        def renamed(cell: str) -> str:
            used.add(cell)
            return rules.get(cell, cell)

        ours = [(i, _cell_key(n, renamed)) for i, n in enumerate(self._target.columns.names)]
        found = [(i, theirs[key]) for i, key in ours if key in theirs]
        known = {bare_cell(names.parse(n).stem) for n in self._golden.columns.names}
        for cell, other in rules.items():
            if cell not in used:
                self._tell("cell_mapping", cell, f"the target has no cell {cell}")
            elif other not in known:
                self._tell("cell_mapping", cell, f"the golden has no cell {other}")
        return found

    def _apis(self) -> None:
        for rule in self._mapping.apis:
            ours = _numbered(self._target, rule.ms_api)
            theirs = _numbered(self._golden, rule.pt_api)
            if not ours or not theirs:
                side, stem = ("target", rule.ms_api) if not ours else ("golden", rule.pt_api)
                self._unused.append(f"{rule.where}: matches nothing: the {side} has no call of {stem}")
            for key, i in ours.items():
                if key in theirs:
                    self._take([(i, theirs[key])])
                if i in self._calls and names.parse(self._golden.columns.names[self._calls[i]]).stem == rule.pt_api:
                    self._rules[i] = rule

    def _tell(self, option: str, rule: str, why: str) -> None:
        where = self._mapping.where.get(option, option)
        self._unused.append(f"{where}: {f'{rule} ' if rule else ''}matches nothing: {why}")


def _cell_key(text: str, renamed: Callable[[str], str]) -> tuple[str, str, int] | None:
    name = names.parse(text)
    if name.kind not in ("cell", "parameters_grad"):
        return None
    return renamed(bare_cell(name.stem)), f"{name.kind} {name.direction}", max(name.number, 0)


def _numbered(dump: Dump, stem: str) -> dict[tuple[int, str], int]:
    """Number and direction of the calls of one API, with their places."""
    found: dict[tuple[int, str], int] = {}
    for at, text in enumerate(dump.columns.names):
        name = names.parse(text)
        if name.kind == "api" and name.stem == stem:
            found[name.number, name.direction] = at
    return found


def _rows_named(dump: Dump, wanted: Iterable[str]) -> dict[str, int]:
    columns, known = dump.columns, set(wanted)
    starts = columns.starts
    return {
        name: row
        for call in range(len(columns.names))
        for row in range(starts[call], starts[call + 1])
        if (name := columns.row_name(row, call)) in known
    }


def _calls_of(rows: Mapping[int, tuple[int, str]], target: Dump, golden: Dump) -> Iterable[tuple[int, int]]:
    """The calls whose mapped records all lie in one call of the other side."""
    partners: dict[int, set[int]] = {}
    for row, (other, _) in rows.items():
        partners.setdefault(call_of_row(target, row), set()).add(call_of_row(golden, other))
    return [(i, next(iter(found))) for i, found in partners.items() if len(found) == 1]


def placed_calls(dump: Dump) -> list[PlacedCall]:
    """The calls of a dump as the rules of layers see them."""
    calls = dump.calls
    if isinstance(calls, Calls):
        texts = dump.columns.names
        return [PlacedCall(t, calls.parent(n) or dump.construct.get(t), calls.stack(n)) for n, t in enumerate(texts)]
    return [PlacedCall(call.name, call.parent or dump.construct.get(call.name), call.stack) for call in calls]


def with_rows(pairs: Pairs, given: Given) -> Pairs:
    """The pairs with those of single records that the user made; their former partners are unmatched."""
    if not given.rows:
        return pairs
    made = {row: other for row, (other, _) in given.rows.items()}
    wanted = set(made.values())
    target_rows, golden_rows = pairs.target_rows.copy(), pairs.golden_rows.copy()
    where = {row: n for n, row in enumerate(target_rows.tolist()) if row >= 0}
    views = dict(pairs.notes.views)
    alone = dict(pairs.notes.alone)
    lost: list[tuple[int, int]] = []  # the pair that a golden record is taken from, and the record that moves away
    for number, row in enumerate(golden_rows.tolist()):
        partner = int(target_rows[number])
        if row >= 0 and (made.get(partner, row) != row or (row in wanted and made.get(partner) != row)):
            lost.append((number, row))
            golden_rows[number] = -1
    for row, (other, text) in given.rows.items():
        number = where[row]
        golden_rows[number] = other
        alone.pop(number, None)
        views.pop(number, None)
        if text:
            views[number] = View(text)
    still = [(number, row) for number, row in lost if row not in wanted]
    notes = replace(pairs.notes, views=views, alone=alone, is_crossed=True)
    return _compact(pairs, target_rows, golden_rows, still, notes)


def _compact(
    pairs: Pairs, target_rows: Ints, golden_rows: Ints, still: Sequence[tuple[int, int]], notes: Notes
) -> Pairs:
    """Without pairs of nothing, and with the records that lost their partner behind where they stood."""
    after: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in still:
        after[number].append(row)
    rows: list[tuple[int, int]] = []
    starts, moved = [0], dict[int, int]()
    for start, stop in pairwise(pairs.starts.tolist()):
        for number in range(start, stop):
            if target_rows[number] >= 0 or golden_rows[number] >= 0:
                moved[number] = len(rows)
                rows.append((int(target_rows[number]), int(golden_rows[number])))
            rows += ((-1, row) for row in after[number])
        starts.append(len(rows))

    def at(found: Mapping[int, Noted]) -> dict[int, Noted]:
        return {moved[n]: value for n, value in found.items() if n in moved}

    return replace(
        pairs,
        starts=np.array(starts, np.int64),
        target_rows=np.array([t for t, _ in rows], np.int64),
        golden_rows=np.array([g for _, g in rows], np.int64),
        notes=replace(notes, views=at(notes.views), alone=at(notes.alone), meant=at(notes.meant)),
    )


class Named:
    """Rows as pairs of names, for the file that the layer mapping leaves beside the table."""

    def __init__(self, given: Given, target: Dump, golden: Dump) -> None:
        self._given, self._target, self._golden = given, target, golden

    @cached_property
    def pairs(self) -> dict[str, str]:
        """The target's row -> the golden's row of the same ending, or `N/A`."""
        found: dict[str, str] = {}
        ours, theirs = self._target.columns, self._golden.columns
        for i, j in self._given.layers.items():
            places = {_ending(self._golden, row): row for row in range(theirs.starts[j], theirs.starts[j + 1])}
            for row in range(ours.starts[i], ours.starts[i + 1]):
                other = places.get(_ending(self._target, row))
                found[ours.row_name(row, i)] = NOWHERE if other is None else theirs.row_name(other, j)
        return found


def _ending(dump: Dump, row: int) -> tuple[int, tuple[str, ...]]:
    columns = dump.columns
    return columns.part[row], columns.paths[columns.path[row]]
