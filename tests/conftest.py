"""What tests of several rooms share: ranks, interrupts, debuggers and what they wrote, the ways through a C kernel, the
blocks of the documentation."""

import ctypes
import ctypes.util
import fcntl
import gc
import importlib.util
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.append(str(Path(__file__).parent / "preloaded"))
sys.path.append(str(Path(__file__).parent / "support"))
from preloaded import python
from selection import FRAMEWORKS, commit, folder_may_run, may_run, missing_frameworks, sampled

gc.disable()  # while all is imported; see pytest_collection

_fesetenv = getattr(ctypes.CDLL(ctypes.util.find_library("m")), "fesetenv", None)

LIMIT = 300  # seconds
DOCS = Path(__file__).parents[1] / "docs"


# Fixtures of these tests choose the way through the code or name a folder that each example writes anew.
every = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300
)
settings.register_profile("all", every)
settings.register_profile("sample", every, max_examples=30, derandomize=True)


def pytest_addoption(parser):
    parser.addoption(
        "--all-cases", action="store_true", help="also the cases and searches that are left to `make verify`"
    )
    parser.addoption(
        "--sample-seed",
        metavar="TEXT",
        help="which cases of a test marked `sample` are run follows from this; default: the commit",
    )
    parser.addoption(
        "--asynchronous",
        action="store_true",
        help="only what is marked `pipeline`, in MindSpore's asynchronous pipeline",
    )


MARKERS = {
    "mindspore": "needs MindSpore",
    "torch": "needs PyTorch",
    "everywhere": "runs without a framework and beside them, where numpy is another version and torch is there",
    "mindtorch": "needs PyTorch's API on MindSpore, which takes the name `torch`",
    "smoke": "runs on every supported version of MindSpore",
    "examples": "runs the commands of an example's README",
    "ranks": "starts several processes that train together",
    "browser": "opens a page in Chromium",
    "pipeline": "--asynchronous runs it too, in MindSpore's other pipeline",
    "slow": "left out of `make check`",
    "verify": "left to `make verify`: run with --all-cases only; also for one value of a parameter",
    "turns(word, n)": "of the tests with this word n are run, others for each commit; all with --all-cases",
    "sample(n)": "n of the test's cases are run, spread evenly, others for each commit; all with --all-cases",
    "part(n)": "of the file's tests one in n is run, others for each commit; all with --all-cases",
    "always": "all cases of the test, and the test itself, are run each time",
}


def pytest_configure(config):
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    settings.load_profile("all" if config.getoption("--all-cases") else "sample")
    config.option.sample_seed = config.option.sample_seed or commit()


def pytest_report_header(config):
    if not config.getoption("--all-cases"):
        return f"cases: a sample (--sample-seed {config.option.sample_seed}); all with --all-cases"
    return "cases: all"


def pytest_ignore_collect(collection_path, config):
    """Leave out, without importing them, files and folders of which no test can be run."""
    expression = config.option.markexpr
    if collection_path.is_dir():
        return None if folder_may_run(collection_path, expression) else True
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if is_test and not may_run(collection_path, expression) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What was imported stays to the end: the collector of garbage need not look through it again and again, which took
    a quarter of the collection, and 4 s of each `gc.collect()` that a test calls."""
    collected = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return collected


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked `verify`; of the rest keep n cases of each test marked `sample(n)`."""
    left = set()
    if config.getoption("--asynchronous"):
        left = {item for item in items if not item.get_closest_marker("pipeline")}
    if not config.getoption("--all-cases"):
        left |= not_sampled(items, config.option.sample_seed)
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    for item in items:
        for name in FRAMEWORKS:
            if name in missing_frameworks() and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=f"{name} is not installed"))


_WHOLE = ("sample", "turns", "always")
"""Markers of tests that `part` and `GRID` do not leave out."""

GRID = 8
"""Of a test with more cases than this, so many are run, or a third if that is more; others for each commit."""


def not_sampled(items, seed):
    """Return the tests that only `make verify` runs."""
    cases, files, grids, left = {}, {}, {}, {item for item in items if item.get_closest_marker("verify")}
    for item in items:
        if item in left:
            continue
        if marker := item.get_closest_marker("sample"):
            cases.setdefault((item.parent, item.originalname), (marker.args[0], []))[1].append(item)
        if marker := item.get_closest_marker("turns"):
            cases.setdefault(marker.args, (marker.args[1], []))[1].append(item)
        if any(map(item.get_closest_marker, _WHOLE)):
            continue
        if marker := item.get_closest_marker("part"):
            files.setdefault(item.path, (marker.args[0], []))[1].append(item)
        elif hasattr(item, "callspec"):
            grids.setdefault((item.parent, item.originalname), []).append(item)
    cases |= {key: (max(GRID, -(-len(every) // 3)), every) for key, every in grids.items()}
    cases |= {(path.name, "part"): (-(-len(every) // n), every) for path, (n, every) in files.items()}
    for (group, name), (count, every) in cases.items():
        left.update(set(every).difference(sampled(count, every, seed, f"{getattr(group, 'name', group)} {name}")))
    return left


def pytest_collection_finish(session):
    """Choose the pipeline of MindSpore: the first operator that a process runs fixes it for all that follow."""
    if (ms := sys.modules.get("mindspore")) is not None:
        ms.set_context(pynative_synchronize=not session.config.getoption("--asynchronous"))
        ms.ops.ones(1, ms.float32).asnumpy()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """What a test logged may hold names of files that are no text; no process could send that to another."""
    report = yield
    report.sections = [
        (title, message.encode("utf-8", "backslashreplace").decode()) for title, message in report.sections
    ]
    return report


@pytest.fixture(autouse=True)
def _subnormal_numbers():
    """A library built for speed switches a thread to flushing subnormal numbers to zero as soon as it is loaded (what
    torch.compile builds with gcc 12 does), and the tests that come later in this process compute with them."""
    if _fesetenv is not None:
        _fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV of glibc


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """A folder that all processes of a run of tests share: `made_once("name", make)` lets the first that asks call
    `make(folder)`, while the others wait, and gives the folder."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made_once"
    shared.mkdir(exist_ok=True)

    def once(name, make):
        folder = shared / name
        with open(shared / f"{name}.lock", "a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (done := shared / f"{name}.done").exists():
                make(folder)
                done.touch()
        return folder

    return once


@pytest.fixture(scope="session")
def options():
    """What `msrun` is told wherever it runs, for so many ranks."""
    return options_of


@pytest.fixture(scope="session")
def msrun():
    """Start a script on ranks that are processes of their own: `msrun(script, *arguments, folder=where, count=2)`.

    They run in `folder`, and their logs are there. Fails with what they said unless all of them end well.
    """
    return start


@pytest.fixture
def interruptible():
    """Processes that the test starts heed Ctrl-C, also where whoever started pytest has it ignored, as a shell does for
    what it runs in the background: it is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def collecting(tmp_path, debugger_class):
    """Makes debuggers of the room's `debugger_class` that write below `tmp_path`; all are ended when the test ends."""
    made = []

    def make(config=None, **settings):
        if config is not None:
            settings["config_path"] = tmp_path / f"config{len(made)}.json"
            settings["config_path"].write_text(json.dumps(config))
        settings.setdefault("level", "mix")
        debugger = debugger_class(dump_path=str(tmp_path / f"dump{len(made)}"), **settings)
        made.append(debugger)
        return debugger

    yield make
    for debugger in made:
        debugger._collectors.end_step()
        debugger._saves.end_step()
        debugger_class._known.pop(debugger._settings, None)
    debugger_class._latest = None


class Dumped:
    """The three files of one step of a single process."""

    def __init__(self, debugger, step=0):
        self.folder = Path(debugger._settings.dump_path) / f"step{step}" / "rank"
        self.dump = json.loads(next(self.folder.glob("d*.json")).read_text())  # dump.json, or debug.json
        self.data = self.dump["data"]
        construct = self.folder / "construct.json"
        self.construct = json.loads(construct.read_text()) if construct.exists() else {}

    @property
    def names(self):
        return list(self.data)

    @property
    def missing(self):
        """What could not be collected."""
        return self.dump.get("missing", [])

    def stack(self, name):
        """The frames of a call."""
        groups = json.loads((self.folder / "stack.json").read_text()).values()
        return next(frames for names, frames in groups if name in names)


@pytest.fixture
def dumped():
    """Reads what a debugger wrote: `dumped(debugger, step)`."""
    return Dumped


@pytest.fixture
def unpickled_alike(collecting):
    """Pickle what stands at `places` before a debugger starts and meanwhile: each that could be pickled before loads as
    the very object that stands there at that time. Gives how many could not be pickled before."""

    def check(places, model, protocol):
        outside = [_pickled(getattr(*place), protocol) for place in places]
        debugger = collecting()
        debugger.start(model)
        inside = [_pickled(getattr(*place), protocol) for place in places]
        known = [each for each in zip(places, outside, inside, strict=True) if each[1] is not None]
        meanwhile = [data is not None and pickle.loads(data) is getattr(*place) for place, _, data in known]
        debugger.stop()
        for (place, before, data), is_found in zip(known, meanwhile, strict=True):
            assert is_found, place
            assert pickle.loads(data) is pickle.loads(before), place
        return len(places) - len(known)

    return check


def _pickled(value, protocol):
    """The bytes; None for what pickle refuses."""
    try:
        return pickle.dumps(value, protocol)
    except Exception:  # which exception is the framework's affair
        return None


@pytest.fixture
def through(monkeypatch):
    """Send a module that has a C kernel one way through: `through(module, "avx2")`, "plain", or "numpy" without it.

    The test is skipped where there is no such way; behind the test the kernel goes its fastest way again.
    """
    kernels = []

    def choose(module, way):
        if module.kernel is not None:
            kernels.append(module.kernel)
        if way == "numpy":
            monkeypatch.setattr(module, "kernel", None)
        elif module.kernel is None:
            pytest.skip("the extension was not built here")
        elif not module.kernel.choose(way):
            pytest.skip(f"this processor has no {way}")

    yield choose
    for kernel in kernels:
        if not kernel.choose("avx2"):
            kernel.choose("plain")


@pytest.fixture
def without_kernel(monkeypatch):
    """`without_kernel(module, "msprobe.base._statistic")`: the module once more, its C kernel not to be imported."""

    def load(module, kernel):
        monkeypatch.setitem(sys.modules, kernel, None)  # makes its import fail
        monkeypatch.delattr(kernel, raising=False)
        spec = importlib.util.spec_from_file_location(f"{module.__package__}.alone", module.__file__)
        alone = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(alone)
        return alone

    return load


@pytest.fixture(scope="session")
def blocks():
    """`blocks(page, "python")`: the blocks of one language in a page below `docs`, in their order."""
    return blocks_of


def blocks_of(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def options_of(count):
    return [f"--worker_num={count}", f"--local_worker_num={count}", "--join=True"]


def start(script, *arguments, folder, count=2):
    program = python("mindspore")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ["--master_addr=127.0.0.1", f"--master_port={port}", f"--cluster_time_out={LIMIT}"]
    place.append(f"--log_dir={folder / 'logs'}")
    command = [program, "-m", "mindspore.parallel.cluster.run", *options_of(count), *place, script, *arguments]
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"  # msrun starts whatever `python` is first
    with subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        start_new_session=True,
        env={**os.environ, "PATH": path, "MSPROBE_LOG_LEVEL": "2", "GLOG_v": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired as cause:
            output = str(cause)
        finally:
            with suppress(ProcessLookupError):  # the session of our own launch: msrun and its ranks, if any are left
                os.killpg(process.pid, signal.SIGKILL)
    logs = "".join(f"\n{log.name}: {log.read_text()[-3000:]}" for log in sorted((folder / "logs").glob("worker*")))
    assert process.returncode == 0, f"{output[-3000:]}{logs}"
