"""Record and check goldens of trainings, in processes that have the framework imported already."""

import json
import subprocess
import sys
from pathlib import Path

from preloaded import python


def gate(words, folder):
    """Run `msprobe gate` in a folder."""
    command = [sys.executable, "-m", "msprobe", "gate", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def record(folder, framework, training):
    """Write `gpt.golden` of a training into a folder."""
    Path(folder).mkdir(exist_ok=True)
    done = gate(["record", "--golden", "gpt.golden", "--", python(framework), training], folder)
    assert done.returncode == 0, done.stderr


def check(golden, framework, training, change, folder):
    """Check a changed training; the document of the answer is left in the folder as `answer.json`."""
    done = gate(["check", "--golden", golden, "--json", "--", python(framework), training, change], folder)
    (folder / "answer.json").write_text(done.stdout)
    return done


def last_line(done):
    """The last line of the answer, as the document has it."""
    return json.loads(done.stdout)["answer"]
