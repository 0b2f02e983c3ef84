"""The bugs and what may be named for each: read, and held against an answer."""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
SETS = {"tuning": HERE / "bugs_tuning.yaml", "held out": HERE / "bugs_held_out.yaml"}
ROOT = "the root"
"""What the comparison calls the place outside of all cells; in a pattern it is empty."""
REAL = HERE / "real_differences.yaml"


@dataclass(frozen=True)
class Truth:
    """What a comparison should say; without `where` it should say nothing."""

    where: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def accepts(self, finding):
        """Whether a finding (an entry of `first_wrong`) names one of the calls."""
        return any(_matches(pattern, finding["name"], finding["cell"]) for pattern in self.where)

    def accepts_kind(self, finding):
        """Whether it is said of the right kind."""
        return finding["kind"].startswith(self.kinds)


def bugs(sets=("tuning", "held out")):
    """The planted bugs by name, as they are written, each with its set."""
    found = {}
    for name in sets:
        if SETS[name].exists():
            found |= {key: {**bug, "set": name} for key, bug in (yaml.safe_load(SETS[name].read_text()) or {}).items()}
    return found


def real_differences():
    """Differences that a clean port really has, by model, as they are written."""
    return yaml.safe_load(REAL.read_text()) or {}


def truth_of(written):
    """The truth of a bug or a real difference; of None, that of a clean pair."""
    return Truth(tuple(written["where"]), tuple(written["kinds"])) if written else Truth()


def _matches(pattern, name, cell):
    operation, _, place = pattern.partition(" @ ")
    backward = place.endswith(" backward")
    place = place.removesuffix(" backward")
    direction, operation_named, own = _parts(name)
    return (
        direction == ("backward" if backward else "forward")
        and re.fullmatch(operation, operation_named) is not None
        and re.fullmatch(place, cell.replace(ROOT, "") if own is None else own) is not None
    )


def _parts(name):
    """Direction, operation and, of a cell, its own path: `Cell.a.b.Dense.forward.0` or `Tensor.view.3.forward`."""
    parts = name.split(".")
    if parts[0] in ("Cell", "Module"):
        return parts[-2], parts[-3], ".".join(parts[1:-3])
    return parts[-1], parts[-3], None
