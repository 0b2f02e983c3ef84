"""Rules of mapping files as text."""

from msprobe.base.names import Name

from .counterpart import Counterpart
from .side import Side


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
