"""What was found, as the user writes it: the four mapping files, to be looked at, edited and given back.

Every rule has its confidence and its reason in a comment. What stayed open stands in comments too, with the candidates:
to choose one is to remove the `# ` before it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from msprobe.compare.match.records import Records
from msprobe.mapping.api import load_table
from msprobe.store.record import Dump

from .counterpart import Counterpart, Counterparts
from .rules import names, text
from .side import Side
from .suggest_apis import api_rules
from .suggest_layers import layer_rules

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
            if row is None or other is None:
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
