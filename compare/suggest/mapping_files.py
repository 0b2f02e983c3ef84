"""Write the pairs that were found as the four mapping files of the user."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from msprobe.base.names import Name
from msprobe.compare.counterparts.dump_view import NONE, Side
from msprobe.compare.counterparts.features import UNRELATED, operations
from msprobe.compare.counterparts.score import Counterpart, Counterparts
from msprobe.compare.match.records import Records
from msprobe.compare.match.user_mapping import placed_calls
from msprobe.mapping.api import load_table
from msprobe.mapping.layer_tree import pair_layers
from msprobe.mapping.user_files import TOP, LayerRules
from msprobe.store.record import PARTS, Dump

KINDS = ("api", "cell", "layer", "data")
OPTIONS = {"api": "-am", "cell": "-cm", "layer": "-lm", "data": "-dm"}
NOTHING = "no_counterpart"

_RULE = {"api": "- ", "cell": "[^#]", "layer": "  [^#]", "data": "[^# ]"}
"""The beginning of a line that is a rule."""

_TEXTS = {
    "api": "Corresponding functions, call by call in order, with their arguments and results.",
    "cell": "Path and class of a cell: path and class of its counterpart.",
    "layer": "By class of the enclosing cell: the path of a cell inside it, and its name on the other side.",
    "data": "Single rows, which take precedence over the other three mappings.",
}

Path = tuple[str, ...]
Calls = dict[str, list[int]]
Rules = defaultdict[str, defaultdict[str, Counter[str]]]


@dataclass(frozen=True)
class Suggestion:
    """The texts of the four files by kind, and the number of rules of each; an empty text if there are none."""

    texts: dict[str, str]
    rules: dict[str, int]


def suggest(target: Dump, golden: Dump, found: Counterparts) -> Suggestion:
    """Return the four files for the counterparts of two dumps."""
    files = _Files(target, golden, found)
    written = {"api": files.apis(), "cell": files.cells(), "layer": files.layers(), "data": files.data()}
    texts, rules = {}, {}
    for kind, lines in written.items():
        rules[kind] = sum(bool(re.match(_RULE[kind], line)) for line in lines)
        head = [f"# {_TEXTS[kind]}", f"# Suggested by msprobe; give it to `msprobe compare` with {OPTIONS[kind]}.", ""]
        texts[kind] = "\n".join([*head, *lines, ""]) if rules[kind] else ""
    return Suggestion(texts, rules)


class _Files:
    """The lines of the four files."""

    def __init__(self, target: Dump, golden: Dump, found: Counterparts) -> None:
        self._sides = Side(target), Side(golden)
        self._found = found
        self._golden_of = found.golden_of
        self._records = Records(target, golden, load_table(), self._golden_of)

    def _forward_pairs(self, kind: str) -> Iterator[tuple[Counterpart, Name, Name]]:
        for pair in self._found.calls:
            mine, theirs = self._sides[0].names[pair.target], self._sides[1].names[pair.golden]
            if mine.kind == kind and mine.direction == "forward":
                yield pair, mine, theirs

    def apis(self) -> list[str]:
        """Return a rule for every stem, with arguments and results; a comment if calls would not correspond by their
        numbers.

        Also a comment if the two are different operations that end in one value: that is not evidence about the other
        calls with these two names, or about their inputs.
        """
        partners: defaultdict[str, list[tuple[Counterpart, Name, Name]]] = defaultdict(list)
        back: defaultdict[str, set[str]] = defaultdict(set)
        for pair, mine, theirs in self._forward_pairs("api"):
            partners[mine.stem].append((pair, mine, theirs))
            back[theirs.stem].add(mine.stem)
        lines = []
        for stem, every in sorted(partners.items()):
            stems = Counter(theirs.stem for _, _, theirs in every)
            other = stems.most_common(1)[0][0]
            pairs = [pair for pair, _, theirs in every if theirs.stem == other]
            places = [self._places(pairs, part) for part in ("input", "output")]
            is_numbered = all(mine.number == theirs.number for _, mine, theirs in every if theirs.stem == other)
            is_one = operations(stem, other, (self._sides[0].framework, self._sides[1].framework)) > UNRELATED
            is_clear = is_one and is_numbered and len(stems) == 1 and back[other] == {stem} and None not in places
            mark = "" if is_clear else "# "
            apart = "; their numbers or arguments do not always correspond, but the rows of the data mapping do"
            least = min(pair.confidence for pair in pairs)
            lines += [
                f"# {least:.2f} {len(pairs)} calls{'' if is_clear else apart}",
                f"{mark}- ms_api: {text(stem)}",
                f"{mark}  pt_api: {text(other)}",
            ]
            for place, key in zip(places, ("args", "output"), strict=True):
                if place:
                    lines.append(f"{mark}  ms_{key}: [{', '.join(map(_place, place))}]")
                    lines.append(f"{mark}  pt_{key}: [{', '.join(map(_place, place.values()))}]")
        return lines

    def _places(self, pairs: list[Counterpart], part: str) -> dict[Path, Path] | None:
        """Return the corresponding places of all these calls; None if two of them contradict each other."""
        ours, theirs = self._sides[0].dump.columns, self._sides[1].dump.columns
        found: dict[Path, Path] = {}
        for pair in pairs:
            for row, other in self._records.join(pair.target, pair.golden).rows:
                if row >= 0 <= other and PARTS[ours.part[row]] == part:
                    mine, place = _without_common_end(ours.path_of(row), theirs.path_of(other))
                    if found.setdefault(mine, place) != place:
                        return None
        return found if len(set(found.values())) == len(found) else None

    def cells(self) -> list[str]:
        """Return a rule for every module all of whose runs have runs of one module, and of no other, as
        counterparts."""
        partners: defaultdict[str, dict[str, Counterpart]] = defaultdict(dict)
        back: defaultdict[str, set[str]] = defaultdict(set)
        for pair, mine, theirs in self._forward_pairs("cell"):
            partners[mine.stem].setdefault(theirs.stem, pair)
            back[theirs.stem].add(mine.stem)
        lines = []
        for stem, others in partners.items():
            for other, pair in others.items():
                mark = "" if len(others) == 1 and len(back[other]) == 1 else "# "
                lines.append(f"{mark}{_bare(stem)}: {_bare(other)}  # {pair.confidence:.2f} {pair.reason}")
        for at, candidates in self._found.ambiguous.items():
            name = self._sides[0].names[at]
            if name.kind == "cell" and name.direction == "forward" and name.stem not in partners:
                for candidate in dict.fromkeys(self._sides[1].names[c].stem for c in candidates):
                    lines.append(f"# {_bare(name.stem)}: {_bare(candidate)}  # one of several that it could be")
        return lines

    def layers(self) -> list[str]:
        """Return rules by class of the enclosing cell; if two cells of one class need different ones, both are
        comments."""
        target, golden = self._sides
        rules: Rules = defaultdict(lambda: defaultdict(Counter))
        for pair, mine, theirs in self._forward_pairs("cell"):
            outer = next((a for a in target.enclosing(pair.target) if a in self._golden_of), NONE)
            around = "", ""
            if outer != NONE:
                around = target.names[outer].path, golden.names[self._golden_of[outer]].path
            if _is_below(mine.path, around[0]) and _is_below(theirs.path, around[1]):
                paths = mine.path[len(around[0]) :].lstrip("."), theirs.path[len(around[1]) :].lstrip(".")
                ours, other = map(".".join, _without_common_end(*(tuple(path.split(".")) for path in paths)))
                rules[self._class_name(outer)][ours][other] += 1
        for type_name, ours, other in self._functions():
            rules[type_name][ours][other] += 1
        for type_name, ours in self._with_wrong_counterparts(rules):
            rules[type_name][ours] = Counter({NOTHING: 1})
        lines = []
        for type_name, children in sorted(rules.items()):
            inner = []
            for ours, others in sorted(children.items()):
                if list(others) == [ours]:
                    continue
                for other, count in others.most_common():
                    mark = "" if len(others) == 1 else "# "
                    inner.append(f"  {mark}{text(ours)}: {text(other)}  # {count}")
            if any(not line.startswith("  #") for line in inner):
                lines += [f"{text(type_name)}:", *inner]
        return lines

    def _class_name(self, outer: int) -> str:
        return TOP if outer == NONE else self._sides[0].class_name(outer)

    def _functions(self) -> Iterator[tuple[str, str, str]]:
        """Yield class, own name and counterpart's own name of functions, as far as their order inside the class gives
        no wrong pair."""
        golden_of = self._golden_of
        left, right = (_by_own_name(side) for side in self._sides)
        by_class: defaultdict[tuple[str, str], list[tuple[list[int], Calls]]] = defaultdict(list)
        for outer, mine in left.items():
            partner = golden_of.get(outer, NONE)
            if outer == NONE or partner != NONE:
                for ours, calls in mine.items():
                    by_class[self._class_name(outer), ours].append((calls, right.get(partner, {})))
        for (type_name, ours), places in by_class.items():
            partners = {_own(self._sides[1], golden_of[a]) for calls, _ in places for a in calls if a in golden_of}
            scores = {other: self._score(places, other) for other in (ours, *sorted(partners))}
            best = max(scores, key=lambda other: (scores[other], other == ours))
            yield type_name, ours, best if scores[best] >= 0 else NOTHING

    def _score(self, places: list[tuple[list[int], Calls]], other: str) -> int:
        """Return the number of calls that correspond by order; -1 if one would have a wrong counterpart."""
        met = [pair for calls, theirs in places for pair in zip(calls, theirs.get(other, ()), strict=False)]
        return len(met) if all(self._golden_of.get(a, NONE) == b for a, b in met) else -1

    def _with_wrong_counterparts(self, rules: Rules) -> set[tuple[str, str]]:
        """Return class and own name of the functions of which a call, forward or backward, would get a wrong
        counterpart by the rules.

        Backward calls are counted from the end of the program, so additional ones of one side are at their beginning.
        """
        target, golden = self._sides
        by_class = {
            type_name: {
                tuple(ours.split(".")): tuple(next(iter(o)).split(".")) for ours, o in of.items() if len(o) == 1
            }
            for type_name, of in rules.items()
        }
        paired = pair_layers(placed_calls(target.dump), placed_calls(golden.dump), LayerRules(by_class))
        return {
            (self._class_name(target.parents[target.dump.forward(a)]), _own(target, a))
            for a, b in paired.items()
            if target.names[a].kind == "api" and self._golden_of.get(a, NONE) != b
        }

    def data(self) -> list[str]:
        """Return every pair of records of every pair of calls, and the candidates for open ones."""
        target, golden = self._sides
        shared = Counter(pair.golden for pair in self._found.calls)
        lines: list[str] = []
        for pair in self._found.calls:
            lines.append(f"# {pair.confidence:.2f} {pair.reason}")
            mark = "# " if shared[pair.golden] > 1 else ""
            joined = self._records.join(pair.target, pair.golden)
            for number, (row, other) in enumerate(joined.rows):
                if row < 0 or other < 0:
                    continue
                mine = f"{mark}{text(target.dump.columns.row_name(row, pair.target))}:"
                theirs = text(golden.dump.columns.row_name(other, pair.golden))
                view = joined.views.get(number)
                if view is not None and view.target:
                    lines += [mine, f"{mark}  to: {theirs}", f'{mark}  transform: "{view.target}"']
                else:
                    lines.append(f"{mine} {theirs}")
        for at, candidates in self._found.ambiguous.items():
            lines.append(f"# {target.names[at].text} could be {' or '.join(golden.names[c].text for c in candidates)}")
        return lines


def text(name: str) -> str:
    """Return a name in a form that YAML reads as text."""
    plain = all(c.isalnum() or c in "._-" for c in name) and not name.replace(".", "").isdigit() and name[:1].isalpha()
    return name if plain and name.lower() not in ("true", "false", "null", "yes", "no", "on", "off") else _quoted(name)


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _place(path: Path) -> str:
    return ".".join(path) if len(path) == 1 else _quoted(".".join(path))


def _bare(stem: str) -> str:
    return text(stem.partition(".")[2])


def _own(side: Side, at: int) -> str:
    return side.names[at].stem.rpartition(".")[2]


def _by_own_name(side: Side) -> dict[int, Calls]:
    """Return functions by the module call around them, including inner parts of layers, and by their own names; in
    order."""
    found: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at in side.apis:
        found[side.parents[at]][_own(side, at)].append(at)
    return {outer: dict(calls) for outer, calls in found.items()}


def _is_below(path: str, outer: str) -> bool:
    return not outer or path.startswith(f"{outer}.")


def _without_common_end(mine: Path, theirs: Path) -> tuple[Path, Path]:
    """Return two names without their common end: `blocks.0` and `h.0` differ in `blocks` and `h`; at least one part
    remains on each side."""
    while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
        mine, theirs = mine[:-1], theirs[:-1]
    return mine, theirs
