"""Merge the coverage of Python and C of a test run, write it as HTML, and print one line per package.

    python tests/support/coverage_report.py FOLDER

`make coverage` calls it. FOLDER contains `data.*`, which coverage.py wrote (one file per process), and `build`, the
objects of the extensions with the counters that gcov reads. Written into FOLDER: `html/index.html`, `summary.json`
(per file), and `packages.json` and `packages.txt` (the printed table).
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
C_SUFFIXES = (".c", ".cpp", ".h", ".inc")


def main(folder: Path) -> int:
    os.environ["COVERAGE_FILE"] = str(folder / "data")
    run("coverage", "combine", "--quiet")
    run("coverage", "xml", "--quiet", "-o", folder / "python.xml")
    run("gcovr", "--root", ROOT, folder / "build", "--json", folder / "c.json")
    merged = ["--cobertura-add-tracefile", folder / "python.xml", "--json-add-tracefile", folder / "c.json"]
    (folder / "html").mkdir(exist_ok=True)
    outputs = ["--json-summary", folder / "summary.json", "--html-nested", folder / "html" / "index.html"]
    # Macros and included headers make several functions of one line; it counts once.
    run("gcovr", "--root", ROOT, "--merge-lines", *merged, *outputs)
    files = json.loads((folder / "summary.json").read_text())["files"]
    table = packages(files)
    (folder / "packages.json").write_text(json.dumps(table, indent=1) + "\n")
    text = "\n".join(lines(table)) + "\n"
    (folder / "packages.txt").write_text(text)
    print(text, end="")
    print(f"details: {folder / 'html' / 'index.html'}")
    return 0


def run(program: str, *arguments: object) -> None:
    """Run a tool of this environment in the root of the repository."""
    command = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    subprocess.run(command, cwd=ROOT, check=True)


def packages(files: list[dict]) -> dict[str, dict[str, int]]:
    """Return covered and executable lines of each package, for Python and C."""
    counts: dict[str, Counter[str]] = {}
    for file in files:
        path = Path(file["filename"])
        language = "c" if path.suffix in C_SUFFIXES else "python"
        package = "/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0]
        for name in (package, "total"):
            counted = counts.setdefault(name, Counter())
            counted[f"{language}_covered"] += file["line_covered"]
            counted[f"{language}_lines"] += file["line_total"]
    total = counts.pop("total", Counter())
    return {name: dict(counts[name]) for name in sorted(counts)} | {"total": dict(total)}


def lines(table: dict[str, dict[str, int]]) -> list[str]:
    """Return the table as text: package, Python lines and share covered, C lines and share covered."""
    width = max(map(len, table))
    made = [f"{'package':{width}}  {'Python':>7} {'covered':>8}  {'C':>6} {'covered':>8}"]
    for name, counted in table.items():
        cells = [cell(counted, language, size) for language, size in (("python", 7), ("c", 6))]
        made.append(f"{name:{width}}  {'  '.join(cells)}")
    return made


def cell(counted: dict[str, int], language: str, width: int) -> str:
    """Return the number of lines and the covered share, blank for a package without code of this language."""
    if not (count := counted.get(f"{language}_lines", 0)):
        return f"{'':{width}} {'':8}"
    return f"{count:{width}} {counted[f'{language}_covered'] / count:8.1%}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
