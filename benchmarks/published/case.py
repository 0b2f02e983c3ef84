"""A case: a published bug, its source, and what a tool should say about it."""

import ast
import importlib.util
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

CASES = Path(__file__).parent / "cases"
PLANNED = ("mindspore", "pytorch")
ROOT = "the root"
"""The cell of calls outside all recorded cells, in answers."""


@dataclass(frozen=True)
class Truth:
    """The answers that are accepted; written before the tool is run on the case.

    `calls` has patterns of `NAME @ CELL`, `parameters` the names of parameters one of which the finding has to contain,
    `kinds` the names of kinds of docs/en/reference/findings.md. `step` and `rank` restrict the answer, if they are
    given. `check` lists the invariants of `msprobe check` that the buggy run violates; empty where none can show it.
    """

    kinds: tuple[str, ...]
    calls: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    step: int | None = None
    rank: int | None = None
    check: tuple[str, ...] = ()

    def accepts_place(self, finding: dict) -> bool:
        """Return whether a finding of a JSON answer has an accepted call or parameter, step and rank."""
        place = finding["place"]
        for wanted, found in ((self.step, place["step"]), (self.rank, place["rank"])):
            if wanted is not None and found is not None and wanted != found:
                return False
        return self.accepts_name(place["name"], place["cell"]) or any(
            name in f"{finding['message']} {finding['fields']}" for name in self.parameters
        )

    def accepts_name(self, name: str, cell: str | None) -> bool:
        """Return whether a call, in its cell, is an accepted one."""
        text = f"{name} @ {'' if cell in (None, ROOT) else cell}"
        return any(fnmatchcase(text, pattern if "@" in pattern else f"{pattern} @ *") for pattern in self.calls)

    def accepts_kind(self, finding: dict) -> bool:
        """Return whether the kind of a finding is accepted."""
        return finding["kind"] in self.kinds


@dataclass(frozen=True)
class Case:
    """A file of `cases/`."""

    name: str
    title: str
    source: str
    framework: str
    ranks: int
    half: int
    truth: Truth
    path: Path

    def train(self, run) -> None:
        """Execute the training; imports its framework."""
        _module(self.path).train(run)


def load(path: Path) -> Case:
    """Read the header of a case without importing its framework."""
    header = {}
    source = path.read_text()
    for line in _header(source):
        exec(line, {"Truth": Truth}, header)
    title = source.split('"""')[1].strip().splitlines()[0].rstrip(".")
    return Case(
        path.stem,
        title,
        header["SOURCE"],
        header["FRAMEWORK"],
        header.get("RANKS", 1),
        header["HALF"],
        header["TRUTH"],
        path,
    )


def load_all() -> list[Case]:
    """Return all cases, by name."""
    return [load(path) for path in sorted(CASES.glob("*.py"))]


def _header(source: str) -> list[str]:
    """The assignments of capitalized names at the top level."""
    tree = ast.parse(source)
    wanted = {"SOURCE", "FRAMEWORK", "RANKS", "HALF", "TRUTH"}
    return [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in wanted
    ]


def _module(path: Path):
    spec = importlib.util.spec_from_file_location(f"published_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
