"""Operators of graphs in C: what they report is what those of Python report, and unheard they call no Python.

What a collected step costs is counted here, not timed: operators, records made in C, lines, frames of Python.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype

from msprobe.base.statistic import kernel
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
from msprobe.graph_save.operators import numpy_type
from msprobe.graph_save.transport import native, reports
from msprobe.store.describe import beginning, statistics
from msprobe.store.writer import Writer

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[2] / "training"))
    import graph_nets

FUNCTIONS = ("enter", "values", "leave", "begin_run", "end_run", "gradient", "parameter_gradients")

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(reports.library is None, reason="the operators in C were not built, or not for this version"),
    pytest.mark.part(4),
]
with_kernel = pytest.mark.skipif(kernel is None, reason="without the extension of statistics Python makes the records")


@pytest.fixture(autouse=True)
def _graph_mode():
    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
    yield
    reports.library.connect(*(getattr(reports, name) for name in FUNCTIONS))
    reports.listen(None)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for debugger in list(PrecisionDebugger._known.values()):
        debugger._end_step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None


def written(folder):
    """Every file of a dump; of dump.json without the header, which names the run."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != "run.jsonl":
            content = file.read_bytes()
            found[file.relative_to(folder).as_posix()] = (
                json.dumps(json.loads(content)["data"]) if file.name == "dump.json" else content
            )
    return found


def without(monkeypatch):
    """Graphs that are compiled from here on have the operators of Python."""
    monkeypatch.setattr(reports, "library", None)


@pytest.mark.sample(1)
@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("case", graph_nets.CASES)
def test_files_are_those_of_the_operators_of_python(case, task, tmp_path, monkeypatch):
    before, records = reports.library.count(), reports.library.count_records()
    native_run = graph_nets.train(case, tmp_path / "native", task=task)
    assert reports.library.count() > before
    if kernel is not None:
        assert (reports.library.count_records() > records) == (task == "statistics")
    without(monkeypatch)
    python_run = graph_nets.train(case, tmp_path / "python", task=task)
    ours, theirs = written(tmp_path / "native"), written(tmp_path / "python")
    assert list(ours) == list(theirs)
    assert [name for name, content in ours.items() if content != theirs[name]] == []
    assert any(name.endswith(".npy") for name in ours) == (task == "tensor")
    np.testing.assert_equal(native_run, python_run)


class Two(nn.Cell):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Dense(2, 3), nn.Dense(3, 1)

    def construct(self, x):
        return self.last(self.first(x)).sum()


def collected(tmp_path, name, net):
    """The debugger of a collected step, its function and input, and the loss and gradients that it gave."""
    debugger = PrecisionDebugger(level="L0", task="statistics", dump_path=str(tmp_path / name))
    function = ms.value_and_grad(net, None, net.trainable_params())
    x = Tensor(np.arange(4, dtype=np.float32).reshape(2, 2))
    debugger.start(net)
    value, gradients = function(x)
    debugger.stop()
    debugger.step()
    return debugger, function, x, [value.asnumpy(), *(each.asnumpy() for each in gradients)]


def test_unheard_operators_call_no_python_and_there_are_three_in_a_call_and_one_for_a_gradient(tmp_path):
    called = dict.fromkeys(FUNCTIONS, 0)

    def counted(name):
        def call(*args):
            called[name] += 1
            return getattr(reports, name)(*args)

        return call

    reports.library.connect(*(counted(name) for name in FUNCTIONS))
    _, function, x, heard = collected(tmp_path, "dump", Two())
    # Two cells; the gradients of both outputs and of the second one's input; no optimizer.
    assert called == {
        "enter": 2,
        "values": 2,
        "leave": 2,
        "begin_run": 1,
        "end_run": 1,
        "gradient": 3,
        "parameter_gradients": 0,
    }
    listened = sum(called.values())
    before = reports.library.count()
    value, gradients = function(x)
    unheard = [value.asnumpy(), *(each.asnumpy() for each in gradients)]
    assert sum(called.values()) == listened
    assert reports.library.count() - before == listened
    np.testing.assert_equal(unheard, heard)


def test_what_raises_in_a_report_never_reaches_the_training(tmp_path, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: raised.append(each.exc_type))

    def fail(*args):
        raise ZeroDivisionError

    reports.library.connect(*[fail] * len(FUNCTIONS))
    net = Two()
    _, function, x, values = collected(tmp_path, "dump", net)
    value, gradients = function(x)
    np.testing.assert_equal(values, [value.asnumpy(), *(each.asnumpy() for each in gradients)])
    assert set(raised) == {ZeroDivisionError}


def test_files_that_stop_has_written_are_not_written_again_by_step(tmp_path):
    net = Two()
    debugger, _, x, _ = collected(tmp_path, "dump", net)
    debugger.start(net)
    net(x)  # without gradients: of those, without an optimizer, the end of a step has more to say
    debugger.stop()
    file = tmp_path / "dump" / "step1" / "rank" / "dump.json"
    before = file.stat()
    debugger.step()
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_without_the_extension_the_operators_of_python_serve(without_kernel):
    assert without_kernel(reports, "msprobe.graph_save._operators").library is None


@pytest.mark.parametrize("version", ["2.7.0", "2.9.1"])
def test_versions_in_which_they_were_not_run_have_the_operators_of_python(version, monkeypatch):
    monkeypatch.setattr(ms, "__version__", version)
    assert not native._can_run()


SENT = [
    *(Tensor([[1, 2, 0]], dtype) for dtype in (mstype.int8, mstype.int16, mstype.int32, mstype.int64)),
    *(Tensor([[1, 2, 0]], dtype) for dtype in (mstype.uint8, mstype.uint16, mstype.uint32)),
    *(Tensor([1.5, -2, 0.1], dtype) for dtype in (mstype.float16, mstype.bfloat16, mstype.float32, mstype.float64)),
    Tensor([[True], [False]]),
    Tensor(2.5, mstype.float32),  # without dimensions
    Tensor(-(2**40), mstype.int64),
    Tensor([np.nan, np.inf, 1], mstype.float32),
    Tensor([-np.inf, 1e-40], mstype.float32),
    Tensor(np.full((1, 2, 3, 1, 2, 1, 1, 2), 1e30), mstype.float32),
]
LEFT = [
    Tensor(np.zeros((2, 0)), mstype.float32),
    Tensor([1, 2], mstype.uint64),  # which the pass in C does not read
    Tensor([1 + 2j], mstype.complex64),
    Tensor([1e20, 1.0, -1e20], mstype.float64),  # its sum cancels: the mean is to be exact
]


class Sends(nn.Cell):
    """Passes its inputs to an operator."""

    def construct(self, *tensors):
        native.native_values(Tensor(7, ms.int32), Tensor(1, ms.int32), *tensors)
        return tensors[0] + 1


def received(takes_records):
    """What the operator passes of all these tensors."""
    seen = []

    def take(*args):
        seen.append([bytes(each) if isinstance(each, memoryview) else each for each in args])
        return 0

    reports.library.connect(*[take] * len(FUNCTIONS))
    reports.library.listen(True, takes_records)
    Sends()(*SENT, *LEFT).asnumpy()
    reports.library.listen(False, False)
    ((place, token, *tensors),) = seen
    assert (place, token) == (7, 1)
    return tensors


@with_kernel
def test_records_made_in_c_are_those_made_of_arrays():
    arrays = [each.asnumpy().view(numpy_type(each.dtype)) for each in SENT]
    expected = [
        f"{beginning('mindspore.Tensor', str(each.dtype), each.shape)}{statistics(array)}}}"
        for each, array in zip(SENT, arrays, strict=True)
    ]
    before = reports.library.count_records()
    tensors = received(takes_records=True)
    assert tensors[: len(SENT)] == expected
    assert reports.library.count_records() - before == len(SENT)


@pytest.mark.always
@pytest.mark.parametrize("takes_records", [True, False])
def test_what_is_no_record_is_the_memory_of_the_tensor(takes_records):
    tensors = received(takes_records)
    assert tensors[len(SENT) :] == [each.asnumpy().tobytes() for each in LEFT]
    if not takes_records:
        assert tensors[: len(SENT)] == [each.asnumpy().tobytes() for each in SENT]


class Scale(nn.Cell):
    """A cell with two parameters."""

    def __init__(self):
        super().__init__()
        self.g, self.b = (Parameter(Tensor(np.full(4, 0.5, np.float32))) for _ in range(2))

    def construct(self, x):
        return ops.tanh(x * self.g + self.b)


class Chain(nn.Cell):
    """So many of them in a line."""

    def __init__(self, length):
        super().__init__()
        self.line = nn.SequentialCell([Scale() for _ in range(length)])

    def construct(self, x):
        return self.line(x).sum()


def costs(tmp_path, monkeypatch, length):
    """What the second collected step of a chain costs, by what is counted."""
    found = Counter()

    def seen(frame, event, _):
        found["frames"] += event == "call" and frame.f_globals.get("__name__", "").startswith("msprobe.")

    def watched(name):
        def call(*args):
            sys.setprofile(seen)
            try:
                return getattr(reports, name)(*args)
            finally:
                sys.setprofile(None)

        return call

    written = Writer._append

    def append(self, line, *call):
        found["lines"] += 1
        written(self, line, *call)

    net = Chain(length)
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1)).set_train()
    x = Tensor(np.ones((2, 4), np.float32))
    debugger = PrecisionDebugger(level="L0", task="statistics", dump_path=str(tmp_path / str(length)))
    for number in range(2):
        debugger.start(net)
        if number:
            reports.library.connect(*(watched(name) for name in FUNCTIONS))
            monkeypatch.setattr(Writer, "_append", append)
            found["operators"] -= reports.library.count()
            found["records"] -= reports.library.count_records()
        step(x).asnumpy()
        if number:
            found["operators"] += reports.library.count()
            found["records"] += reports.library.count_records()
        debugger.stop()
        debugger.step()
        monkeypatch.undo()
    reports.library.connect(*(getattr(reports, name) for name in FUNCTIONS))
    return found


@with_kernel
def test_what_one_more_cell_costs_in_a_step(tmp_path, monkeypatch):
    short, long = costs(tmp_path, monkeypatch, 2), costs(tmp_path, monkeypatch, 6)
    each = {what: (long[what] - short[what]) / 4 for what in long}
    assert each["operators"] == 5  # it begins, has values, ends; gradients of its result and of its input
    assert each["records"] == 8  # input, two parameters, result; gradients of result, input, parameters
    assert each["lines"] == 3  # forward, backward, gradients of both parameters
    assert each["frames"] <= 61  # 236 before C made the records
