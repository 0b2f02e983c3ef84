"""The rules of `-am` for what was found."""

from collections import Counter, defaultdict

from msprobe.compare.match.records import Records
from msprobe.mapping.api import load_table
from msprobe.store.columns import PARTS

from .counterpart import Counterpart, Counterparts
from .kinship import STRANGERS, operations
from .rules import names, quoted, text
from .side import Side


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
            if row is None or other is None or PARTS[columns[0].part[row]] != part:
                continue
            mine, theirs = columns[0].paths[columns[0].path[row]], columns[1].paths[columns[1].path[other]]
            while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
                mine, theirs = mine[:-1], theirs[:-1]
            if found.setdefault(mine, theirs) != theirs:
                return None
    return found if len(set(found.values())) == len(found) else None


def _place(path: tuple[str, ...]) -> str:
    return ".".join(path) if len(path) == 1 else quoted(".".join(path))
