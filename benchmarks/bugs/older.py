"""An environment with an older MindSpore, whose reruns are compared with those of this one."""

import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

OLDER = "mindspore-2.7.1"
"""The oldest version whose gradients are each call's own, as the later ones' are."""


def interpreter(folder: Path) -> str:
    """The Python of the environment, which is made in `folder` if it is not there, with this msprobe-ms in it."""
    python = folder.absolute() / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(folder)])
    version = OLDER.rpartition("-")[2]
    if subprocess.run([python, "-c", "import mindspore"], capture_output=True).returncode:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, f"mindspore=={version}", "numpy<2", "setuptools<80", "PyYAML", "openpyxl"])
    _copy_ours(python)
    return str(python)


def _copy_ours(python: Path) -> None:
    """Put the msprobe that runs here into the other environment, file by file: both sides have one recorder."""
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    for file in distribution("msprobe-ms").files or ():
        if file.parts[0].startswith("msprobe"):
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), site / file)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
