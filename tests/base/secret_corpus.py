"""Planted secrets and harmless settings, and what the packer and the readers of source lines make of each of them."""

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "secrets"
SUFFIXES = {"yaml": ".yaml", "json": ".json", "shell": ".sh"}


@dataclass(frozen=True)
class Case:
    """A setting in its context: what must be hidden or kept, and the text that holds it."""

    kind: str
    wanted: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text!r}"


def read(name):
    """Return the cases of a file."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    found = (line.split(" | ", 2) for line in lines if line and not line.startswith("#"))
    return [Case(kind, wanted, text.replace("\\n", "\n")) for kind, wanted, text in found]


def write(case, folder, number):
    """Write the case as a file of its kind that is given to `config_check -d`; None for the other kinds."""
    if case.kind not in SUFFIXES:
        return None
    path = folder / f"{number}{SUFFIXES[case.kind]}"
    path.write_text(case.text, encoding="utf-8")
    return path


def variable(case):
    """Return the name and the value of the environment variable that holds the case, if it has one."""
    if case.kind == "env":
        return case.text.partition("=")[::2]
    return ("LAUNCHED_WITH", case.text) if case.kind in ("command", "text") else None


def packed(case, folder, number=0):
    """Return everything that is written of a case, as one text: by the functions that make the entries of a pack."""
    from msprobe.base.redaction import Redactor
    from msprobe.config_check.static import environment, of_scripts

    redactor = Redactor()
    if path := write(case, folder, number):
        found = of_scripts([path], redactor)
    elif held := variable(case):
        found = [environment(dict([held]), redactor), redactor.setting("note", held[1])]
        if case.kind == "env":
            found = found[:1]
    else:
        found = redactor.source(case.text)
    return found


def texts(found):
    """Return every text and number in what was written."""
    if isinstance(found, dict):
        return [each for pair in found.items() for value in pair for each in texts(value)]
    if isinstance(found, list | tuple):
        return [str(found), json.dumps(found), *(each for value in found for each in texts(value))]
    return [str(found), json.dumps(found)]
