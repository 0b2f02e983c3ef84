"""Importing patches nothing, seeds nothing, prints nothing, creates nothing; the command is there at once."""

import json
import os
import subprocess
import sys
import sysconfig
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

FACES = [
    *("msprobe", "msprobe.core"),
    *("msprobe.core.single_save.single_saver", "msprobe.core.single_save.single_comparator"),
    *(["msprobe.mindspore"] if find_spec("mindspore") else []),
    *(["msprobe.pytorch"] if find_spec("torch") else []),
]

PLACES = [
    # where msprobe 8.1 has a name, and where it is here
    ("msprobe.msprobe", "main", "msprobe.cli"),
    ("msprobe.core.single_save.single_saver", "SingleSave", "msprobe.core"),
    ("msprobe.core.single_save.single_comparator", "SingleComparator", "msprobe.core"),
    *(
        [("msprobe.mindspore.common.utils", name, "msprobe.mindspore") for name in ("MsprobeStep", "MsprobeInitStep")]
        + [("msprobe.mindspore.common.utils", "seed_all", "msprobe.mindspore")]
        if find_spec("mindspore")
        else []
    ),
    *([("msprobe.pytorch.common.utils", "seed_all", "msprobe.pytorch")] if find_spec("torch") else []),
    *([("msprobe.pytorch.online_dispatch", "PtdbgDispatch", "msprobe.pytorch")] if find_spec("torch") else []),
    *([("msprobe.pytorch.monitor.module_hook", "TrainerMon", "msprobe.pytorch")] if find_spec("torch") else []),
    *([("msprobe.mindspore.monitor.module_hook", "TrainerMon", "msprobe.mindspore")] if find_spec("mindspore") else []),
]


@pytest.mark.parametrize(("place", "name", "source"), PLACES)
def test_names_are_where_msprobe_has_them_and_the_same_objects(place, name, source):
    assert getattr(import_module(place), name) is getattr(import_module(source), name)


# A snapshot of whatever an import could change, as one JSON text; functions and classes by identity.
LOOK = """
import json, logging, os, random, signal, sys, threading, warnings

def look():
    import numpy
    seen = {
        "random": hash(random.getstate()),
        "numpy": numpy.random.get_state()[1].tobytes().hex(),
        "environment": dict(os.environ),
        "folder": os.listdir("."),
        "threads": threading.active_count(),
        "hooks": [id(sys.excepthook), id(signal.getsignal(signal.SIGTERM)), sys.gettrace() is None],
        "warnings": len(warnings.filters),
        "logging": [id(h) for h in logging.getLogger().handlers],
    }
    if "mindspore" in sys.modules:
        import mindspore
        from mindspore import Tensor, Parameter, mint, nn, ops
        owners = [mindspore, ops, mint, mint.nn.functional, nn, Tensor, Parameter, nn.Cell, ops.Primitive]
        seen["framework"] = [{k: id(v) for k, v in vars(o).items() if callable(v)} for o in owners]
        seen["seed"] = [mindspore.get_seed(), mindspore.get_rng_state().asnumpy().tobytes().hex()]
    if "torch" in sys.modules:
        import torch
        owners = [torch, torch.nn.functional, torch.Tensor, torch.nn.Module, torch.autograd]
        seen["torch"] = [{k: id(v) for k, v in vars(o).items() if callable(v)} for o in owners]
        seen["torch seed"] = [torch.initial_seed(), torch.get_rng_state().numpy().tobytes().hex()]
    return json.dumps(seen, sort_keys=True)
"""


def python(code, folder, **environment):
    """Run code in a process of its own, in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("public", FACES)
def test_importing_a_face_changes_nothing_and_says_nothing(public, tmp_path):
    first = {
        "msprobe.mindspore": "import mindspore",
        "msprobe.pytorch": "import torch, torch.distributed, torch.utils.checkpoint",
    }.get(public, "import numpy")
    mark = "-- from here on it is ours --"
    code = f"""{LOOK}
{first}
before = look()
for stream in (sys.stdout, sys.stderr):
    print({mark!r}, file=stream, flush=True)
import {public}
[getattr({public}, name) for name in getattr({public}, "__all__", ())]
sys.stdout.flush(), sys.stderr.flush()
assert "msprobe" in sys.modules
after = look()
before, after = json.loads(before), json.loads(after)
changed = [key for key in after if before[key] != after[key]]
assert not changed, changed
"""
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(mark)[1].strip() == ""
    assert done.stderr.split(mark)[1].strip() == ""
    assert not list(tmp_path.iterdir())


def test_msprobe_alone_imports_no_framework_and_no_numpy(tmp_path):
    done = python(
        "import sys, msprobe; print([m for m in ('mindspore', 'torch', 'numpy') if m in sys.modules])", tmp_path
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_debugger_brings_no_comparison_and_no_replay(tmp_path):
    """Only task acc_check needs them; it imports them when it is chosen."""
    code = "import sys, msprobe.debugger\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in done.stdout.split() if name.startswith("msprobe.")}
    assert "cell_dump" in loaded
    assert not loaded & {"compare", "replay", "precheck", "report"}


def test_help_costs_little_more_than_an_interpreter(tmp_path):
    command = Path(sysconfig.get_path("scripts")) / "msprobe"
    assert command.is_file()
    bare = [sys.executable, "-c", "import argparse, difflib, inspect"]
    ratios = []
    for _ in range(10):  # the machine may be busy, with one as with the other
        begin = time.perf_counter()
        subprocess.run(bare, cwd=tmp_path, check=True)
        between = time.perf_counter()
        done = subprocess.run([command, "-h"], cwd=tmp_path, capture_output=True, text=True, check=True)
        ratios.append((time.perf_counter() - between) / (between - begin))
    assert "usage: msprobe" in done.stdout
    assert min(ratios) < 3


def test_help_imports_no_framework(tmp_path):
    code = """
import sys
from msprobe.cli import main
try:
    main(["-h"])
except SystemExit as end:
    assert end.code == 0
heavy = ("mindspore", "torch", "numpy", "openpyxl", "xlsxwriter", "yaml", "msprobe.compare", "msprobe.cell_dump")
print([m for m in heavy if m in sys.modules])
"""
    assert python(code, tmp_path).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "folder",
    ["mindstudio_probe-8.1.1.dist-info", "mindstudio-probe-26.0.0-py3.11.egg-info", "Mindstudio.Probe-8.1.1.dist-info"],
)
def test_the_neighbour_of_the_same_name_is_announced_once_with_the_remedy(folder, tmp_path):
    site, work = tmp_path / "site", tmp_path / "work"
    (site / folder).mkdir(parents=True)
    work.mkdir()
    done = python("import msprobe, msprobe.base.errors, msprobe.cli", work, PYTHONPATH=str(site))
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    version = "26.0.0" if "26" in folder else "8.1.1"
    assert line.startswith(f"msprobe WARNING: mindstudio-probe {version} and msprobe-ms are both installed")
    assert "pip uninstall mindstudio-probe" in line


@pytest.mark.parametrize(
    "folder", ["mindstudio_probe_extras-1.0.dist-info", "mindstudio_probe.dist-info", "probe-1.0.dist-info"]
)
def test_other_distributions_are_no_neighbours(folder, tmp_path):
    (tmp_path / folder).mkdir()
    assert python("import msprobe", tmp_path, PYTHONPATH=str(tmp_path)).stderr == ""


def test_looking_for_the_neighbour_survives_places_that_cannot_be_listed(tmp_path):
    from msprobe.base.conflicting_package import installed_version

    (tmp_path / "archive.zip").write_bytes(b"")
    assert installed_version([str(tmp_path / "missing"), str(tmp_path / "archive.zip"), str(tmp_path)]) == ""
    (tmp_path / "mindstudio_probe-8.1.1.dist-info").mkdir()
    assert installed_version([str(tmp_path / "missing"), str(tmp_path)]) == "8.1.1"


def test_the_doctor_reports_the_neighbour_as_an_error(tmp_path):
    info = tmp_path / "mindstudio_probe-8.1.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mindstudio-probe\nVersion: 8.1.1\n")
    done = subprocess.run(
        [sys.executable, "-m", "msprobe", "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "mindstudio-probe 8.1.1" in done.stdout


def test_the_snapshot_of_these_tests_sees_a_change(tmp_path):
    """The control: a patch, a seed and a file are seen."""
    code = f"""{LOOK}
import numpy
before = json.loads(look())
random.seed(3); numpy.random.seed(3); open("left", "w").close(); os.environ["X"] = "1"
after = json.loads(look())
print(json.dumps(sorted(k for k in after if before[k] != after[k])))
"""
    assert json.loads(python(code, tmp_path).stdout) == ["environment", "folder", "numpy", "random"]
