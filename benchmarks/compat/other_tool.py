"""The other tool (`mindstudio-probe`) in an environment of its own, run as a user runs it: by its command.

Both tools install the import root `msprobe`, so they must never meet: its processes get an environment without any
`PYTHON...` variable and a working directory outside of the repository.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import openpyxl

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / ".venv-other"
VERSIONS = ("26.2.0", "8.1.1")
NEEDS = ("mindspore",)
_INSTALLED = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"

Row = dict[str, object]


def clean_environment() -> dict[str, str]:
    """This process's environment without what would lead one tool's Python to the other's packages."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"
    }
    return kept | {"PYTHONNOUSERSITE": "1", "GLOG_v": "3"}


@dataclass(frozen=True)
class OtherTool:
    """One version of it, installed in `folder`."""

    version: str
    folder: Path

    @property
    def is_old(self) -> bool:
        """Versions 1 to 8 name the framework first, take a compare.json, and write a sheet."""
        return int(self.version.split(".")[0]) < 26

    def command(self, target: Path, golden: Path, output: Path) -> list[str]:
        """The command that compares two step folders; the older form needs a compare.json, which is written here."""
        msprobe = str(self.folder / "bin" / "msprobe")
        if not self.is_old:
            return [msprobe, "compare", "-tp", str(target), "-gp", str(golden), "-o", str(output)]
        request_file = output.parent / f"{output.name}.json"
        sides = {"npu_path": str(target), "bench_path": str(golden)}
        request_file.write_text(
            json.dumps(sides | {"is_print_compare_log": False})
        )  # a line for each tensor takes time
        return [msprobe, "-f", "mindspore", "compare", "-i", str(request_file), "-o", str(output)]

    def compare(self, target: Path, golden: Path, output: Path) -> tuple[list[Row], str]:
        """The rows of its table, and all that it said. No rows where it wrote no table; its exit code does not tell."""
        command = self.command(target, golden, output)
        done = subprocess.run(command, cwd=output.parent, env=clean_environment(), capture_output=True, text=True)
        tables = sorted(output.glob("compare_result_*.xlsx" if self.is_old else "compare_result_*.csv"))
        return (read_table(tables[0]) if tables else []), done.stdout + done.stderr

    def compare_ranks(self, target: Path, golden: Path, output: Path) -> tuple[dict[str, list[Row]], str]:
        """The tables of two step folders with the same ranks in them, by the rank's folder, and all that it said."""
        command = self.command(target, golden, output)
        done = subprocess.run(command, cwd=output.parent, env=clean_environment(), capture_output=True, text=True)
        kind = "xlsx" if self.is_old else "csv"
        tables = {file.name.split("_")[2]: read_table(file) for file in output.glob(f"compare_result_rank*.{kind}")}
        return tables, done.stdout + done.stderr


def install(version: str, environments: Path = ENVIRONMENTS, needs: Sequence[str] = NEEDS) -> OtherTool:
    """Make its environment, with what else is to be in it, or take the one that is there."""
    tool = OtherTool(version, environments.absolute() / version)
    python = str(tool.folder / "bin" / "python")
    if not Path(python).exists():
        _run([sys.executable, "-m", "venv", str(tool.folder)])
    found = subprocess.run(
        [python, "-c", _INSTALLED, "mindstudio-probe", *(each.partition("=")[0] for each in needs)],
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    if found.returncode or found.stdout.split()[0] != version:
        wanted = [f"mindstudio-probe=={version}", *needs, "-c", str(HERE / "constraints.txt")]
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])
    return tool


def read_table(file: Path) -> list[Row]:
    """A table as rows by heading: all texts from a csv; numbers where a sheet holds numbers."""
    if file.suffix == ".csv":
        with file.open(encoding="utf-8-sig", newline="") as opened:
            return list(csv.DictReader(opened))
    book = openpyxl.load_workbook(file, read_only=True)
    head, *lines = book.active.iter_rows(values_only=True)
    book.close()
    return [dict(zip(head, line, strict=True)) for line in lines]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
