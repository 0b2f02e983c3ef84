"""Run tests on extensions that were built with AddressSanitizer and UndefinedBehaviorSanitizer.

    python tests/support/sanitized.py [--build FOLDER] ARGUMENTS OF PYTHON ...

for example `python tests/support/sanitized.py -m pytest -q tests/store`.

The extensions are built from this tree into a copy of the installed package in FOLDER (by default below the environment
of this Python), which comes first on the path of the tests and of the processes that they start. A finding of a
sanitizer ends the process with a report, so the test that caused it fails. The memory of Python's objects comes from
malloc, which AddressSanitizer watches. Leaks are not searched: Python itself keeps memory until it ends.

Needs gcc with its sanitizers, or exits with a message.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"

OPTIONS = {
    # Tests map more memory than there is, and look how large a process is.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",
    "MSPROBE_SANITIZED": "1",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path(sys.prefix) / "sanitized", metavar="FOLDER")
    args, arguments = parser.parse_known_args()
    build(args.build)
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment(args.build)}, check=False).returncode


def build(folder):
    """Copy the installed package into the folder, with extensions that have the sanitizers built in."""
    shutil.rmtree(folder, ignore_errors=True)
    installed = Path(sysconfig.get_path("platlib")) / "msprobe"
    shutil.copytree(installed, folder / "msprobe", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    temporary = folder / "objects"
    command = [sys.executable, "setup.py", "-q", "build_ext", "--force"]
    command += ["--build-lib", str(folder), "--build-temp", str(temporary)]
    flags = {"CFLAGS": FLAGS, "CXXFLAGS": FLAGS, "LDFLAGS": FLAGS, "MSPROBE_STRICT": "1"}
    subprocess.run(command, cwd=ROOT, env={**os.environ, **flags}, check=True)
    shutil.rmtree(temporary)
    missing = {path.name for path in installed.rglob("*.so")} - {path.name for path in folder.rglob("*.so")}
    if missing:
        sys.exit(f"not built with sanitizers: {', '.join(sorted(missing))}")


def environment(folder):
    """Return the variables with which a Python uses that build; libstdc++ is there for exceptions of C++."""
    libraries = [library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")]
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**OPTIONS, "LD_PRELOAD": " ".join(libraries), "PYTHONPATH": os.pathsep.join(path)}


def library(name):
    """Return the path of a library of the compiler."""
    compiler = sysconfig.get_config_var("CC").split()[0]
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(found.stdout.strip())
    if not path.is_absolute():
        sys.exit(f"{compiler} has no {name}: install gcc with its sanitizers")
    return str(path.resolve())


if __name__ == "__main__":
    sys.exit(main())
