"""The files of the repository and its modules, for the tests of the architecture."""

import ast
import importlib.util
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _roots():
    """The table of setup.py: folder to import name. Read, not run: running it would build."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    table = next(n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and n.targets[0].id == "ROOTS")
    return ast.literal_eval(table)


@dataclass(frozen=True)
class Import:
    """One name that a module imports, `module` in full: `from .measure import cosine` in `msprobe.compare.judge` is
    `msprobe.compare.measure`, one dot."""

    module: str
    line: int
    dots: int


@dataclass(frozen=True)
class Module:
    """One Python file of the packages."""

    name: str
    file: Path

    @property
    def is_package(self):
        return self.file.name == "__init__.py"

    @property
    def package(self):
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def tree(self):
        return ast.parse(self.file.read_text())

    @cached_property
    def imports(self):
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [Import(alias.name, node.lineno, 0) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [Import(name, node.lineno, node.level) for name in self._sources(node)]
        return found

    def _sources(self, node):
        """The modules behind `from X import a, b`: X, or X.a where that is a module."""
        dots = node.level
        base = importlib.util.resolve_name("." * dots + (node.module or ""), self.package) if dots else node.module
        inner = [f"{base}.{alias.name}" for alias in node.names]
        return sorted({name if _is_ours(name) else base for name in inner})


def _is_ours(name):
    """Whether a dotted name is a file of the packages."""
    for folder, root in sorted(ROOTS.items(), key=lambda item: -len(item[1])):
        if name == root or name.startswith(root + "."):
            path = ROOT / folder / Path(*name[len(root) + 1 :].split("."))
            return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
    return False


def _module_name(file):
    parts = list(file.relative_to(ROOT).with_suffix("").parts)
    name = ".".join([ROOTS[parts[0]], *parts[1:]])
    return name.removesuffix(".__init__")


def _tracked():
    """What git holds, with what it would take if asked; without git, what is there."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False) if shutil.which("git") else None
    )
    if listed is not None and listed.returncode == 0:
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        folders = [*ROOTS, "tests", "docs", "examples", "benchmarks", "changes", ".ci", ".github"]
        files = [f for folder in folders for f in (ROOT / folder).rglob("*") if "__pycache__" not in f.parts]
        files += [f for f in ROOT.iterdir() if f.suffix in (".md", ".py", ".toml") or f.name == "Makefile"]
    return sorted(f for f in files if f.is_file() and f.suffix not in (".so", ".pyc"))


ROOTS = _roots()


@pytest.fixture(scope="session")
def root():
    """The top folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def roots():
    """Folder to import name, as setup.py has it."""
    return ROOTS


@pytest.fixture(scope="session")
def files():
    """Every file of the repository."""
    return _tracked()


@pytest.fixture(scope="session")
def modules(files):
    """Every Python file of the product."""
    inside = [f for f in files if f.relative_to(ROOT).parts[0] in ROOTS and f.suffix == ".py"]
    return [Module(_module_name(f), f) for f in inside]
