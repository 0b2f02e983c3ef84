"""Several models: how their cells are named, what tells them apart, and what is no model."""

import gc

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.base.errors import UsageError

pytestmark = pytest.mark.mindspore

X = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4))


class Scale(nn.Cell):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def construct(self, x):
        return ops.mul(x, self.by)


class Model(nn.Cell):
    def __init__(self, by=2.0):
        super().__init__()
        self.inner = Scale(by)

    def construct(self, x):
        return self.inner(x)


def cells(dump):
    return [name for name in dump.data if name.startswith("Cell.")]


def finish(debugger):
    debugger.stop()
    debugger.step()


@pytest.mark.parametrize("kind", [list, tuple])
def test_of_a_list_or_tuple_the_index_stands_in_the_names(kind, collecting, dumped):
    debugger, first, second = collecting(level="L0"), Model(2.0), Model(3.0)
    debugger.start(kind([first, second]))
    second(first(X))
    finish(debugger)
    dump = dumped(debugger)
    assert cells(dump) == ["Cell.0.inner.Scale.forward.0", "Cell.1.inner.Scale.forward.0"]
    assert [dump.data[n]["output"][0]["Max"] for n in cells(dump)] == [14.0, 42.0]


def test_of_a_dict_the_key_stands_in_the_names(collecting, dumped):
    debugger, actor, critic = collecting(level="L0"), Model(2.0), Model(3.0)
    debugger.start({"actor": actor, "critic": critic})
    critic(X)
    actor(X)
    finish(debugger)
    dump = dumped(debugger)
    assert cells(dump) == ["Cell.critic.inner.Scale.forward.0", "Cell.actor.inner.Scale.forward.0"]
    assert [dump.data[n]["output"][0]["Max"] for n in cells(dump)] == [21.0, 14.0]


def test_models_started_one_after_another_have_numbers_that_go_on_and_tell_which_they_are(collecting, dumped):
    debugger, first, second = collecting(level="L0"), Model(2.0), Model(3.0)
    debugger.start(first)
    first(X)
    debugger.stop()
    debugger.start(second)
    second(X)
    first(X)
    finish(debugger)
    dump = dumped(debugger)
    assert cells(dump) == [f"Cell.inner.Scale.forward.{n}" for n in range(3)]
    entries = [dump.data[n] for n in cells(dump)]
    assert [e["output"][0]["Max"] for e in entries] == [14.0, 21.0, 14.0]
    assert [e.get("at") for e in entries] == [None, {"model": 1}, {"micro_step": 1}]


def test_backward_says_which_model_it_is_of(collecting, dumped):
    debugger, first, second = collecting(level="mix"), Model(2.0), Model(3.0)
    debugger.start([first, second])
    ms.grad(lambda x: ops.sum(second(first(x))))(X)
    finish(debugger)
    data = dumped(debugger).data
    assert data["Cell.1.inner.Scale.backward.0"]["at"] == data["Cell.1.inner.Scale.forward.0"]["at"] == {"model": 1}
    assert "at" not in data["Cell.0.inner.Scale.backward.0"]
    assert data["Functional.mul.1.backward"]["at"] == {"model": 1}, "an API made meanwhile stands there too"
    assert "at" not in data["Functional.sum.0.forward"]


def test_the_same_model_again_in_a_later_step_and_without_a_model_again(collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    for model in (net, net, None):
        debugger.start(model) if model is not None else debugger.start()
        net(X)
        finish(debugger)
    for step in range(3):
        dump = dumped(debugger, step)
        assert cells(dump) == ["Cell.inner.Scale.forward.0"]
        assert "at" not in dump.data["Cell.inner.Scale.forward.0"]


def test_a_cell_keeps_its_first_name(collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    debugger.start(net)
    debugger.stop()
    debugger.start([net])
    net(X)
    finish(debugger)
    assert cells(dumped(debugger)) == ["Cell.inner.Scale.forward.0"]


def test_a_shared_cell_is_collected_under_the_first_of_its_names(collecting, dumped):
    class Twice(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = Scale(2.0)
            self.b = self.a

        def construct(self, x):
            return self.b(self.a(x))

    debugger, net = collecting(level="L0"), Twice()
    debugger.start(net)
    net(X)
    finish(debugger)
    assert cells(dumped(debugger)) == ["Cell.a.Scale.forward.0", "Cell.a.Scale.forward.1"]


def test_a_cell_shared_by_two_models_is_of_the_model_that_runs_it(collecting, dumped):
    first, second = Model(2.0), Model(3.0)
    second.inner = first.inner
    debugger = collecting(level="L0")
    debugger.start([first, second])
    second(X)
    finish(debugger)
    data = dumped(debugger).data
    assert list(data) == ["Cell.0.inner.Scale.forward.0"]
    assert data["Cell.0.inner.Scale.forward.0"]["at"] == {"model": 1}


def test_a_model_inside_another_model_is_a_root_and_not_collected_itself(collecting, dumped):
    class Outer(nn.Cell):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def construct(self, x):
            return self.model(x)

    inner = Model()
    debugger, outer = collecting(level="L0"), Outer(inner)
    debugger.start([inner, outer])
    outer(X)
    finish(debugger)
    dump = dumped(debugger)
    assert cells(dump) == ["Cell.0.inner.Scale.forward.0"]
    assert dump.construct["Cell.0.inner.Scale.forward.0"] is None


def test_a_cell_list_is_one_root_whose_children_are_numbered(collecting, dumped):
    debugger, both = collecting(level="L0"), nn.CellList([Model(2.0), Model(3.0)])
    debugger.start(both)
    both[1](both[0](X))
    finish(debugger)
    dump = dumped(debugger)
    assert cells(dump) == [
        "Cell.0.inner.Scale.forward.0",
        "Cell.0.Model.forward.0",
        "Cell.1.inner.Scale.forward.0",
        "Cell.1.Model.forward.0",
    ]
    assert dump.construct["Cell.1.inner.Scale.forward.0"] == "Cell.1.Model.forward.0"


def test_models_that_are_gone_leave_no_trace_for_new_ones(collecting, dumped):
    """Python gives the identity of an object that is gone to a new one."""
    debugger = collecting(level="L0")
    for step in range(3):
        net = Model(float(step))
        debugger.start(net)
        net(X)
        finish(debugger)
        del net
        gc.collect()
        bystander = Model(7.0)
        bystander(X)
        del bystander
        gc.collect()
    for step in range(3):
        data = dumped(debugger, step).data
        assert list(data) == ["Cell.inner.Scale.forward.0"]
        assert data["Cell.inner.Scale.forward.0"]["output"][0]["Max"] == 7.0 * step


def test_cells_of_a_model_that_nobody_started_are_not_collected(collecting, dumped):
    debugger, net, other = collecting(level="L0"), Model(), Model()
    debugger.start(net)
    other(X)
    net(X)
    finish(debugger)
    assert cells(dumped(debugger)) == ["Cell.inner.Scale.forward.0"]


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (42, "int"),
        ("net", "str"),
        ([nn.Dense(2, 2), "net"], "str"),
        ((nn.Dense(2, 2), None), "NoneType"),
        ({"a": nn.Dense(2, 2), "b": 3}, "int"),
        (Model, "type"),
        (lambda x: x, "function"),
    ],
)
def test_what_is_no_model_is_refused_by_its_type(model, named, collecting):
    debugger = collecting(level="L0")
    with pytest.raises(UsageError, match=rf"not {named}\b"):
        debugger.start(model)


@pytest.mark.parametrize("model", [[], (), {}])
def test_no_model_at_all_in_a_container_is_refused(model, collecting):
    with pytest.raises(UsageError, match="empty"):
        collecting(level="L1").start(model)


def test_a_key_that_is_no_text_is_refused(collecting):
    with pytest.raises(UsageError, match="3"):
        collecting(level="L0").start({3: Model()})


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_cells_need_a_model(level, collecting):
    with pytest.raises(UsageError, match=f'the model cannot be None when level is "{level}"'):
        collecting(level=level).start()


def test_a_refused_start_leaves_the_debugger_usable(collecting, dumped):
    debugger, net = collecting(level="L0"), Model()
    with pytest.raises(UsageError):
        debugger.start([net, 5])
    debugger.start(net)
    net(X)
    finish(debugger)
    assert cells(dumped(debugger)) == ["Cell.inner.Scale.forward.0"]
