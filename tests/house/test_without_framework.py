"""The rooms that know no framework load where there is none."""

import subprocess
import sys

LOAD_ALL = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mindspore", "torch"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
loaded = 0
for room in ("base", "store", "mapping", "compare", "graph_save.gather", "graph_save.code_mapping"):
    package = importlib.import_module(f"msprobe.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"msprobe.{room}."):
        importlib.import_module(module.name)
        loaded += 1
for name in (
    *("cli", "__main__", "doctor", "core", "pytorch"),
    *("mindspore.compare.ms_compare", "mindspore.compare.distributed_compare"),
):
    importlib.import_module(f"msprobe.{name}")
print(loaded)
"""


SHARED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mindspore", "torch"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import msprobe.debugger, msprobe.cell_dump.collector, msprobe.cell_dump.saves, msprobe.cell_dump.gradient
"""


def test_what_the_collectors_of_both_frameworks_share_loads_without_either():
    done = subprocess.run([sys.executable, "-c", SHARED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_lower_rooms_and_the_command_load_without_mindspore_and_torch():
    done = subprocess.run([sys.executable, "-c", LOAD_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 60


ASK = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mindspore", "torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
for face, package in (("mindspore", "mindspore"), ("pytorch", "torch")):
    try:
        exec(f"from msprobe.{face} import PrecisionDebugger")
    except ModuleNotFoundError as err:
        assert f"msprobe.{face}.PrecisionDebugger needs {package}, which is not installed here" in str(err), err
    else:
        raise AssertionError(face)
"""


def test_a_debugger_without_its_framework_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
