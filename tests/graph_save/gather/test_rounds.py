"""`msprobe gather` where kernels or graphs run more than once in an iteration."""

import numpy as np
from kernel_files import add_settings, data, only, save

from msprobe.store.reader import load_tensor, read


def loop(raw, times=3):
    """The sample's ReLU, run several times in one iteration."""
    kernels = raw / "rank_0/Net/0/0"
    for file in kernels.glob("ReLU*"):
        file.unlink()
    for k in range(times):
        save(kernels, f"ReLU.Default_ReLU-op0.0.0.{k}0.input.0.DefaultFormat.Float32", np.float32([-k, k]))
        save(kernels, f"ReLU.Default_ReLU-op0.0.0.{k}1.output.0.DefaultFormat.Float32", np.float32([0, k]))


def test_the_kth_run_of_a_kernel_is_a_call_of_its_own(gather, raw, out):
    loop(raw)
    gather(raw)
    dump = read(out / "step0")
    names = ["Kernel.Default.ReLU.0.forward", *(f"Kernel.Default.ReLU.round{k}.0.forward" for k in (1, 2))]
    assert [call.name for call in dump.calls[:3]] == names
    for k, call in enumerate(dump.calls[:3]):
        assert [load_tensor(dump, r).tolist() for r in call.records] == [[-k, k], [0, k]]


def test_runs_are_told_apart_by_time_where_one_of_them_lacks_a_value(gather, raw, out):
    loop(raw)
    only(raw, "rank_0/Net/0/0/ReLU*.10.input*").unlink()
    gather(raw)
    dump = read(out / "step0")
    held = [[load_tensor(dump, r).tolist() for r in c.records if r.kind == "tensor"] for c in dump.calls[:3]]
    assert held == [[[0, 0], [0, 0]], [[0, 1]], [[-2, 2], [0, 2]]]
    assert dump.calls[1].missing == ("input.0",)


def test_several_graphs_of_one_iteration_are_one_dump_in_order_of_time(gather, tmp_path, out):
    for graph, stamp in ((0, 50), (1, 10), (2, 30)):
        folder = tmp_path / "raw" / "rank_0" / "Net" / str(graph) / "4"
        save(folder, f"Exp.Default_Exp-op{graph}.0.0.{stamp}.output.0.DefaultFormat.Float32", np.float32([graph]))
    assert gather(tmp_path / "raw")[1][0].startswith(f"{out}/step4/rank0: 3 kernels of 3 graphs, 3 values")
    entries = data(out / "step4" / "rank0")["data"]
    assert [entry["kernel"]["graph"] for entry in entries.values()] == [1, 2, 0]


def test_equal_time_stamps_are_put_in_the_planned_order(gather, raw, out):
    for file in list((raw / "rank_0/Net/0/0").iterdir()):
        parts = file.name.split(".")
        parts[4] = "7"
        file.rename(file.with_name(".".join(parts)))
    gather(raw)
    assert [c.name.split(".")[-3] for c in read(out / "step0").calls][:3] == ["MatMul", "BiasAdd", "ReLU"]


def run_again(raw, **ours):
    """The sample's graph ran once more in the same iteration; by the word of these settings."""
    add_settings(raw, **ours)
    for file in sorted((raw / "rank_0/Net/0/0").iterdir()):
        *_, stamp = file.name.split(".")[:5]
        file.with_name(file.name.replace(stamp, str(int(stamp) + 10**6))).write_bytes(file.read_bytes())


def test_the_runs_of_a_graph_in_a_step_of_our_debugger_are_rounds_without_alarm(gather, raw, out):
    run_again(raw, msprobe={"task": "tensor", "level": "L2"})
    times = "graph 0 ran 2 times in this step; its kernels are named round1, ... from the second run on"
    assert gather(raw) == (0, [f"{out}/step0/rank0: 6 kernels of 1 graph, 28 values; note: {times}"])
    rounds = ["Kernel.Default.fc-Dense.MatMul", "Kernel.Default.fc-Dense.BiasAdd", "Kernel.Default.ReLU"]
    rounds += ["Parameter.fc.bias", "Parameter.fc.weight", "Parameter.x"]
    dump = read(out / "step0")
    first, again = ([f"{name}{k}.0.forward" for name in rounds] for k in ("", ".round1"))
    assert [call.name for call in dump.calls] == first + again
    source = {record.name: record.source for call in dump.calls for record in call.records}
    assert source["Kernel.Default.ReLU.round1.0.forward.input.0"] == (
        "call Kernel.Default.fc-Dense.BiasAdd.round1.0.forward.output.0"
    ), "of its own run"


def test_where_an_iteration_is_one_run_of_a_graph_files_of_two_runs_are_noticed(gather, raw):
    run_again(raw)
    code, lines = gather(raw)
    assert code == 0
    assert "graph 0 wrote its parameters 2 times in one iteration; if two runs used this dump_path, " in lines[0]
