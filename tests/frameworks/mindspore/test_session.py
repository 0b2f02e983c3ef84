"""What a step's dump holds: names, numbers, nesting, stacks, and what happens at its borders."""

import json
import threading

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base import log

pytestmark = pytest.mark.mindspore

X = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4))


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)

    def construct(self, x, scale=1.0):
        return ops.relu(self.dense(x)) * scale


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = Inner()

    def construct(self, x):
        return ops.exp(self.a(x, scale=3.0) * 0.01)


def step(debugger, net, *inputs):
    debugger.start(net)
    out = net(*inputs)
    debugger.stop()
    debugger.step()
    return out


def test_calls_are_named_numbered_and_nested(collecting, dumped):
    debugger, net = collecting(), Net()
    debugger.start(net)
    net(X)
    net(X)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    one = [
        "Primitive.shape_op.Shape.{0}.forward",
        "Primitive.matmul.MatMul.{0}.forward",
        "Primitive.bias_add.BiasAdd.{0}.forward",
    ]
    one += ["Cell.a.dense.Dense.forward.{0}", "Functional.relu.{0}.forward", "Tensor.__mul__.{1}.forward"]
    one += ["Cell.a.Inner.forward.{0}", "Tensor.__mul__.{2}.forward", "Functional.exp.{0}.forward"]
    assert list(dump.data) == [n.format(i, 2 * i, 2 * i + 1) for i in (0, 1) for n in one]
    assert dump.construct["Cell.a.dense.Dense.forward.1"] == "Cell.a.Inner.forward.1"
    assert dump.construct["Tensor.__mul__.2.forward"] == "Cell.a.Inner.forward.1"
    assert dump.construct["Cell.a.Inner.forward.0"] is None
    assert dump.construct["Functional.exp.0.forward"] is None


def test_numbers_start_anew_at_every_step(collecting, dumped):
    debugger, net = collecting(level="L1"), Net()
    for _ in range(2):
        step(debugger, net, X)
    assert list(dumped(debugger, 0).data) == list(dumped(debugger, 1).data)


def test_starting_again_within_a_step_goes_on_in_the_same_dump(collecting, dumped):
    debugger, net = collecting(level="L0"), Net()
    debugger.start(net)
    net(X)
    debugger.stop()
    net(X)
    debugger.start(net)
    net(X)
    debugger.stop()
    assert [n for n in dumped(debugger).data if "Inner" in n] == ["Cell.a.Inner.forward.0", "Cell.a.Inner.forward.1"]
    debugger.step()


def test_a_cells_entry_holds_arguments_parameters_and_results(collecting, dumped):
    debugger, net = collecting(level="L0"), Net()
    step(debugger, net, X)
    inner = dumped(debugger).data["Cell.a.Inner.forward.0"]
    assert inner["input_kwargs"] == {"scale": {"type": "float", "value": 3.0}}
    record = inner["input_args"][0]
    assert {k: record[k] for k in ("type", "dtype", "shape", "Max", "Min", "Mean")} == {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [2, 4],
        "Max": 7.0,
        "Min": 0.0,
        "Mean": 3.5,
    }
    assert record["Norm"] == pytest.approx(140**0.5, rel=1e-12)
    assert "parameters" not in inner, "a cell's own parameters only"
    weight = net.a.dense.weight.asnumpy()
    dense = dumped(debugger).data["Cell.a.dense.Dense.forward.0"]["parameters"]
    assert dense["weight"]["Max"] == float(weight.max())
    assert dense["bias"]["shape"] == [3]


def test_values_of_every_kind_become_records(collecting, dumped):
    class Kinds(nn.Cell):
        def construct(self, *args, **kwargs):
            return args[0]

    class Root(nn.Cell):
        def __init__(self):
            super().__init__()
            self.kinds = Kinds()

        def construct(self, x):
            return self.kinds(
                x, [x, (1, True)], {"k": None}, slice(1, None, 2), ..., ms.bfloat16, np.float32(1.5), text="t"
            )

    debugger = collecting(level="L0")
    step(debugger, Root(), X)
    entry = dumped(debugger).data["Cell.kinds.Kinds.forward.0"]
    tensor, listed, keyed, cut, dots, dtype, scalar = entry["input_args"]
    assert listed[0]["Max"] == tensor["Max"] == 7.0
    assert listed[1] == [{"type": "int", "value": 1}, {"type": "bool", "value": True}]
    assert keyed == {"k": None}
    assert cut == {"type": "slice", "value": [1, None, 2]}
    assert dots == {"type": "ellipsis", "value": "..."}
    assert dtype == {"type": "mindspore.dtype", "value": "BFloat16"}
    assert scalar == {"type": "float32", "value": 1.5}
    assert entry["input_kwargs"] == {"text": {"type": "str", "value": "t"}}


def test_inputs_are_recorded_before_and_results_after_an_in_place_call(collecting, dumped):
    debugger = collecting(level="L1", task="tensor")
    debugger.start()
    y = ops.zeros((2, 2), ms.float32)
    y[0] = 5.0
    y += 1.0
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    item, add = dump.data["Tensor.__setitem__.0.forward"], dump.data["Tensor.__iadd__.0.forward"]
    assert (item["input_args"][0]["Max"], item["output"][0]["Max"]) == (0.0, 5.0)
    assert (add["input_args"][0]["Max"], add["output"][0]["Max"]) == (5.0, 6.0)
    saved = np.load(dump.folder / "dump_tensor_data" / item["input_args"][0]["data_name"])
    np.testing.assert_array_equal(saved, np.zeros((2, 2)))


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.int64, ms.bool_, ms.float64, ms.uint8])
def test_tensors_of_every_dtype_are_saved_as_they_are(dtype, collecting, dumped):
    values = np.array([0, 1, 1, 0])
    debugger = collecting(level="L1", task="tensor")
    debugger.start()
    ops.reshape(Tensor(values, dtype), (2, 2))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    record = dump.data["Functional.reshape.0.forward"]["output"][0]
    saved = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
    assert record["dtype"] == str(dtype)
    assert saved.dtype == (np.float32 if dtype == ms.bfloat16 else ms.dtype_to_nptype(dtype))
    np.testing.assert_array_equal(saved.astype(np.int64), values.reshape(2, 2))


def test_the_stack_names_the_users_line_and_no_frame_of_msprobe(collecting, dumped):
    debugger, net = collecting(), Net()
    step(debugger, net, X)
    dump = dumped(debugger)
    for name in ("Functional.relu.0.forward", "Cell.a.dense.Dense.forward.0"):
        frames = dump.stack(name)
        assert not any("/cell_dump/" in f.split(", line")[0] and "tests" not in f for f in frames)
        mine = next(f for f in frames if "site-packages" not in f)
        assert mine.startswith(f"File {__file__}, line ")
        assert mine.endswith("in construct, \n return ops.relu(self.dense(x)) * scale")


def test_a_call_that_raises_leaves_its_inputs_and_the_reason(collecting, dumped):
    class Fails(nn.Cell):
        def construct(self, x):
            raise ValueError("no such thing")

    class Root(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fails = Fails()

        def construct(self, x):
            try:
                self.fails(x)
            except ValueError:
                return ops.exp(x)

    debugger = collecting()
    step(debugger, Root(), X)
    dump = dumped(debugger)
    entry = dump.data["Cell.fails.Fails.forward.0"]
    assert entry["input_args"][0]["Max"] == 7.0
    assert entry["missing"] == ["output"]
    assert "output" not in entry
    assert dump.dump["missing"][0]["cause"] == "the call raised ValueError: no such thing"
    assert dump.construct["Functional.exp.0.forward"] is None, "the failed cell is not open any more"


def test_a_failure_while_collecting_is_noted_and_the_training_goes_on(collecting, dumped, monkeypatch):
    from msprobe.cell_dump import describer
    from msprobe.store import describe

    debugger, net = collecting(level="L1"), Net()
    real = describe.statistic
    monkeypatch.setattr(describer, "kernel", None)
    monkeypatch.setattr(describe, "statistic", lambda a: 1 / 0 if a.shape == (2, 3) else real(a))
    out = step(debugger, net, X)
    np.testing.assert_array_equal(out.asnumpy(), net(X).asnumpy())
    dump = dumped(debugger)
    assert any("ZeroDivisionError" in m["cause"] for m in dump.dump["missing"])


def test_other_threads_are_not_recorded(collecting, dumped):
    debugger = collecting(level="L1")
    debugger.start()
    thread = threading.Thread(target=lambda: ops.exp(X))
    thread.start()
    thread.join()
    ops.relu(X)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == ["Functional.relu.0.forward"]


def test_sources_say_who_produced_an_input(collecting, dumped):
    class Affine(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = Parameter(Tensor(np.ones(4, np.float32)), name="w")

        def construct(self, x):
            return ops.relu(ops.mul(ops.exp(x), self.w))

    net, debugger = Affine(), collecting(level="L1")
    debugger.start()
    ms.value_and_grad(net, 0, net.trainable_params())(X)
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert data["Functional.exp.0.forward"]["input_args"][0]["from"] == "leaf"
    exp, w = data["Functional.mul.0.forward"]["input_args"]
    assert (exp["from"], w["from"]) == ("call Functional.exp.0.forward.output.0", "parameter w")
    assert data["Functional.relu.0.forward"]["input_args"][0]["from"] == "call Functional.mul.0.forward.output.0"


@pytest.mark.parametrize(
    ("mode", "forward_keys", "backward_keys"),
    [
        (["forward"], {"input_args", "input_kwargs", "output"}, None),
        (["backward"], None, {"input", "output"}),
        (["input"], {"input_args", "input_kwargs"}, {"input"}),
        (["backward", "output"], None, {"output"}),
    ],
)
def test_data_mode_chooses_the_parts(mode, forward_keys, backward_keys, tmp_path, dumped, collecting):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "x", "statistics": {"data_mode": mode}}))
    debugger = collecting(config_path=str(config), level="L1")
    debugger.start()
    ms.grad(lambda x: ops.sum(ops.exp(x)))(X)
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    forward, backward = data.get("Functional.exp.0.forward"), data.get("Functional.exp.0.backward")
    assert (set(forward) if forward else None) == forward_keys
    assert (set(backward) if backward else None) == backward_keys


def test_a_list_keeps_matching_calls_and_numbers_go_on(tmp_path, dumped, collecting):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "x", "statistics": {"list": ["exp.1"]}}))
    debugger = collecting(config_path=str(config), level="L1")
    debugger.start()
    ms.grad(lambda x: ops.sum(ops.exp(ops.exp(x) * 0.01)))(X)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == ["Functional.exp.1.forward", "Functional.exp.1.backward"]


def test_a_list_of_a_cell_keeps_what_is_inside_of_it_in_backward_too(collecting, dumped):
    """The last call inside and the cell are one node, whose gradient comes to the cell first."""

    class Inner(nn.Cell):
        def construct(self, x):
            return ops.exp(ops.tanh(x))

    class Root(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def construct(self, x):
            return ops.sum(self.inner(x))

    net, debugger = Root(), collecting({"statistics": {"list": ["Cell.inner"]}})
    debugger.start(net)
    ms.grad(net)(X)
    debugger.stop()
    debugger.step()
    apis = [f"Functional.{name}.0.{way}" for name in ("exp", "tanh") for way in ("backward", "forward")]
    assert sorted(dumped(debugger).names) == ["Cell.inner.Inner.backward.0", "Cell.inner.Inner.forward.0", *apis]


def test_an_l1_scope_runs_from_one_call_to_another_across_backward(tmp_path, dumped, collecting):
    config = tmp_path / "config.json"
    scope = ["Functional.exp.0.forward", "Functional.sum.0.backward"]
    config.write_text(json.dumps({"dump_path": "x", "statistics": {"scope": scope}}))
    debugger = collecting(config_path=str(config), level="L1")
    debugger.start()
    ms.grad(lambda x: ops.sum(ops.exp(ops.tanh(x))))(X)
    debugger.stop()
    debugger.step()
    expected = ["Functional.exp.0.forward", "Functional.sum.0.forward", "Functional.sum.0.backward"]
    assert list(dumped(debugger).data) == expected


@pytest.mark.pipeline
def test_the_trainings_own_error_reaches_it(collecting):
    debugger = collecting(level="L1")
    debugger.start()
    with pytest.raises((RuntimeError, IndexError)):
        ops.gather(X, Tensor([0, 9]), 0)
    debugger.stop()
    debugger.step()


def test_a_users_gradient_hook_that_raises_is_an_ordinary_exception(collecting):
    def refuse(gradient):
        raise ValueError("not a number")

    def root(x):
        y = ops.tanh(x)
        y.register_hook(refuse)
        return ops.sum(ops.exp(y))

    debugger = collecting(level="L1")
    for _ in range(3):
        debugger.start()
        with pytest.raises(ValueError, match="not a number"):
            ms.grad(root)(X)
        debugger.stop()
        debugger.step()


def test_a_model_is_not_kept_alive(collecting):
    import gc
    import weakref

    debugger, net = collecting(level="L0"), Net()
    step(debugger, net, X)
    watched = weakref.ref(net)
    del net
    gc.collect()
    assert watched() is None


def test_a_ctrl_c_while_a_tensor_is_read_silences_nothing_later(collecting, dumped, monkeypatch):
    from msprobe.cell_dump import describer
    from msprobe.store import describe

    debugger, net = collecting(level="L0"), Net()
    real = describe.statistic
    monkeypatch.setattr(describer, "kernel", None)

    def interrupted(array):
        monkeypatch.setattr(describe, "statistic", real)
        raise KeyboardInterrupt

    debugger.start(net)
    monkeypatch.setattr(describe, "statistic", interrupted)
    with pytest.raises(KeyboardInterrupt):
        net(X)
    net(X)
    debugger.stop()
    debugger.step()
    assert "Cell.a.Inner.forward.1" in dumped(debugger).data


def test_own_parameters_with_names_that_end_alike_are_told_apart(collecting, dumped):
    class Pair(nn.Cell):
        def __init__(self):
            super().__init__()
            names = ("up.weight", "down.weight")
            self.both = ms.ParameterTuple(
                [Parameter(Tensor(np.full(4, i + 1.0, np.float32)), n) for i, n in enumerate(names)]
            )

        def construct(self, x):
            return x * self.both[0] * self.both[1]

    debugger, net = collecting(level="L0"), nn.SequentialCell(Pair())
    step(debugger, net, X)
    parameters = dumped(debugger).data["Cell.0.Pair.forward.0"]["parameters"]
    assert {name: record["Max"] for name, record in parameters.items()} == {"up.weight": 1.0, "down.weight": 2.0}


def test_a_model_that_holds_nothing_is_told_once_that_its_dump_is_empty(collecting, monkeypatch, capsys):
    monkeypatch.setattr(log, "_logged", set())
    debugger, x = collecting(level="L0"), Tensor(np.ones((2, 3), np.float32))
    for model in (nn.Dense(3, 2), nn.Dense(3, 2), nn.SequentialCell(nn.Dense(3, 2))):
        debugger.start(model)
        model(x)
        debugger.stop()
        debugger.step()
    logged = capsys.readouterr().err
    assert logged.count("the dump will be empty") == 1
    assert "Dense contains none" in logged
