"""Write the pairs that were found as the four mapping files of the user."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from msprobe.base.names import Name
from msprobe.compare.counterparts.counterpart import Counterpart, Counterparts
from msprobe.compare.counterparts.dump_view import NONE, Side
from msprobe.compare.counterparts.features import STRANGERS, operations
from msprobe.compare.match.records import Records
from msprobe.compare.match.user_mapping import placed_calls
from msprobe.mapping.api import load_table
from msprobe.mapping.layer_tree import pair_layers
from msprobe.mapping.user_files import LayerRules
from msprobe.store.record import PARTS, Dump


def names(sides: tuple[Side, Side], pair: Counterpart) -> tuple[Name, Name]:
    """The names of a pair's calls."""
    return sides[0].names[pair.target], sides[1].names[pair.golden]


def text(name: str) -> str:
    """A name as yaml takes it for a text."""
    plain = all(c.isalnum() or c in "._-" for c in name) and not name.replace(".", "").isdigit() and name[:1].isalpha()
    return name if plain and name.lower() not in ("true", "false", "null", "yes", "no", "on", "off") else quoted(name)


def quoted(name: str) -> str:
    """A name in quotes."""
    return "'" + name.replace("'", "''") + "'"


def api_rules(sides: tuple[Side, Side], found: Counterparts) -> list[str]:
    """A rule for every stem, with arguments and results; a comment where calls would not meet by their numbers.

    A comment too where the two are different operations that end in one value: of the others of these two names, and
    of what goes into them, that says nothing.
    """
    partners: defaultdict[str, list[Counterpart]] = defaultdict(list)
    back: defaultdict[str, set[str]] = defaultdict(set)
    for pair in found.calls:
        mine, theirs = names(sides, pair)
        if mine.kind == "api" and mine.direction == "forward":
            partners[mine.stem].append(pair)
            back[theirs.stem].add(mine.stem)
    known = {pair.target: pair.golden for pair in found.calls}
    records = Records(sides[0].dump, sides[1].dump, load_table(), known)
    lines = []
    for stem, pairs in sorted(partners.items()):
        stems = Counter(sides[1].names[pair.golden].stem for pair in pairs)
        other = stems.most_common(1)[0][0]
        pairs = [pair for pair in pairs if sides[1].names[pair.golden].stem == other]
        places = [_places(sides, records, pairs, part) for part in ("input", "output")]
        is_numbered = all(a.number == b.number for a, b in (names(sides, pair) for pair in pairs))
        is_one = operations(stem, other, (sides[0].framework, sides[1].framework)) > STRANGERS
        is_clear = is_one and is_numbered and len(stems) == 1 and back[other] == {stem} and None not in places
        mark = "" if is_clear else "# "
        least = min(pair.confidence for pair in pairs)
        more = (
            "" if is_clear else "; their numbers or arguments do not meet everywhere, the rows of the data mapping do"
        )
        lines += [
            f"# {least:.2f} {len(pairs)} calls{more}",
            f"{mark}- ms_api: {text(stem)}",
            f"{mark}  pt_api: {text(other)}",
        ]
        for place, key in zip(places, ("args", "output"), strict=True):
            if place:
                lines.append(f"{mark}  ms_{key}: [{', '.join(map(_place, place))}]")
                lines.append(f"{mark}  pt_{key}: [{', '.join(map(_place, place.values()))}]")
    return lines


def _places(
    sides: tuple[Side, Side], records: Records, pairs: list[Counterpart], part: str
) -> dict[tuple[str, ...], tuple[str, ...]] | None:
    """Which place of the one is which of the other in all these calls; None where two of them say two things."""
    columns = sides[0].columns, sides[1].columns
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for pair in pairs:
        for row, other in records.join(pair.target, pair.golden).rows:
            if row < 0 or other < 0 or PARTS[columns[0].part[row]] != part:
                continue
            mine, theirs = columns[0].paths[columns[0].path[row]], columns[1].paths[columns[1].path[other]]
            while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
                mine, theirs = mine[:-1], theirs[:-1]
            if found.setdefault(mine, theirs) != theirs:
                return None
    return found if len(set(found.values())) == len(found) else None


def _place(path: tuple[str, ...]) -> str:
    return ".".join(path) if len(path) == 1 else quoted(".".join(path))


NOTHING = "no_counterpart"

Calls = dict[str, list[int]]
Rules = defaultdict[str, defaultdict[str, Counter[str]]]


def layer_rules(sides: tuple[Side, Side], found: Counterparts) -> list[str]:
    """Rules by class of the enclosing cell; where two cells of one class need different ones, both are comments."""
    golden_of = found.golden_of
    rules: Rules = defaultdict(lambda: defaultdict(Counter))
    for pair in found.calls:
        mine, theirs = names(sides, pair)
        if mine.kind != "cell" or mine.direction != "forward":
            continue
        outer = next((a for a in sides[0].enclosing(pair.target) if a in golden_of), None)
        around = ("", "") if outer is None else (sides[0].names[outer].path, sides[1].names[golden_of[outer]].path)
        if not (_below(mine.path, around[0]) and _below(theirs.path, around[1])):
            continue
        paths = mine.path[len(around[0]) :].lstrip("."), theirs.path[len(around[1]) :].lstrip(".")
        ours, other = _without_common_end(*paths)
        type_name = "TopLayer" if outer is None else sides[0].class_name(outer)
        rules[type_name][ours][other] += 1
    for type_name, ours, other in _functions(sides, found):
        rules[type_name][ours][other] += 1
    for type_name, ours in _astray(sides, golden_of, rules):
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


def _functions(sides: tuple[Side, Side], found: Counterparts) -> Iterator[tuple[str, str, str]]:
    """Class, own name and partner's own name of functions, as far as their order inside the class leads to no error."""
    golden_of = found.golden_of
    left, right = _inside(sides[0]), _inside(sides[1])
    by_class: defaultdict[tuple[str, str], list[tuple[list[int], Calls]]] = defaultdict(list)
    for outer, mine in left.items():
        partner = golden_of.get(outer, NONE)
        if outer == NONE or partner != NONE:
            type_name = "TopLayer" if outer == NONE else sides[0].class_name(outer)
            for ours, calls in mine.items():
                by_class[type_name, ours].append((calls, right.get(partner, {})))
    for (type_name, ours), places in by_class.items():
        partners = {_own(sides[1], golden_of[a]) for calls, _ in places for a in calls if a in golden_of}
        scores = {other: _score(places, other, golden_of) for other in (ours, *sorted(partners))}
        best = max(scores, key=lambda other: (scores[other], other == ours))
        if scores[best] >= 0:
            yield type_name, ours, best
        else:
            yield type_name, ours, NOTHING


def _astray(sides: tuple[Side, Side], golden_of: dict[int, int], rules: Rules) -> set[tuple[str, str]]:
    """Class and own name of the functions of which a call, forward or backward, would get a wrong partner by the rules.

    Backward calls are counted from the end of the program, so what one side has more of stands at their beginning.
    """
    by_class = {
        type_name: {tuple(ours.split(".")): tuple(next(iter(o)).split(".")) for ours, o in of.items() if len(o) == 1}
        for type_name, of in rules.items()
    }
    paired = pair_layers(placed_calls(sides[0].dump), placed_calls(sides[1].dump), LayerRules(by_class))
    found: set[tuple[str, str]] = set()
    for a, b in paired.items():
        if sides[0].names[a].kind == "api" and golden_of.get(a, NONE) != b:
            outer = sides[0].parents[sides[0].forward_of(a)]
            found.add(("TopLayer" if outer == NONE else sides[0].class_name(outer), _own(sides[0], a)))
    return found


def _score(places: list[tuple[list[int], Calls]], other: str, golden_of: dict[int, int]) -> int:
    """How many calls meet their partners by order; -1 where one meets another."""
    count = 0
    for calls, theirs in places:
        for a, b in zip(calls, theirs.get(other, ()), strict=False):
            if golden_of.get(a, NONE) != b:
                return -1
            count += 1
    return count


def _inside(side: Side) -> dict[int, Calls]:
    """Functions by the module call around them, inner parts of layers too, and by their own names; in order."""
    found: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at in side.apis:
        found[side.parents[at]][_own(side, at)].append(at)
    return {outer: dict(calls) for outer, calls in found.items()}


def _own(side: Side, at: int) -> str:
    return side.names[at].stem.rpartition(".")[2]


def _below(path: str, outer: str) -> bool:
    return not outer or path.startswith(f"{outer}.")


def _without_common_end(ours: str, other: str) -> tuple[str, str]:
    """`blocks.0` and `h.0` differ in `blocks` and `h`; one part stays on each side."""
    mine, theirs = ours.split("."), other.split(".")
    while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    return ".".join(mine), ".".join(theirs)


KINDS = ("api", "cell", "layer", "data")
OPTIONS = {"api": "-am", "cell": "-cm", "layer": "-lm", "data": "-dm"}

_RULE = {
    kind: re.compile(text) for kind, text in {"api": "- ", "cell": "[^#]", "layer": "  [^#]", "data": "[^# ]"}.items()
}

_SAYS = {
    "api": "Functions that stand for each other, call by call in order, with their arguments and results.",
    "cell": "Path and class of a cell: path and class of its counterpart.",
    "layer": "By class of the enclosing cell: the path of a cell inside it, and what it is called there.",
    "data": "Row by row, and therefore the most particular: of one record it counts before the other three.",
}


@dataclass(frozen=True)
class Suggestion:
    """The texts of the four files by kind, and how many rules each has; an empty text where there is nothing to say."""

    texts: dict[str, str]
    rules: dict[str, int]


def suggest(target: Dump, golden: Dump, found: Counterparts) -> Suggestion:
    """The four files for what was found between two dumps."""
    sides = Side(target), Side(golden)
    written = {
        "api": api_rules(sides, found),
        "cell": _cells(sides, found),
        "layer": layer_rules(sides, found),
        "data": _data(sides, found),
    }
    texts, rules = {}, {}
    for kind, lines in written.items():
        rules[kind] = sum(bool(_RULE[kind].match(line)) for line in lines)
        head = [f"# {_SAYS[kind]}", f"# Suggested by msprobe; give it to `msprobe compare` with {OPTIONS[kind]}.", ""]
        texts[kind] = "\n".join([*head, *lines, ""]) if rules[kind] else ""
    return Suggestion(texts, rules)


def _cells(sides: tuple[Side, Side], found: Counterparts) -> list[str]:
    """A rule for every module all of whose runs have runs of one module as partners, and of no other."""
    partners: defaultdict[str, dict[str, Counterpart]] = defaultdict(dict)
    back: defaultdict[str, set[str]] = defaultdict(set)
    for pair in found.calls:
        mine, theirs = names(sides, pair)
        if mine.kind == "cell" and mine.direction == "forward":
            partners[mine.stem].setdefault(theirs.stem, pair)
            back[theirs.stem].add(mine.stem)
    lines = []
    for stem, others in partners.items():
        for other, pair in others.items():
            is_clear = len(others) == 1 and len(back[other]) == 1
            mark = "" if is_clear else "# "
            lines.append(f"{mark}{_bare(stem)}: {_bare(other)}  # {pair.confidence:.2f} {pair.reason}")
    for at, candidates in found.ambiguous.items():
        name = sides[0].names[at]
        if name.kind == "cell" and name.direction == "forward" and name.stem not in partners:
            for candidate in dict.fromkeys(sides[1].names[c].stem for c in candidates):
                lines.append(f"# {_bare(name.stem)}: {_bare(candidate)}  # one of several that it could be")
    return lines


def _data(sides: tuple[Side, Side], found: Counterparts) -> list[str]:
    """Every pair of records of every pair of calls, and for what stayed open the candidates."""
    target, golden = sides[0].dump, sides[1].dump
    records = Records(target, golden, load_table(), {pair.target: pair.golden for pair in found.calls})
    shared = Counter(pair.golden for pair in found.calls)
    lines: list[str] = []
    for pair in found.calls:
        lines.append(f"# {pair.confidence:.2f} {pair.reason}")
        mark = "# " if shared[pair.golden] > 1 else ""
        joined = records.join(pair.target, pair.golden)
        for number, (row, other) in enumerate(joined.rows):
            if row < 0 or other < 0:
                continue
            mine = target.columns.row_name(row, pair.target)
            theirs = golden.columns.row_name(other, pair.golden)
            view = joined.views.get(number)
            if view is not None and view.target:
                lines += [
                    f"{mark}{text(mine)}:",
                    f"{mark}  to: {text(theirs)}",
                    f'{mark}  transform: "{view.target}"',
                ]
            else:
                lines.append(f"{mark}{text(mine)}: {text(theirs)}")
    lines += _open(sides, found)
    return lines


def _open(sides: tuple[Side, Side], found: Counterparts) -> Iterator[str]:
    for at, candidates in found.ambiguous.items():
        yield f"# {sides[0].names[at].text} could be {' or '.join(sides[1].names[c].text for c in candidates)}"


def _bare(stem: str) -> str:
    return text(stem.partition(".")[2])
