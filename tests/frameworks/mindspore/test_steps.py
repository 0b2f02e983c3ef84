"""Which steps and ranks are collected, how their folders are numbered, and what happens at a step's borders."""

import json
from pathlib import Path

import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops

from msprobe.base.errors import UsageError

pytestmark = pytest.mark.mindspore

X = Tensor(np.arange(4, dtype=np.float32))


class Show(nn.Cell):
    def construct(self, x):
        return ops.neg(x)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.show = Show()

    def construct(self, x):
        return self.show(x)


def run(debugger, net, steps=1, **how):
    for _ in range(steps):
        debugger.start(net, **how)
        net(X)
        debugger.stop()
        debugger.step()


def folders(debugger):
    root = Path(debugger._settings.dump_path)
    return sorted(str(p.parent.relative_to(root)) for p in root.rglob("dump.json"))


def configured(tmp_path, **written):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "x", "level": "L0", **written}))
    return {"config_path": str(config), "level": None}


def test_a_rank_id_names_the_folder_and_stands_in_the_header(collecting):
    debugger = collecting(level="L0")
    run(debugger, Net(), rank_id=5)
    assert folders(debugger) == ["step0/rank5"]
    dump = json.loads((Path(debugger._settings.dump_path) / "step0/rank5/dump.json").read_text())
    assert dump["run"]["rank"] == 5
    assert list(dump["data"]) == ["Cell.show.Show.forward.0"]


def test_rank_zero_given_is_rank_zero_and_no_rank_is_rank(collecting):
    passed, left_out = collecting(level="L0"), collecting(level="L0")
    run(passed, Net(), rank_id=0)
    run(left_out, Net())
    assert folders(passed) == ["step0/rank0"]
    assert folders(left_out) == ["step0/rank"]


@pytest.mark.parametrize(("rank", "expected"), [(1, ["step0/rank1"]), (2, []), (4, ["step0/rank4"])])
def test_the_rank_filter_asks_for_the_rank_that_was_given(rank, expected, collecting, tmp_path):
    debugger = collecting(**configured(tmp_path, rank=[1, "4-6"]))
    run(debugger, Net(), rank_id=rank)
    assert folders(debugger) == expected


@pytest.mark.parametrize("wrong", [-1, True, 1.0, "0", [1]])
def test_what_is_no_rank_is_refused(wrong, collecting):
    with pytest.raises(UsageError, match="rank_id"):
        collecting(level="L0").start(Net(), rank_id=wrong)


def test_steps_are_numbered_from_the_initial_step_on(collecting):
    debugger = collecting(level="L0")
    debugger.set_init_step(100)
    run(debugger, Net(), 3)
    assert folders(debugger) == ["step100/rank", "step101/rank", "step102/rank"]


def test_the_step_filter_counts_from_the_initial_step(collecting):
    debugger = collecting(level="L0", step=[1, "11-12"])
    debugger.set_init_step(10)
    run(debugger, Net(), 5)
    assert folders(debugger) == ["step11/rank", "step12/rank"]


def test_the_initial_step_can_be_set_between_steps_and_again(collecting):
    debugger = collecting(level="L0")
    run(debugger, Net())
    debugger.set_init_step(7)
    run(debugger, Net())
    debugger.set_init_step(3)
    run(debugger, Net())
    assert folders(debugger) == ["step0/rank", "step3/rank", "step7/rank"]


@pytest.mark.parametrize("wrong", [-1, True, 2.0, "3", None])
def test_what_is_no_step_is_refused(wrong, collecting):
    with pytest.raises(UsageError, match="set_init_step"):
        collecting(level="L0").set_init_step(wrong)


def test_an_open_step_cannot_be_renumbered(collecting):
    debugger, net = collecting(level="L0"), Net()
    debugger.start(net)
    with pytest.raises(UsageError, match="set_init_step"):
        debugger.set_init_step(5)
    net(X)
    debugger.stop()
    with pytest.raises(UsageError, match="set_init_step"):
        debugger.set_init_step(5)
    debugger.step()
    debugger.set_init_step(5)
    run(debugger, net)
    assert folders(debugger) == ["step0/rank", "step5/rank"]


def test_after_the_last_configured_step_nothing_is_collected_and_nothing_hurts(collecting):
    debugger, net = collecting(level="L0", step=[0, 2]), Net()
    run(debugger, net, 6)
    assert folders(debugger) == ["step0/rank", "step2/rank"]
    debugger.start(object())  # not even looked at any more
    debugger.stop()
    debugger.step()
    assert "show" not in str(type(net).__call__.__qualname__)
    assert nn.Cell.__call__.__module__ == "mindspore.nn.cell"


def test_the_last_step_is_said_once(collecting, caplog):
    debugger = collecting(level="L0", step=[0])
    run(debugger, Net(), 4)
    assert sum("msprobe ends successfully" in r.getMessage() for r in caplog.records) == 1


def test_a_step_that_is_not_collected_writes_nothing(collecting):
    debugger, net = collecting(level="L0", step=[1]), Net()
    debugger.start(net)
    net(X)
    assert not Path(debugger._settings.dump_path, "step0").exists()
    debugger.stop()
    debugger.step()
    assert folders(debugger) == []


def test_stop_without_start_and_step_without_stop(collecting, dumped):
    debugger, net = collecting(level="L0"), Net()
    debugger.stop()
    debugger.step()
    debugger.start(net)
    net(X)
    debugger.step()
    assert folders(debugger) == ["step1/rank"]
    assert list(dumped(debugger, 1).data) == ["Cell.show.Show.forward.0"]


class Ending(nn.Cell):
    """Ends the collection from inside one of its cells."""

    def __init__(self):
        super().__init__()
        self.before, self.ends, self.after = Show(), Ends(), Show()

    def construct(self, x):
        return self.after(self.ends(self.before(x)))


class Ends(nn.Cell):
    def construct(self, x):
        y = ops.exp(x)
        for each in self.do:
            each()
        return ops.abs(y)


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("how", [["stop"], ["step"], ["stop", "step"]])
def test_a_collection_ended_inside_a_cell_leaves_the_result_and_the_next_step_whole(how, level, collecting, dumped):
    debugger, net = collecting(level=level), Ending()
    net.ends.do = [getattr(debugger, word) for word in how]
    debugger.start(net)
    out = net(X)
    if "step" not in how:
        debugger.step()
    np.testing.assert_allclose(out.asnumpy(), -np.exp(-X.asnumpy()), rtol=1e-5)
    first = dumped(debugger)
    assert "Cell.before.Show.forward.0" in first.data
    assert "Cell.after.Show.forward.0" not in first.data
    assert "output" not in first.data.get("Cell.ends.Ends.forward.0", {})
    net.ends.do = []
    run(debugger, net)
    second = dumped(debugger, 1)
    cells = [n for n in second.data if n.startswith("Cell.")]
    assert cells == ["Cell.before.Show.forward.0", "Cell.ends.Ends.forward.0", "Cell.after.Show.forward.0"]
    assert {second.construct[n] for n in cells} == {None}


def test_a_collection_started_inside_a_cell_begins_there(collecting, dumped):
    debugger, net = collecting(level="L0"), Ending()
    net.ends.do = []
    debugger.start(net)
    debugger.stop()
    net.ends.do = [lambda: debugger.start(net)]
    net(X)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == ["Cell.after.Show.forward.0"]


class Fails(nn.Cell):
    def construct(self, x):
        ops.exp(x)
        raise ValueError("no such thing")


class Around(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fails = Fails()

    def construct(self, x):
        return self.fails(x)


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.around, self.show = Around(), Show()

    def construct(self, x):
        try:
            self.around(x)
        except ValueError:
            return self.show(x)


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_an_exception_closes_every_cell_that_it_leaves(level, collecting, dumped):
    debugger = collecting(level=level)
    run(debugger, Outer())
    dump = dumped(debugger)
    for name in ("Cell.around.fails.Fails.forward.0", "Cell.around.Around.forward.0"):
        entry = dump.data[name]
        assert entry["input_args"][0]["Max"] == 3.0
        assert entry["missing"] == ["output"]
        assert "output" not in entry
    assert dump.construct["Cell.around.fails.Fails.forward.0"] == "Cell.around.Around.forward.0"
    assert dump.construct["Cell.show.Show.forward.0"] is None
    causes = {m["name"]: m["cause"] for m in dump.dump["missing"]}
    assert causes == dict.fromkeys(
        ("Cell.around.fails.Fails.forward.0", "Cell.around.Around.forward.0"),
        "the call raised ValueError: no such thing",
    )


def test_an_exception_that_ends_the_step_leaves_the_next_one_whole(collecting, dumped):
    debugger, net = collecting(level="L0"), Around()
    debugger.start(net)
    with pytest.raises(ValueError, match="no such thing"):
        net(X)
    debugger.stop()
    debugger.step()
    debugger.start(Net())
    debugger.stop()
    other = Net()
    debugger.start(other)
    other(X)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger, 1)
    assert dump.construct == {"Cell.show.Show.forward.0": None}
    assert dumped(debugger).data["Cell.fails.Fails.forward.0"]["missing"] == ["output"]


@pytest.mark.pipeline
def test_a_call_that_fails_is_recorded_also_where_its_error_comes_later(collecting, dumped):
    """This kernel is not there on a CPU; in the asynchronous pipeline that is found out behind the call."""
    net = nn.SequentialCell(mint.nn.BatchNorm2d(2))
    debugger = collecting(level="mix")
    debugger.start(net)
    with pytest.raises(RuntimeError, match="BatchNormExt"):
        net(ops.ones((1, 2, 4, 4)))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    failed = [name for name, entry in dump.data.items() if entry.get("missing") == ["output"]]
    assert failed == ["MintFunctional.batch_norm.0.forward", "Cell.0.BatchNorm2d.forward.0"]
    assert all("BatchNormExt" in item["cause"] for item in dump.dump["missing"])
