"""Apply each mutation of mutations.yaml to a copy of the installed package, and see which tests notice it.

    python tests/mutations/run.py [--only NAME ...] [--bare-python PYTHON] [--results FILE] [--check]

The tests of a mutation are run as `make test` runs them, with some of the cases; if none fails, once more with
`--all-cases`. What is done stands in FILE, one line a mutation, and is not run again. Exit code: 0 every mutation is
caught by the short tests, 1 not so.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OWN = "msprobe_ms"
"""The folder that is installed as `msprobe`; the others are installed into it."""

SHORT, ALL, NONE = "short", "all cases", "none"

_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_TESTS_FAILED, _INTERRUPTED = 1, 2
"""Exit codes of pytest; interrupted: a file of tests cannot be imported."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A fault: the text `find`, which stands once in `file`, becomes `replace`.

    `bare`: its `tests` run without any framework.
    """

    name: str
    what: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    bare: bool = False

    def applied(self, text: str) -> str:
        """Return the source with the fault. ValueError where it cannot be applied, SyntaxError for invalid Python."""
        if (count := text.count(self.find)) != 1:
            raise ValueError(f"{self.name}: `find` stands {count} times in {self.file}")
        changed = text.replace(self.find, self.replace)
        if self.file.endswith(".py"):
            compile(changed, self.file, "exec")
        return changed

    @property
    def installed(self) -> Path:
        """The file's path in the installed package."""
        return Path(self.file).relative_to(OWN) if self.file.startswith(f"{OWN}/") else Path(self.file)


@dataclass(frozen=True)
class Outcome:
    """What noticed a mutation: `caught` by the short tests, by all cases or by none, `by` which test, in `seconds`."""

    caught: str
    by: str
    seconds: float


def main() -> int:
    args = arguments()
    mutations = read(args.only)
    for mutation in mutations:
        mutation.applied((ROOT / mutation.file).read_text())
        if missing := [path for path in mutation.tests if not (ROOT / path).exists()]:
            raise SystemExit(f"{mutation.name}: there is no {', '.join(missing)}")
    if args.check:
        print(f"{len(mutations)} mutations can be applied")
        return 0
    known = done_before(args.results)
    rest = [mutation for mutation in mutations if key(mutation) not in known]
    print(f"{len(mutations)} mutations, {len(mutations) - len(rest)} done before", flush=True)
    with args.results.open("a") as results, ThreadPoolExecutor(args.processes) as pool:

        def judged(mutation: Mutation) -> None:
            try:
                outcome = judge(mutation, args.bare_python if mutation.bare else args.python)
            except RuntimeError as cause:  # the others are judged all the same
                print(f"{mutation.name}: {cause}", flush=True)
                return
            known[key(mutation)] = outcome
            print(json.dumps({"mutation": asdict(mutation), "outcome": asdict(outcome)}), file=results, flush=True)
            print(f"{mutation.name}: {outcome.caught}, {outcome.by} ({outcome.seconds:.0f} s)", flush=True)

        list(pool.map(judged, rest))
    found = [(mutation, known[key(mutation)]) for mutation in mutations if key(mutation) in known]
    print(table(found))
    return 0 if len(found) == len(mutations) and all(outcome.caught == SHORT for _, outcome in found) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the mutations only")
    parser.add_argument("--processes", type=int, default=1, help="mutations at once")
    parser.add_argument(
        "--python", type=os.path.abspath, default=sys.executable, help="runs tests that need MindSpore or torch"
    )
    bare = str(ROOT / ".venv-bare/bin/python")
    parser.add_argument("--bare-python", type=os.path.abspath, default=bare, help="runs all other tests")
    parser.add_argument("--results", type=Path, default=Path("mutations.jsonl"), help="what is done; taken up again")
    parser.add_argument("--check", action="store_true", help="only see whether each mutation can be applied")
    return parser.parse_args()


def read(only: Sequence[str] | None = None) -> list[Mutation]:
    """The mutations of mutations.yaml; SystemExit for a name that is none, or is there twice."""
    listed = yaml.safe_load((HERE / "mutations.yaml").read_text())
    every = {each["name"]: Mutation(**{**each, "tests": tuple(each["tests"])}) for each in listed}
    if len(every) < len(listed):
        raise SystemExit("mutations.yaml: two mutations have one name")
    if unknown := set(only or ()) - every.keys():
        raise SystemExit(f"there is no mutation {', '.join(sorted(unknown))}")
    return [every[name] for name in only or every]


def key(mutation: Mutation) -> str:
    """What an outcome belongs to: another text, or other tests, are another mutation."""
    return json.dumps(asdict(mutation))


def done_before(results: Path) -> dict[str, Outcome]:
    """The outcomes in the file; a last line that was cut off is none."""
    found = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        try:
            done = json.loads(line)
        except ValueError:
            continue
        found[json.dumps(done["mutation"])] = Outcome(**done["outcome"])
    return found


def judge(mutation: Mutation, python: str) -> Outcome:
    """Run the tests on a copy of the package with the fault: short, and all cases where these notice nothing."""
    begin = perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        environment = mutated(mutation, python, Path(folder))
        for caught, options in ((SHORT, []), (ALL, ["--all-cases"])):
            if by := noticed(mutation.tests, python, environment, Path(folder), options):
                return Outcome(caught, by, perf_counter() - begin)
    return Outcome(NONE, "", perf_counter() - begin)


def mutated(mutation: Mutation, python: str, folder: Path) -> dict[str, str]:
    """Copy the package that `python` imports into a folder, with the fault; gives an environment that imports it."""
    copy = folder / "first" / "msprobe"
    shutil.copytree(
        _package(python, folder, os.environ), copy
    )  # compiled files too, for they know their sources' times
    if mutation.file.endswith(".py"):
        file = copy / mutation.installed
        file.write_text(mutation.applied(file.read_text()))
    else:
        build_extension(mutation, python, folder)
    path = os.pathsep.join(filter(None, [str(copy.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    if (imported := _package(python, folder, environment)) != copy:
        raise RuntimeError(f"{python} imports {imported}, not the copy in {copy}")
    return environment


_BUILD = """
import runpy, setuptools, sys
setup, file, out = setuptools.setup, sys.argv[1], sys.argv[2]
def of_the_file(**how):
    every = how["ext_modules"]
    how["ext_modules"] = [one for one in every if file in (*one.sources, *one.depends)]
    for one in how["ext_modules"]:
        one.optional = False
    setup(**how)
setuptools.setup = of_the_file
sys.argv = ["setup.py", "-q", "build_ext", "--build-lib", out, "--build-temp", out + "-objects"]
runpy.run_path("setup.py", run_name="__main__")
"""
"""Builds the extensions that a file of C or C++ is part of."""


def build_extension(mutation: Mutation, python: str, folder: Path) -> None:
    """Build the extensions that the file is part of, with the fault, into the copy of the package."""
    sources = folder / "sources"
    shutil.copytree(ROOT / OWN, sources / OWN, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for name in ("cell_dump", "graph_save", "compare", "mapping", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    file = sources / mutation.file
    file.write_text(mutation.applied(file.read_text()))
    command = [python, "-c", _BUILD, mutation.file, str(folder / "first")]
    done = subprocess.run(command, cwd=sources, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{mutation.file} cannot be built: {(done.stdout + done.stderr)[-2000:]}")


def _package(python: str, folder: Path, environment: Mapping[str, str]) -> Path:
    code = "import msprobe; print(*msprobe.__path__)"
    return Path(subprocess.check_output([python, "-c", code], cwd=folder, env=environment, text=True).strip())


def noticed(
    tests: Sequence[str], python: str, environment: Mapping[str, str], folder: Path, options: Sequence[str]
) -> str:
    """The test that fails first; empty where all pass. RuntimeError where they could not be run."""
    command = [python, "-m", "pytest", "-x", "-q", "--timeout", "900", "-p", "no:cacheprovider"]
    command += ["--basetemp", str(folder / "tests"), *options, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    failed = _FAILED.search(done.stdout)
    if done.returncode not in (_TESTS_FAILED, _INTERRUPTED) or failed is None:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return failed[1]


def table(found: Sequence[tuple[Mutation, Outcome]]) -> str:
    """The outcomes in Markdown."""
    lines = ["", "| mutation | caught by | test | seconds |", "|---|---|---|---|"]
    lines += [f"| {one.what} | {outcome.caught} | {outcome.by} | {outcome.seconds:.0f} |" for one, outcome in found]
    counts = [f"{sum(outcome.caught == word for _, outcome in found)} by {word}" for word in (SHORT, ALL, NONE)]
    return "\n".join([*lines, "", f"{len(found)} mutations, caught: {', '.join(counts)}"])


if __name__ == "__main__":
    sys.exit(main())
