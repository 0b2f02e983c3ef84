"""A seeded fault and its truth, as a file of `faults/` holds them."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "faults"
SETS = ("tuning", "held-out")

KINDS = (
    "computes differently",
    "argument differs",
    "structure differs",
    "precision differs",
    "parameters differ",
    "run inputs differ",
    "code between",
)

_KEYS = {"net", "class", "small", "text", "kernel", "weight", "data", "steps", "shown", "names", "kinds", "harmless"}
_KEYS |= {"statistics", "tensor", "unseen"}

# A place: `STEM.DIRECTION#NTH @ PATH:RUN`, `* @ PATH`, `Cell.PATH:RUN`, `NAME.3.forward` or `*`, behind a side.
_PLACE = re.compile(r"(?:(?P<side>golden|torch): )?(?P<what>[^@]+?)(?: @ ?(?P<path>[\w.]*)(?::(?P<run>\d+))?)?$")


@dataclass(frozen=True)
class Place:
    """Which call may be named: `what` inside the cell `path` in its execution `run`, on one of the sides."""

    side: str
    what: str
    path: str | None
    run: int


@dataclass(frozen=True)
class Fault:
    """A seeded fault.

    `planted` is what the training process needs of it: `text` (replacements of the net's source), `kernel` (the nth
    call of a function gives a wrong value or gradient), `weight` or `data` (an array is changed). `shown` are the steps
    of which one is the first to show it, `places` say which calls may be named first, `kinds` the kinds of difference.
    `by_task` holds what is otherwise with one task, `unseen` the tasks whose records cannot show it, with the reason. A
    `harmless` one changes nothing that is used: right is to name nothing.
    """

    name: str
    net: str
    subject: str
    kinds: tuple[str, ...]
    places: tuple[str, ...]
    small: bool = False
    harmless: bool = False
    steps: int = 1
    shown: tuple[int, ...] = (0,)
    planted: dict[str, Any] = field(default_factory=dict)
    by_task: dict[str, dict[str, Any]] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)

    def places_of(self, task: str) -> list[Place]:
        """The calls that may be named with a task."""
        return [place(text) for text in (*self.places, *self.by_task.get(task, {}).get("names", ()))]

    def kinds_of(self, task: str) -> list[str]:
        """The kinds that may be given with a task."""
        return list(self.by_task.get(task, {}).get("kinds", self.kinds))


def place(text: str) -> Place:
    """A place as it is written; ValueError where it cannot be read."""
    found = _PLACE.match(text)
    if not found:
        raise ValueError(f"a place is written `STEM.DIRECTION#NTH @ PATH:RUN`, not {text!r}")
    side, what, path, run = found["side"] or "target", found["what"].strip(), found["path"], found["run"]
    if what.startswith(("Cell.", "Module.")) and path is None and not re.search(r"\.(for|back)ward", what):
        inner, _, number = what.partition(".")[2].partition(":")
        return Place(side, "itself", inner, int(number or 0))
    return Place(side, what, path, int(run or 0))


def load(chosen: str) -> list[Fault]:
    """The faults of a set, `tuning`, `held-out` or `all`; a set whose file is not there is empty."""
    files = [FOLDER / f"{name.replace('-', '_')}.yaml" for name in SETS if chosen in (name, "all")]
    entries: dict[str, dict[str, Any]] = {}
    for file in files:
        entries |= (yaml.safe_load(file.read_text()) or {}) if file.exists() else {}
    return [_fault(name, entry) for name, entry in entries.items()]


def _fault(name: str, entry: dict[str, Any]) -> Fault:
    unknown = entry.keys() - _KEYS
    kinds = tuple(entry.get("kinds", ()))
    if unknown or set(kinds) - set(KINDS):
        raise ValueError(f"{name}: unknown {sorted(unknown) or sorted(set(kinds) - set(KINDS))}")
    planted = {key: entry[key] for key in ("text", "kernel", "weight", "data") if key in entry}
    if len(planted) != 1:
        raise ValueError(f"{name}: exactly one of text, kernel, weight and data plants it")
    places = tuple(entry.get("names", ()))
    if "kernel" in planted:
        wrong = planted["kernel"]
        places = (f"{wrong['call']}.{wrong.get('nth', 0)}.{wrong.get('direction', 'forward')}", *places)
    return Fault(
        name=name,
        net=entry["net"],
        subject=entry["class"],
        kinds=kinds,
        places=places,
        small=entry.get("small", False),
        harmless=entry.get("harmless", False),
        steps=entry.get("steps", 1),
        shown=tuple(entry.get("shown", [0])),
        planted=planted,
        by_task={task: entry[task] for task in ("statistics", "tensor") if task in entry},
        unseen=entry.get("unseen", {}),
    )
