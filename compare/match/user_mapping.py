"""Pairs that the user's mapping files declare, and the rules among them that match nothing."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from msprobe.base import names
from msprobe.mapping.user_files import NOWHERE, TOP, ApiRule, DataRule, UserMapping, bare_cell
from msprobe.store.record import Dump

from .pairs import Pairs, View

if TYPE_CHECKING:
    from msprobe.mapping.layer_tree import PlacedCall

Noted = TypeVar("Noted")


@dataclass(frozen=True)
class UserPairs:
    """`calls`: golden call by target call. `rules`: the API rule of a target call. `rows`: golden row by target row,
    with the transform of the target's. `layers`: the calls that the layer mapping paired. `unused`: the rules that
    matched nothing, as sentences."""

    calls: Mapping[int, int] = field(default_factory=dict)
    rules: Mapping[int, ApiRule] = field(default_factory=dict)
    rows: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    layers: Mapping[int, int] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.calls or self.rows)


NOTHING = UserPairs()


def user_pairs(mapping: UserMapping, target: Dump, golden: Dump) -> UserPairs:
    """Return the pairs that the rules give for these two dumps; of several rules for a call, the most specific one is
    used."""
    return _Gathering(mapping, target, golden).by_user if mapping else NOTHING


class _Gathering:
    def __init__(self, mapping: UserMapping, target: Dump, golden: Dump) -> None:
        self._mapping, self._target, self._golden = mapping, target, golden
        self._names = target.names, golden.names
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
        self.by_user = UserPairs(self._calls, self._rules, rows, layers, tuple(self._unused))

    def _take(self, pairs: Iterable[tuple[int, int]]) -> None:
        for i, j in pairs:
            if i not in self._calls and j not in self._taken:
                self._calls[i] = j
                self._taken.add(j)

    def _rows(self) -> dict[int, tuple[int, str]]:
        # The layer mapping also writes rows without a counterpart into its file.
        rules: Mapping[str, DataRule] = {n: rule for n, rule in self._mapping.data.items() if rule.to != NOWHERE}
        if not rules:
            return {}
        ours = _rows_named(self._target, rules)
        theirs = _rows_named(self._golden, {rule.to for rule in rules.values()})
        self._check("data_mapping", "record", {name: rule.to for name, rule in rules.items()}, ours, theirs)
        return {ours[n]: (theirs[r.to], r.transform) for n, r in rules.items() if n in ours and r.to in theirs}

    def _layers(self) -> dict[int, int]:
        rules = self._mapping.layers
        if rules is None:
            return {}
        from msprobe.mapping.layer_tree import pair_layers  # here: only for a layer mapping

        found = pair_layers(placed_calls(self._target), placed_calls(self._golden), rules)
        if not found:
            why = "no call of the target has a scope of the golden; construct.json is required next to both dumps"
            self._report("layer_mapping", why)
        classes = {name.stem.rpartition(".")[2] for name in self._names[0]} | {TOP}
        for type_name in rules.by_class:
            if type_name not in classes:
                self._report("layer_mapping", f"the target has no cell of class {type_name}", type_name)
        return found

    def _cells(self) -> Iterable[tuple[int, int]]:
        rules = self._mapping.cells
        if rules is None:
            return []
        keys = [[_cell_key(name) for name in side] for side in self._names]
        theirs = {key: j for j, key in enumerate(keys[1]) if key is not None}
        ours = [(i, (rules.get(key[0], key[0]), *key[1:])) for i, key in enumerate(keys[0]) if key is not None]
        known = {bare_cell(name.stem) for name in self._names[1]}
        self._check("cell_mapping", "cell", rules, {key[0] for key in keys[0] if key is not None}, known)
        return [(i, theirs[key]) for i, key in ours if key in theirs]

    def _apis(self) -> None:
        for rule in self._mapping.apis:
            ours, theirs = (
                {(n.number, n.direction): at for at, n in enumerate(side) if n.kind == "api" and n.stem == stem}
                for side, stem in zip(self._names, (rule.ms_api, rule.pt_api), strict=True)
            )
            if not ours or not theirs:
                side, stem = ("target", rule.ms_api) if not ours else ("golden", rule.pt_api)
                self._unused.append(f"{rule.where}: matches nothing: the {side} has no call of {stem}")
            for key, i in ours.items():
                if key in theirs:
                    self._take([(i, theirs[key])])
                if i in self._calls and self._names[1][self._calls[i]].stem == rule.pt_api:
                    self._rules[i] = rule

    def _check(
        self, option: str, what: str, rules: Mapping[str, str], ours: Container[str], theirs: Container[str]
    ) -> None:
        for name, other in rules.items():
            if name not in ours:
                self._report(option, f"the target has no {what} {name}", name)
            elif other not in theirs:
                self._report(option, f"the golden has no {what} {other}", name)

    def _report(self, option: str, why: str, rule: str = "") -> None:
        where = self._mapping.where.get(option, option)
        self._unused.append(f"{where}: {f'{rule} ' if rule else ''}matches nothing: {why}")


def _cell_key(name: names.Name) -> tuple[str, str, int] | None:
    if name.kind not in ("cell", "parameters_grad"):
        return None
    return bare_cell(name.stem), f"{name.kind} {name.direction}", max(name.number, 0)


def _rows_named(dump: Dump, wanted: Iterable[str]) -> dict[str, int]:
    columns, known = dump.columns, set(wanted)
    every = ((row, call) for call in range(len(columns.names)) for row in columns.rows(call))
    return {name: row for row, call in every if (name := columns.row_name(row, call)) in known}


def _calls_of(rows: Mapping[int, tuple[int, str]], target: Dump, golden: Dump) -> Iterable[tuple[int, int]]:
    """Return the calls whose mapped records are all in one call of the other side."""
    partners: dict[int, set[int]] = {}
    for row, (other, _) in rows.items():
        partners.setdefault(target.columns.call_of(row), set()).add(golden.columns.call_of(other))
    return [(i, next(iter(found))) for i, found in partners.items() if len(found) == 1]


def placed_calls(dump: Dump) -> "list[PlacedCall]":
    """Return the calls of a dump as the rules of layers need them."""
    from msprobe.mapping.layer_tree import PlacedCall  # here: as above

    return [PlacedCall(text, dump.parent(at), dump.calls.stack(at)) for at, text in enumerate(dump.columns.names)]


def with_rows(pairs: Pairs, by_user: UserPairs) -> Pairs:
    """Return the pairs with those of single records by the user; their former counterparts are unmatched."""
    if not by_user.rows:
        return pairs
    made = {row: other for row, (other, _) in by_user.rows.items()}
    wanted = set(made.values())
    numbered = list(enumerate(zip(pairs.target_rows.tolist(), pairs.golden_rows.tolist(), strict=True)))
    where = {t: number for number, (t, _) in numbered if t in made}
    rows: list[tuple[int, int]] = []
    starts, moved = [0], dict[int, int]()
    for start, stop in pairwise(pairs.starts.tolist()):
        for number, (t, g) in numbered[start:stop]:
            is_lost = g != made[t] if t in made else g in wanted
            other = made[t] if where.get(t) == number else -1 if is_lost else g
            if t >= 0 or other >= 0:
                moved[number] = len(rows)
                rows.append((t, other))
            if t in made and g >= 0 and is_lost and g not in wanted:
                rows.append((-1, g))
        starts.append(len(rows))

    def at(found: Mapping[int, Noted]) -> dict[int, Noted]:
        return {moved[n]: value for n, value in found.items() if n in moved}

    views, partnerless = at(pairs.notes.views), at(pairs.notes.partnerless)
    for row, (_, text) in by_user.rows.items():
        number = moved[where[row]]
        partnerless.pop(number, None)
        views.pop(number, None)
        if text:
            views[number] = View(text)
    return replace(
        pairs,
        starts=np.array(starts, np.int64),
        target_rows=np.array([t for t, _ in rows], np.int64),
        golden_rows=np.array([g for _, g in rows], np.int64),
        notes=replace(
            pairs.notes, views=views, partnerless=partnerless, translated=at(pairs.notes.translated), is_crossed=True
        ),
    )


def named_pairs(by_user: UserPairs, target: Dump, golden: Dump) -> dict[str, str]:
    """Return, for the calls that the layer mapping paired, the target's row -> the golden's row with the same ending,
    or `N/A`."""
    found: dict[str, str] = {}
    ours, theirs = target.columns, golden.columns
    for i, j in by_user.layers.items():
        places = {(theirs.part[row], theirs.path_of(row)): row for row in theirs.rows(j)}
        for row in ours.rows(i):
            other = places.get((ours.part[row], ours.path_of(row)))
            found[ours.row_name(row, i)] = NOWHERE if other is None else theirs.row_name(other, j)
    return found
