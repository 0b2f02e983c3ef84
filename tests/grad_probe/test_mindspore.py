"""The probe at MindSpore's optimizers: gradients that are given by hand, in PyNative and in graphs."""

import zlib

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base.errors import UsageError
from msprobe.frameworks.mindspore import optimizer_gradients as backend

pytestmark = pytest.mark.mindspore

FRAMEWORK = "mindspore"


@pytest.fixture(autouse=True)
def _synchronous():
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture(params=["pynative", "jit"])
def how(request):
    """Where the optimizer is called from."""
    return request.param


class Training:
    """Parameters, an optimizer, and how it is called."""

    def __init__(self, shapes, how="pynative", dtype=ms.float32):
        self.parameters = [Parameter(Tensor(np.zeros(shape), dtype), name=name) for name, shape in shapes.items()]
        self.optimizer = nn.Momentum(self.parameters, 0.5, 0.0)
        self.how = how
        self._call = None

    def step(self, *gradients):
        if self._call is None:  # a graph is compiled after the optimizer is monitored
            optimizer = self.optimizer

            def call(*found):
                return optimizer(found)

            self._call = ms.jit(call) if self.how == "jit" else call
        self._call(*(Tensor(each, p.dtype) for each, p in zip(gradients, self.parameters, strict=True)))


class Idle(nn.Optimizer):
    """Updates nothing: a CPU has no kernel that updates parameters of bfloat16."""

    def construct(self, gradients):
        return gradients[0]


def test_values_that_a_graph_hands_over_in_another_form(collecting, output, how):
    """A tensor without dimensions, bfloat16 and NaN."""
    training = Training({"scalar": (), "matrix": (2, 2)}, how)
    debugger = collecting({"task": "grad_probe", "grad_probe": {"grad_level": "L2"}})
    debugger.monitor(training.optimizer)
    training.step(np.float32(-2), np.array([[np.nan, 1], [0, -1]], np.float32))
    debugger.stop()
    found = output(debugger).table(0)
    assert (found["scalar"]["max"], found["scalar"]["shape"]) == ("-2.0", "[]")
    assert (found["matrix"]["nan"], found["matrix"]["=0"], found["matrix"]["(0, 1]"]) == ("0.25", "0.25", "0.25")
    assert output(debugger).signs(0, "scalar").shape == ()
    assert output(debugger).signs(0, "matrix").tolist() == [[False, True], [False, False]]


def test_bfloat16_is_widened(collecting, output, how):
    training = Training({"w": (3,)}, how, ms.bfloat16)
    training.optimizer = Idle(0.1, training.parameters)
    debugger = collecting({"task": "grad_probe", "grad_probe": {"grad_level": "L0"}})
    debugger.monitor(training.optimizer)
    gradient = np.array([1.5, -2, 0.25], np.float32)
    training.step(gradient)
    debugger.stop()
    assert output(debugger).table(0)["w"]["MD5"] == f"{zlib.crc32(gradient.tobytes()):08x}"


def test_step_and_param_list_choose_in_graphs_too(collecting, output, how):
    training = Training({"a": (2,), "b": (2,)}, how)
    debugger = collecting({"task": "grad_probe", "step": [1, 2], "grad_probe": {"param_list": ["b"]}})
    debugger.monitor(training.optimizer)
    for _ in range(4):
        training.step(np.ones(2), -np.ones(2))
    debugger.stop()
    assert output(debugger).steps == [1, 2]
    assert list(output(debugger).table(2)) == ["b"]
    assert output(debugger).files == ["step1/b.npy", "step2/b.npy"]


def test_no_name_leads_out_of_the_folder(collecting, output, how, tmp_path):
    names = ["../../escaped", "/tmp/absolute", "a/b", "语言", "x" * 300]
    training = Training(dict.fromkeys(names, (2,)), how)
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(training.optimizer)
    training.step(*[np.ones(2)] * len(names))
    debugger.stop()
    assert list(output(debugger).table(0)) == names
    assert len(output(debugger).files) == len(names)
    assert {each.name for each in tmp_path.iterdir()} == {"config0.json", "dump0"}


def test_a_graph_that_refuses_the_operators_is_compiled_without_them(collecting, output, notes, monkeypatch):
    def refuse(*_):
        raise ValueError("not on this device")

    monkeypatch.setattr(backend._place, "_function", refuse)
    training = Training({"w": (2,)}, "jit")
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(training.optimizer)
    training.step(np.ones(2))
    training.step(np.ones(2))
    debugger.stop()
    assert training.parameters[0].asnumpy().tolist() == [-1, -1]
    assert output(debugger).steps == []
    assert len([note for note in notes() if "compiled without them" in note]) == 1


def test_a_graph_that_cannot_be_compiled_at_all_fails_as_it_did(collecting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the framework writes what it failed at
    training = Training({"w": (2,)})
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(training.optimizer)
    optimizer = training.optimizer

    @ms.jit
    def step(gradient):
        optimizer((gradient,))
        return ops.MatMul()(gradient.reshape((1, 2)), ops.ones((3, 1), ms.float32))

    with pytest.raises(ValueError, match="MatMul"):
        step(Tensor(np.ones(2, np.float32)))


def test_an_error_of_writing_does_not_reach_a_graph(collecting, output, how, notes):
    training = Training({"w": (2,)}, how)
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(training.optimizer)
    output(debugger).folder.write_text("a file where the folder of the rank would be")
    training.step(np.ones(2))
    training.step(np.ones(2))
    debugger.stop()
    assert training.parameters[0].asnumpy().tolist() == [-1, -1]
    assert len([note for note in notes() if "the training continues" in note]) == 1


def test_two_optimizers_of_one_training(collecting, output, how):
    one, other = Training({"generator.w": (2,)}, how), Training({"critic.w": (3,)}, how)
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(one.optimizer)
    debugger.monitor(other.optimizer)
    for _ in range(2):
        one.step(np.ones(2))
        other.step(np.ones(3))
    debugger.stop()
    for step in (0, 1):
        assert sorted(output(debugger).table(step)) == ["critic.w", "generator.w"]


def test_a_dump_of_another_debugger_goes_on_beside_the_probe(collecting, output):
    training = Training({"w": (2,)})
    probe = collecting({"task": "grad_probe"})
    probe.monitor(training.optimizer)
    dump = collecting({"task": "statistics"}, level="L1")
    dump.start()
    training.step(np.ones(2))
    dump.stop()
    dump.step()
    assert output(probe).steps == [0]
    assert list(dump._settings.dump_path.rglob("dump.json"))


@pytest.mark.parametrize("thing", [None, nn.ReLU(), nn.Dense(1, 1)], ids=["None", "ReLU", "Dense"])
def test_what_is_no_optimizer_is_refused(thing, collecting):
    debugger = collecting({"task": "grad_probe"})
    with pytest.raises(ValueError, match="monitor") as caught:
        debugger.monitor(thing)
    assert isinstance(caught.value, UsageError)


def test_files_of_a_device_become_tables_at_stop(collecting, output, tmp_path):
    """The files that `ops.TensorDump` writes there, as it documents them; it has no kernel on a CPU."""
    training = Training({"a": (2,), "b": (2,)})
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(training.optimizer)
    known = max(backend._Optimizer._all.values(), key=lambda each: each.number)
    known.folder, known.dumped = tmp_path / "tensordump", {0: "a", 1: "b"}
    known.folder.mkdir()
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((3, 2, 2)).astype(np.float32)
    for number, (step, place) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]):
        np.save(known.folder / f"{known.number}.{place}_float32_{number}.npy", gradients[step, place])
    debugger.stop()
    assert output(debugger).steps == [0, 1], "the third update is not complete"
    for step in (0, 1):
        for place, name in enumerate("ab"):
            assert float(output(debugger).table(step)[name]["max"]) == gradients[step, place].max()
            np.testing.assert_array_equal(output(debugger).signs(step, name), gradients[step, place] > 0)
    assert [path.name for path in known.folder.iterdir()] == [f"{known.number}.0_float32_4.npy"]
    known.folder = None
