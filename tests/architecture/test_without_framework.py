"""The packages that know no framework load where there is none."""

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
packages = (
    *("base", "store", "mapping", "replay", "compare", "checks", "diagnose", "readiness", "mcp_server"),
    *("graph_save.gather", "graph_save.code_mapping"),
)
for name in packages:
    package = importlib.import_module(f"msprobe.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"msprobe.{name}."):
        if module.name.startswith("msprobe.replay.reference"):  # imported when a call is replayed, and torch with it
            continue
        importlib.import_module(module.name)
        loaded += 1
for name in (
    *("cli", "__main__", "msprobe", "doctor", "core", "pytorch", "core.config_check", "config_check.verb"),
    *("core.single_save.single_saver", "core.single_save.single_comparator"),
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
for public, package in (("mindspore", "mindspore"), ("pytorch", "torch")):
    try:
        exec(f"from msprobe.{public} import PrecisionDebugger")
    except ModuleNotFoundError as err:
        assert f"msprobe.{public}.PrecisionDebugger needs {package}, which is not installed here" in str(err), err
    else:
        raise AssertionError(public)
"""


def test_a_debugger_without_its_framework_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


STAR = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mindspore", "torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())

def refused(use):
    try:
        use()
    except ModuleNotFoundError as err:
        return str(err)
    raise AssertionError("nothing was raised")

for public, package in (("mindspore", "mindspore"), ("pytorch", "torch")):
    names = {}
    exec(f"from msprobe.{public} import *", names)
    assert set(__import__(f"msprobe.{public}", fromlist=["x"]).__all__) <= set(names)
    debugger = names["PrecisionDebugger"]
    hint = f"needs {package}, which is not installed here; run `pip install 'msprobe-ms[{package}]'`"
    for use in (
        debugger,
        lambda: debugger(dump_path="d"),
        lambda: debugger.start(),
        lambda: exec("class Own(debugger): pass", {"debugger": debugger}),
        lambda: names["seed_all"](1),
    ):
        assert hint in refused(use), (public, use)
    assert not hasattr(debugger, "__wrapped__"), "what looks at any object goes on"
    assert hint in refused(lambda: exec(f"from msprobe.{public} import PrecisionDebugger")), "named, it raises at once"
names = {}
exec("from msprobe.pytorch import *", names)
try:
    names["compare"]({"npu_path": "no", "bench_path": "nowhere"}, "out")
except Exception as err:
    print(type(err).__name__, err)
"""


def test_a_star_takes_what_is_there_and_the_rest_says_what_to_install_when_it_is_used(tmp_path):
    done = subprocess.run([sys.executable, "-c", STAR], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "/no: no such file or folder" in done.stdout
