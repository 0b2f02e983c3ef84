"""Trainings on several ranks: real processes, started by `msrun`, on a CPU; and what asynchronous calls become.

Two launches serve all tests, for the ranks of one need seconds to find each other.
"""

import json
import os
import re
import threading
import zlib
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore.communication import comm_func
from mindspore.mint import distributed

from msprobe.cell_dump.collective import NOT_WAITED
from msprobe.frameworks.mindspore.functions import COLLECTIVES

pytestmark = [pytest.mark.mindspore, pytest.mark.ranks, pytest.mark.part(2)]

SCRIPT = Path(__file__).parents[2] / "training" / "ranks.py"
STEPS = 3
X = ms.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))


def launch(msrun, count, case, folder):
    """Run `ranks.py` on so many ranks; gives what each reports."""
    os.mkfifo(folder / "go")
    msrun(SCRIPT, case, folder, folder=folder, count=count)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(count)]


class Run:
    """A launch: what its ranks reported, and their dumps."""

    def __init__(self, msrun, count, case, folder):
        self.folder, self.count = folder, count
        self.reports = launch(msrun, count, case, folder)

    def dumps(self, name, step=0):
        """The dumps of one debugger, by rank folder."""
        return {f.name: Dump(f) for f in sorted((self.folder / name / f"step{step}").iterdir())}

    def pair(self, name):
        """The dumps of ranks 0 and 1."""
        return list(self.dumps(name).values())


class Dump:
    """One rank's dump."""

    def __init__(self, folder):
        self.folder = folder
        self.file = json.loads((folder / "dump.json").read_text())
        self.data = self.file["data"]

    def array(self, name):
        return np.load(self.folder / "dump_tensor_data" / f"{name}.npy")

    def files(self):
        return {f"{r['data_name']}" for entry in self.data.values() for r in records(entry) if "data_name" in r}


def records(value):
    """Every tensor's record in an entry."""
    if isinstance(value, list):
        return [r for inner in value for r in records(inner)]
    if not isinstance(value, dict):
        return []
    return [value] if "shape" in value else [r for inner in value.values() for r in records(inner)]


@pytest.fixture(scope="module")
def two(tmp_path_factory, msrun):
    return Run(msrun, 2, "two", tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def four(tmp_path_factory, msrun):
    return Run(msrun, 4, "four", tmp_path_factory.mktemp("four"))


# ---- one folder a rank -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["before", "mix", "L1", "L0"])
def test_every_rank_writes_a_whole_dump_of_its_own(level, two):
    """`before` was constructed before the communication was initialised."""
    for step in range(STEPS):
        dumps = two.dumps(level, step)
        assert list(dumps) == ["rank0", "rank1"]
        names = [list(dump.data) for dump in dumps.values()]
        assert names[0] == names[1] != []
        for rank, dump in enumerate(dumps.values()):
            assert dump.file["run"]["rank"] == rank
            assert "missing" not in dump.file
            expected = {"dump.json", "stack.json", "construct.json"}
            if level == "mix":
                expected.add("dump_tensor_data")
                assert dump.file["dump_data_dir"] == str(dump.folder / "dump_tensor_data")
                assert len(dump.files()) > 20
                assert dump.files() <= {f.name for f in (dump.folder / "dump_tensor_data").iterdir()}
            assert {f.name for f in dump.folder.iterdir()} == expected


def test_four_ranks_write_four_folders_with_the_same_names(four):
    for step in range(STEPS):
        dumps = four.dumps("before", step)
        assert list(dumps) == ["rank0", "rank1", "rank2", "rank3"]
        names = {tuple(dump.data) for dump in dumps.values()}
        assert len(names) == 1
        assert "MintDistributed.all_reduce.3.forward" in names.pop()


def test_the_setting_rank_chooses_who_writes(two):
    for step in range(STEPS):
        assert list(two.dumps("second", step)) == ["rank1"]
        assert list(two.dumps("both", step)) == ["rank0", "rank1"]


def test_a_rank_may_be_numbered_by_the_training(two):
    assert list(two.dumps("numbered")) == ["rank5", "rank6"]
    assert [dump.file["run"]["rank"] for dump in two.pair("numbered")] == [5, 6]


def test_started_before_the_communication_one_process_is_refused_and_the_training_goes_on(two, four):
    for run in (two, four):
        complaints = [report["early"] for report in run.reports]
        assert complaints.count("") == 1
        for complaint in filter(None, complaints):
            assert complaint.startswith(f"{run.folder}/early: another process of this launch writes here (process ")
            assert "Start the debugger after communication is initialized" in complaint
        assert list(run.dumps("early")) == ["rank"]


# ---- the training ----------------------------------------------------------------------------------------------------


def test_the_training_is_bit_identical_with_the_debugger(two, four):
    for report in two.reports:
        assert len({report["before"], *report["bits"].values()}) == 1
        assert set(report["bits"]) == {"bare", "again", "mix", "L1", "L0"}
    assert two.reports[0]["before"] != two.reports[1]["before"], "each rank has its own data, so its own loss"
    for report in four.reports:
        assert report["before"] == report["bare"]


def gradients_by_hand(rank):
    """Of the first step: the gradients of the two layers' weights on one rank."""
    x = np.random.default_rng([0, rank]).standard_normal((2, 4)).astype(np.float32)
    first = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)
    last = np.random.default_rng(1).standard_normal((1, 8)).astype(np.float32)
    hidden = np.tanh(x @ first.T)
    y = hidden @ last.T  # the mean of two squares has the gradient y
    return {0: (y @ last * (1 - hidden**2)).T @ x, 2: y.T @ hidden}


def test_gradients_are_each_ranks_own_before_and_the_sum_of_all_afterwards(two):
    dumps = two.pair("mix")
    for number in range(4):
        name = f"MintDistributed.all_reduce.{number}.forward"
        own = [dump.array(f"{name}.input.0") for dump in dumps]
        for rank, dump in enumerate(dumps):
            if number in (0, 2):  # the weights; 1 and 3 are biases
                np.testing.assert_allclose(own[rank], gradients_by_hand(rank)[number], rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(dump.array(f"{name}.output.0"), own[0] + own[1])


def test_the_example_of_the_documentation_runs(two, options):
    page = (SCRIPT.parents[2] / "docs" / "en/how-to/comparing/ranks.md").read_text()
    command = re.search(r"^msrun .*$", page, re.MULTILINE)[0].split()
    assert command == ["msrun", *options(2), "train.py"]
    for step in (0, 1):
        dumps = two.dumps("dump", step)
        assert list(dumps) == ["rank0", "rank1"]
        for dump in dumps.values():
            assert "missing" not in dump.file
            assert {"Cell.0.Dense.forward.0", "MintDistributed.all_reduce.3.forward"} <= set(dump.data)


# ---- collectives -----------------------------------------------------------------------------------------------------


def constant(array):
    """The value that all elements have."""
    assert array.shape == (2, 3)
    return float(array.flat[0]) if np.all(array == array.flat[0]) else None


GIVEN = {
    "MintDistributed.all_gather.0": {"input.1": (1, 2), "output.0.0": (1, 1), "output.0.1": (2, 2), "output.1": (1, 2)},
    "MintDistributed.broadcast.0": {"input.0": (1, 2), "output.0": (2, 2)},
    "MintDistributed.scatter.0": {"input.1.1": (20, 20), "output.0": (10, 20), "output.1.1": (20, 20)},
    "MintDistributed.gather.0": {"input.0": (1, 2), "output.1.0": (1, 0), "output.1.1": (2, 0)},
    "MintDistributed.all_reduce.0": {"input.0": (1, 2), "output.0": (2, 2)},
    "Distributed.all_reduce.0": {"input.0": (1, 2), "output.0": (3, 3)},
    "Distributed.broadcast.0": {"input.0": (1, 2), "output.0": (1, 1)},
    "Distributed.all_reduce.1": {"input.0": (2, 3), "output.0": (5, 5)},
    "Distributed.broadcast.1": {"input.0": (1, 2), "output.0": (1, 1)},
    "MintDistributed.all_reduce.1": {"input.0": (1, 2), "output.0": (3, 3)},
    "MintDistributed.all_reduce.2": {"input.0": (10, 11), "output.0": (21, 21)},
}
"""Call: what stands in its parts on ranks 0 and 1."""


@pytest.mark.parametrize("call", GIVEN)
def test_a_collective_has_its_arguments_before_and_its_results_after_the_exchange(call, two):
    for part, values in GIVEN[call].items():
        found = [constant(dump.array(f"{call}.forward.{part}")) for dump in two.pair("collectives")]
        assert found == list(values), part


def test_arguments_that_are_written_into_are_the_output_with_the_keywords_behind(two):
    for dump in two.pair("collectives"):
        scatter = dump.data["MintDistributed.scatter.0.forward"]
        assert [len(r) if isinstance(r, list) else r.get("value", "tensor") for r in scatter["output"]] == [
            *("tensor", 2, 0, "mccl_world_group")
        ]
        assert scatter["input_kwargs"] == {"group": {"type": "str", "value": "mccl_world_group"}}
        inputs = dump.data["Distributed.broadcast.1.forward"]["output"]
        assert len(inputs) == 1, "what comm_func.broadcast gives is a new tensor"


def test_barriers_are_not_recorded(two):
    for dump in two.pair("collectives"):
        assert not [name for name in dump.data if "barrier" in name]


def test_asynchronous_calls_are_recorded_when_they_were_waited_for_in_the_order_of_the_waits(two):
    for dump in two.pair("collectives"):
        order = ["Mint.add.0.forward", *(f"MintDistributed.all_reduce.{n}.forward" for n in (2, 1, 3))]
        assert list(dump.data)[-4:] == order


def test_a_handle_that_is_not_waited_for_before_stop_leaves_a_record_without_output(two):
    for rank, dump in enumerate(two.pair("collectives")):
        name = "MintDistributed.all_reduce.3.forward"
        entry = dump.data[name]
        assert set(entry) == {"input_args", "input_kwargs", "missing"}
        assert entry["missing"] == ["output"]
        assert constant(dump.array(f"{name}.input.0")) == 100 + rank
        assert dump.file["missing"] == [{"name": name, "part": "output", "cause": NOT_WAITED}]


def test_the_training_gets_the_frameworks_own_handles(two):
    for report in two.reports:
        handles = report["collectives"]
        assert handles["classes"] == [
            "mindspore.communication.comm_func.CommHandle",
            "mindspore.ops.function.comm_func.CommHandle",
        ]
        assert handles["untouched"]
        assert handles["between"] == [[2.0] * 3] * 2


def test_an_asynchronous_call_is_not_waited_for_by_us(two):
    """Rank 1 sends only when rank 0 has come back from its `irecv`."""
    receiver, sender = two.pair("overlap")
    assert constant(receiver.array("MintDistributed.irecv.0.forward.input.0")) == 0
    assert constant(receiver.array("MintDistributed.irecv.0.forward.output.0")) == 7
    assert constant(sender.array("MintDistributed.isend.0.forward.input.0")) == 7
    assert list(sender.data) == ["MintDistributed.isend.0.forward"]
    assert [report["overlap"] for report in two.reports] == [[[7.0] * 3] * 2] * 2


def test_groups_of_ranks_exchange_among_themselves(four):
    for rank, dump in enumerate(four.dumps("pairs").values()):
        call = "MintDistributed.all_reduce.0.forward"
        assert constant(dump.array(f"{call}.input.0")) == 2**rank
        assert constant(dump.array(f"{call}.output.0")) == (3 if rank < 2 else 12)
        assert dump.data[call]["input_kwargs"]["group"]["value"] == f"pair{rank // 2 * 2}"


# ---- backward --------------------------------------------------------------------------------------------------------


def test_gradients_of_collectives_are_recorded(two):
    """With x = r + 1 on rank r, and a, b, c the results: a = 3 (1 + 2) = 9 the primitive's sum, b = 2 the broadcast of
    rank 0, c = 5 (1 + 2) = 15 the sum in place; of the loss (r + 1) sum(a b c) the gradients are (r + 1) b c and so on.
    """
    dumps = two.pair("gradients")
    a, b, c = 9, 2, 15
    for rank, dump in enumerate(dumps):
        scale = rank + 1
        primitive, spread = "Primitive.reduce.AllReduce.0.backward", "Distributed.broadcast.0.backward"
        assert constant(dump.array(f"{primitive}.input.0")) == scale * b * c
        assert constant(dump.array(f"{primitive}.output.0")) == (1 + 2) * b * c, "the sum of both ranks' gradients"
        assert constant(dump.array(f"{spread}.input.0")) == scale * a * c
        assert constant(dump.array(f"{spread}.output.0")) == scale * a * c, "MindSpore passes it on as it is"
        in_place = dump.data["MintDistributed.all_reduce.0.backward"]
        for part in ("input", "output"):
            assert (in_place[part][0]["Max"], in_place[part][0]["gradient"]) == (scale * a * b, "accumulated")
    for rank, report in enumerate(two.reports):
        bare, collected = report["gradients"]
        scale = rank + 1
        assert bare == collected == [[3.0 * (1 + 2) * b * c + 2.0 * scale * a * c + 5.0 * scale * a * b] * 3] * 2


# ---- forks -----------------------------------------------------------------------------------------------------------


def test_forked_children_write_nothing_and_the_parents_dump_is_whole(two):
    """The children end the step, as far as they can; the parent goes on in it."""
    for rank, dump in enumerate(two.pair("forks")):
        names = [n for n in dump.data if n.startswith("Mint.")]
        assert names == ["Mint.add.0.forward", "Mint.mul.0.forward"]
        assert constant(dump.array("Mint.add.0.forward.output.0")) == 1 + rank
        assert constant(dump.array("Mint.mul.0.forward.output.0")) == 6
        assert "missing" not in dump.file
        assert "rebuilt" not in dump.file
        assert {f.name for f in (dump.folder / "dump_tensor_data").iterdir()} == dump.files()
        assert sorted(f.name for f in (two.folder / "forks").glob("step*")) == ["step0"]
    assert [report["forks"] for report in two.reports] == [[3.0 * sum(range(8)), 0]] * 2


# ---- in this process: handles and messages ---------------------------------------------------------------------------


def test_waits_are_seen_while_a_collection_is_open_only(collecting):
    before = [vars(handle)["wait"] for handle in COLLECTIVES.handles]
    debugger = collecting(level="L1")
    debugger.start()
    assert [vars(handle)["wait"] for handle in COLLECTIVES.handles] != before
    debugger.stop()
    assert [vars(handle)["wait"] for handle in COLLECTIVES.handles] == before


@pytest.fixture
def exchanging(collecting, monkeypatch):
    """An open collection, with an asynchronous all_reduce that doubles, and gives the handle of nothing to wait for."""

    def all_reduce(tensor, async_op=True):
        tensor[:] = tensor * 2
        return comm_func.default_handle

    monkeypatch.setattr(distributed, "all_reduce", all_reduce)
    debugger = collecting(level="L1")
    debugger.start()
    return debugger


def outputs(dumped, debugger):
    """What the calls of all_reduce gave, in the order of the dump; None where it is missing."""
    debugger.stop()
    debugger.step()
    entries = {n: e for n, e in dumped(debugger).data.items() if n.startswith("MintDistributed.")}
    return {name.split(".")[2]: e["output"][0]["Max"] if "output" in e else None for name, e in entries.items()}


def test_calls_that_share_a_handle_are_complete_one_by_one(exchanging, dumped):
    for _ in range(3):
        handle = distributed.all_reduce(X + 1)
    assert handle is comm_func.default_handle
    handle.wait()
    handle.wait()
    assert outputs(dumped, exchanging) == {"0": 12.0, "1": 12.0, "2": None}


def test_a_wait_in_another_thread_is_not_ours(exchanging, dumped):
    handle = distributed.all_reduce(X + 1)
    thread = threading.Thread(target=handle.wait)
    thread.start()
    thread.join()
    assert outputs(dumped, exchanging) == {"0": None}


def test_a_call_with_several_handles_is_complete_with_the_last(exchanging, dumped, monkeypatch):
    own = [comm_func.CommHandle(), comm_func.CommHandle()]
    monkeypatch.setattr(distributed, "all_gather", lambda tensors, async_op=True: list(own))
    exchanging.stop()
    exchanging.start()
    for _ in range(2):
        assert distributed.all_gather([X], async_op=True) == own
    own[1].wait()
    own[0].wait()
    own[0].wait()
    exchanging.stop()
    exchanging.step()
    assert ["output" in entry for entry in dumped(exchanging).data.values()] == [True, False]


def test_messages_say_what_they_are(collecting, dumped):
    """There is no other rank here, so the call fails; its inputs are recorded all the same."""
    plain = distributed.isend
    debugger = collecting(level="L1")
    debugger.start()
    assert distributed.isend is plain, "messages accept nothing else"
    messages = [distributed.P2POp(distributed.isend, X, 1), distributed.P2POp("irecv", X, 1, group="pair")]
    assert [message.op for message in messages] == [plain, "irecv"]
    with pytest.raises((TypeError, RuntimeError)):
        distributed.batch_isend_irecv(messages)
    debugger.stop()
    debugger.step()
    entry = dumped(debugger).data["MintDistributed.batch_isend_irecv.0.forward"]
    first, second = entry["input_args"][0]
    assert entry["missing"] == ["output"]
    assert first["tensor"]["Max"] == 5.0
    assert {k: v for k, v in second.items() if k != "tensor"} == {
        "class_type": "mindspore.mint.distributed.P2POp",
        **{"op": "irecv", "peer": 1, "tag": 0, "group_id": f"{zlib.crc32(b'pair'):08x}"},
    }
    assert (first["op"], first["group_id"]) == ("isend", None)
    assert distributed.P2POp(plain, X, 1).op is plain
