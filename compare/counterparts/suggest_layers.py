"""The rules of `-lm` for what was found.

They speak of paths inside a class of cells, and of functions inside it by their own names, the n-th of one for the n-th
of the other. A rule is made only where no call would get a wrong partner by it; where the name that both sides share
would give one, the rule leads to nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from msprobe.mapping.layer_file import LayerRules
from msprobe.mapping.layer_tree import Told, pair_layers

from .counterpart import Counterparts
from .rules import names, text
from .side import NONE, Side

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
    paired = pair_layers(_told(sides[0]), _told(sides[1]), LayerRules(by_class))
    found: set[tuple[str, str]] = set()
    for a, b in paired.items():
        if sides[0].names[a].kind == "api" and golden_of.get(a, NONE) != b:
            outer = sides[0].parents[sides[0].forward_of(a)]
            found.add(("TopLayer" if outer == NONE else sides[0].class_name(outer), _own(sides[0], a)))
    return found


def _told(side: Side) -> list[Told]:
    calls = zip(side.dump.calls, side.names, strict=True)
    return [Told(name.text, call.parent or side.dump.construct.get(name.text), call.stack) for call, name in calls]


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
