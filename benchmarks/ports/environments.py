"""The two environments: PyTorch with the originals, MindSpore with the ports; each made once."""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDER = ROOT / ".venv-ports"
SIDES = {"golden": "pytorch", "target": "mindspore"}


def python(side, wheel=None):
    """The interpreter of a side (`golden`, `target`), after making its environment if need be.

    `wheel` is a wheel of msprobe-ms; without it the repository is built and installed.
    """
    framework = SIDES[side]
    folder, lists = FOLDER / framework, [HERE / f"requirements-{framework}.txt", HERE / f"packages-{framework}.txt"]
    mark = folder / "made"
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in lists)).hexdigest()
    interpreter = folder / "bin" / "python"
    if not mark.exists() or mark.read_text() != wanted:
        print(f"making {folder}, which takes some minutes", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        _pip(interpreter, "--requirement", lists[0])
        _pip(interpreter, "--no-deps", "--requirement", lists[1])
        mark.write_text(wanted)
    _pip(interpreter, "--no-deps", "--force-reinstall", wheel or ROOT)
    return interpreter


def _pip(interpreter, *arguments):
    command = [interpreter, "-m", "pip", "install", "--quiet", *arguments]
    subprocess.run([str(part) for part in command], check=True)
