"""Judge the dump of a debugger by the gate, in another process, so that collecting does not depend on comparing."""

import subprocess
import sys
from os import PathLike
from pathlib import Path

from msprobe.base.errors import UsageError

SUFFIX = ".golden"


def golden_file(golden: "str | PathLike[str]") -> Path:
    """Return the path of a golden file; the suffix may be omitted."""
    path = Path(golden)
    return path if path.name.endswith(SUFFIX) else path.with_name(path.name + SUFFIX)


def judge(path: Path, dump: Path, reason: str) -> int:
    """Check a dump against a golden file, and return the exit code of `msprobe gate check`.

    With a `reason`, write the golden instead: a new one, or the changes into an existing one. UsageError if there is
    no golden and no reason.
    """
    if not path.is_file() and not reason:
        raise UsageError(
            f"gate(): {path} does not exist; write it once with gate({path.stem!r}, update=REASON), and add it to git"
        )
    words = ["check"]
    if reason:
        words = ["accept", "--all", "--reason", reason] if path.is_file() else ["record"]
    command = [sys.executable, "-m", "msprobe", "gate", *words, "--golden", str(path), "--target", str(dump)]
    return subprocess.run(command, check=False).returncode
