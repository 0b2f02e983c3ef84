"""Compile every C source of the repository with gcc's static analyzer; a warning is an error.

    python tests/support/analyzed.py

gcc 12 follows the paths through a function, and through those that it calls, and reports memory that is leaked, freed
twice or read where it may not be. Sources in C++ are left out: its analyzer does not know the language.
"""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FLAGS = (
    "-O1",
    "-fanalyzer",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    f"-I{sysconfig.get_path('include')}",
    "-Imsprobe_ms/base",
)


def main():
    listed = subprocess.run(["git", "ls-files", "*.c"], cwd=ROOT, capture_output=True, text=True, check=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for source in listed.stdout.split():
            print(source, flush=True)
            command = ["gcc", *FLAGS, "-c", source, "-o", str(Path(folder) / "object.o")]
            failed += subprocess.run(command, cwd=ROOT, check=False).returncode != 0
    sys.exit(f"{failed} sources with findings" if failed else 0)


if __name__ == "__main__":
    main()
