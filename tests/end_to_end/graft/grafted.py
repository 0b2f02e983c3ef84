"""Collect trainings with all tensors, and prove their faults, in processes that have the framework imported already."""

import json
import os
import subprocess
import sys
from pathlib import Path

from preloaded import python

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "gate")


def script(training):
    """Return the path of a training of this folder, or of the gate's."""
    return str(next(path for folder in FOLDERS if (path := folder / training).is_file()))


def collect(folder, framework, training, change):
    """Collect three steps of a changed training into `dump` of a folder."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    settings = {"task": "tensor", "level": "mix", "step": [0, 1, 2], "dump_path": str(folder / "dump")}
    (folder / "settings.json").write_text(json.dumps(settings))
    command = [python(framework), script(training), change]
    environment = os.environ | {"MSPROBE_SETTINGS": str(folder / "settings.json")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "dump"


def graft(target, golden, framework, training, change, folder, *options):
    """Run `msprobe graft`; return the exit code and the document."""
    command = [sys.executable, "-m", "msprobe", "graft", str(target), str(golden), "--json", *options]
    words = ["--", python(framework), script(training), change]
    done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def estimate(target, golden, folder, *options):
    """Run `msprobe graft --offline`; return the exit code, the document and the log."""
    command = [sys.executable, "-m", "msprobe", "graft", str(target), str(golden), "--offline", "--json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr
