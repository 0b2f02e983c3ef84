"""Programs in processes of their own that need not import a framework: `python("mindspore")` runs them.

For tests that show what a training does, and not how a process begins: the import of MindSpore takes 4 s of a
processor, longer than most of these trainings.
"""

import atexit
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def python(*modules: str) -> Path:
    """What runs a program as `python` does, in a process that has the modules imported; it lies in a folder of its own,
    which may be the first of `PATH`."""
    folder = Path(tempfile.mkdtemp(prefix="msprobe-preloaded-"))
    program, path = folder / "python", str(folder / "socket")
    server = subprocess.Popen(
        [sys.executable, HERE / "preloading_server.py", path, *modules],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    atexit.register(end, server, folder)
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError(f"{' '.join(modules)} could not be imported")
    known = f"SOCKET, PYTHON, PROGRAM = {path!r}, {sys.executable!r}, {str(program)!r}"
    program.write_text(f"#!{sys.executable} -IS\n{known}\n{(HERE / 'preloaded_program.py').read_text()}")
    program.chmod(0o755)
    return program


def end(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.kill()
    server.communicate()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
