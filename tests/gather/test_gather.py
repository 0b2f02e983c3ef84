"""`msprobe gather` on files of MindSpore's kernel dump, without MindSpore.

`cpu` is a real sample. Everything in the layouts of a device (`ascend...`) is written by hand after the description of
the format; none of it was made by a device.
"""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.graph_save.gather import tensors
from msprobe.store.npy import load_npy
from msprobe.store.read import load_tensor, read

CPU = Path(__file__).parents[1] / "samples" / "kernel_dump" / "cpu"
KERNELS = CPU / "rank_0" / "Net" / "0" / "0"
DENSE = "Kernel.Default.fc-Dense"


@pytest.fixture
def raw(tmp_path):
    """A copy of the sample that a test may break."""
    copy = tmp_path / "raw"
    for file in CPU.rglob("*"):
        if file.is_file():
            target = copy / file.relative_to(CPU)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    return copy


@pytest.fixture
def gather(tmp_path, capsys):
    """Run the command into `out`; gives its exit code and its lines."""

    def run(raw, *words):
        code = main(["gather", str(raw), "-o", str(tmp_path / "out"), *words])
        return code, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def data(folder):
    return json.loads((folder / "dump.json").read_text("ascii"))


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def save(folder, name, array, **kwargs):
    """One file of a kernel dump."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", np.asarray(array, **kwargs))


# What a dump holds


def test_a_cpu_dump_becomes_a_dump_in_the_order_of_execution(gather, out):
    code, lines = gather(CPU)
    assert (code, lines) == (0, [f"{out}/step0/rank0: 3 kernels of 1 graph, 14 values"])
    dump = read(out / "step0")
    assert (dump.task, dump.level, dump.framework, dump.step, dump.rank) == ("tensor", "L2", "mindspore", 0, 0)
    assert [call.name for call in dump.calls] == [
        f"{DENSE}.MatMul.0.forward",
        f"{DENSE}.BiasAdd.0.forward",
        "Kernel.Default.ReLU.0.forward",
        "Parameter.fc.bias.0.forward",
        "Parameter.fc.weight.0.forward",
        "Parameter.x.0.forward",
    ]
    assert not dump.missing


def test_every_value_is_the_one_that_the_framework_wrote(gather, out):
    gather(CPU)
    dump = read(out / "step0")
    weight = np.load(only(KERNELS, "Parameter.fc_weight.*"))
    bias = np.load(only(KERNELS, "Parameter.fc_bias.*"))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    held = {f"{call.name} {r.part}.{r.path[0]}": (r, load_tensor(dump, r)) for call in dump.calls for r in call.records}
    np.testing.assert_array_equal(held[f"{DENSE}.MatMul.0.forward input.0"][1], x)
    np.testing.assert_array_equal(held[f"{DENSE}.MatMul.0.forward input.1"][1], weight)
    np.testing.assert_allclose(held[f"{DENSE}.MatMul.0.forward output.0"][1], x @ weight.T, rtol=1e-5)
    np.testing.assert_allclose(
        held["Kernel.Default.ReLU.0.forward output.0"][1], np.maximum(x @ weight.T + bias, 0), 1e-5
    )
    record, array = held[f"{DENSE}.BiasAdd.0.forward output.0"]
    assert (record.dtype, record.shape) == ("Float32", (2, 2))
    assert (record.statistics.max, record.statistics.min) == (array.max(), array.min())
    assert record.statistics.mean == pytest.approx(float(array.astype(float).mean()), rel=1e-12)
    assert record.statistics.norm == pytest.approx(float(np.sqrt((array.astype(float) ** 2).sum())), rel=1e-12)


def test_a_kernel_says_its_full_name_type_graph_and_iteration(gather, out):
    gather(CPU)
    found = data(out / "step0" / "rank0")["data"][f"{DENSE}.BiasAdd.0.forward"]["kernel"]
    assert found == {
        "name": "Default/fc-Dense/BiasAdd-op0",
        "type": "BiasAdd",
        "graph": 0,
        "iteration": 0,
        "gradient": False,
        "task": 0,
        "stream": 0,
        "time": int(only(KERNELS, "BiasAdd*output*").name.split(".")[4]),
    }


def test_a_kernel_has_the_line_of_source_innermost_first(gather, out):
    gather(CPU)
    stacks = {call.name: call.stack for call in read(out / "step0").calls}
    assert stacks["Kernel.Default.ReLU.0.forward"] == (
        "File /home/user/env/lib/python3.11/site-packages/mindspore/ops/function/nn_func.py, line 8145, in relu, \n "
        "return relu_op(input)",
        "File /home/user/train/net.py, line 24, in construct, \n return ops.relu(y)",
    )
    assert stacks[f"{DENSE}.BiasAdd.0.forward"][1] == (
        "File /home/user/train/net.py, line 23, in construct, \n y = self.fc(x)"
    )
    assert stacks["Parameter.x.0.forward"] == ()


def test_inputs_say_who_gave_them(gather, out):
    gather(CPU)
    sources = {r.name: r.source for call in read(out / "step0").calls for r in call.records}
    assert sources[f"{DENSE}.MatMul.0.forward.input.0"] == "leaf"
    assert sources[f"{DENSE}.MatMul.0.forward.input.1"] == "parameter fc.weight"
    assert sources[f"{DENSE}.MatMul.0.forward.input.2"] == "leaf"
    assert sources[f"{DENSE}.BiasAdd.0.forward.input.0"] == f"call {DENSE}.MatMul.0.forward.output.0"
    assert sources["Kernel.Default.ReLU.0.forward.input.0"] == f"call {DENSE}.BiasAdd.0.forward.output.0"
    assert sources["Parameter.x.0.forward.input.0"] == ""


def test_the_run_says_where_it_came_from(gather, out):
    gather(CPU)
    run = data(out / "step0" / "rank0")["run"]
    assert run["framework"] == "mindspore 2.10.0"
    assert (run["step"], run["rank"], run["iteration"], run["raw"]) == (0, 0, 0, str(CPU / "rank_0"))
    assert run["settings"]["net_name"] == "Net"


def test_the_raw_files_stay_and_are_linked(gather, raw, out):
    before = {file: file.read_bytes() for file in raw.rglob("*") if file.is_file()}
    gather(raw)
    assert {file: file.read_bytes() for file in raw.rglob("*") if file.is_file()} == before
    linked = only(out, "step0/rank0/dump_tensor_data/Kernel.Default.ReLU.0.forward.output.0.npy")
    assert linked.samefile(only(raw, "rank_0/Net/0/0/ReLU*output*"))


def test_where_the_file_system_does_not_link_files_are_copied(gather, raw, out, monkeypatch):
    def refuse(source, target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    assert gather(raw)[0] == 0
    copied = only(out, "step0/rank0/dump_tensor_data/Kernel.Default.ReLU.0.forward.output.0.npy")
    source = only(raw, "rank_0/Net/0/0/ReLU*output*")
    assert copied.read_bytes() == source.read_bytes()
    assert not copied.samefile(source)
    assert not list(out.rglob("*.part"))


def test_task_statistics_leaves_the_tensors_where_they_are(gather, out):
    assert gather(CPU, "--task", "statistics")[0] == 0
    dump = read(out / "step0")
    assert dump.task == "statistics"
    assert not list(out.rglob("*.npy"))
    assert all(r.statistics for call in dump.calls for r in call.records)


def test_output_may_be_the_folder_itself_and_gathering_may_be_repeated(raw, capsys):
    for _ in range(2):
        assert main(["gather", str(raw), "-o", str(raw)]) == 0
        assert capsys.readouterr().out == f"{raw}/step0/rank0: 3 kernels of 1 graph, 14 values\n"
    assert len(list((raw / "step0/rank0/dump_tensor_data").iterdir())) == 14


@pytest.mark.parametrize("inner", ["", "rank_0", "rank_0/Net/0/0"])
def test_any_folder_of_a_rank_can_be_given(inner, gather, out):
    assert gather(CPU / inner)[1] == [f"{out}/step0/rank0: 3 kernels of 1 graph, 14 values"]


def test_neither_mindspore_nor_torch_is_needed(tmp_path):
    probe = (
        "import sys\nclass Refuse:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('mindspore', 'torch'):\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Refuse())\nfrom msprobe.cli import main\n"
        f"sys.exit(main(['gather', {str(CPU)!r}, '-o', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# What runs more than once


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
    settings = json.loads((raw / "kernel_kbyk_dump.json").read_text())
    (raw / "kernel_kbyk_dump.json").write_text(json.dumps({**settings, **ours}))
    for file in sorted((raw / "rank_0/Net/0/0").iterdir()):
        *_, stamp = file.name.split(".")[:5]
        file.with_name(file.name.replace(stamp, str(int(stamp) + 10**6))).write_bytes(file.read_bytes())


def test_the_runs_of_a_graph_in_a_step_of_our_debugger_are_rounds_without_alarm(gather, raw, out):
    run_again(raw, msprobe={"task": "tensor", "level": "L2"})
    times = "graph 0 ran 2 times in this step; from the second run on its kernels are round1, ..."
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


# What the debugger was told


def debugger_task(raw, task):
    settings = json.loads((raw / "kernel_kbyk_dump.json").read_text())
    (raw / "kernel_kbyk_dump.json").write_text(json.dumps({**settings, "msprobe": {"task": task}}))
    os.utime(raw / "rank_0/.dump_metadata/data_dump.json", (0, 0))


@pytest.mark.parametrize(
    ("debugger", "words", "made"),
    [
        ("statistics", (), "statistics"),
        ("tensor", (), "tensor"),
        ("exception_dump", (), "tensor"),
        ("statistics", ("--task", "tensor"), "tensor"),
        ("tensor", ("--task", "statistics"), "statistics"),
    ],
)
def test_the_task_is_the_debuggers_unless_the_command_says_another(debugger, words, made, gather, raw, out):
    debugger_task(raw, debugger)
    assert gather(raw, *words)[0] == 0
    dump = read(out / "step0")
    assert dump.task == made
    assert len(list(out.rglob("*.npy"))) == (14 if made == "tensor" else 0)
    assert all(record.statistics for call in dump.calls for record in call.records)


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"common_dump_settings": 7}', '{"common_dump_settings": {}, "msprobe": 1}']
)
def test_json_of_others_in_the_folder_is_no_trouble(text, gather, raw, out, capsys):
    (raw / "other.json").write_text(text)
    assert gather(raw) == (0, [f"{out}/step0/rank0: 3 kernels of 1 graph, 14 values"])
    assert len(list(out.rglob("*.npy"))) == 14


# What is missing or broken


def test_a_kernel_of_the_order_without_a_file_is_missing(gather, raw, out):
    for file in (raw / "rank_0/Net/0/0").glob("ReLU*"):
        file.unlink()
    code, lines = gather(raw)
    assert code == 1
    assert "LOST: Default/ReLU-op0: stands in the execution order of graph 0" in lines[0]
    assert read(out / "step0").missing[0].startswith("Default/ReLU-op0: stands in the execution order")


def test_a_graph_that_did_not_run_is_not_missing(gather, raw):
    order = raw / "rank_0/execution_order/ms_execution_order_graph_1.csv"
    order.write_text("NodeExecutionOrder-FullNameWithScope\nDefault/Sin-op0\n")
    assert gather(raw)[0] == 0


@pytest.mark.parametrize("keep", [0, 5, 100, 131])
def test_a_truncated_tensor_is_missing_and_the_rest_is_there(keep, gather, raw, out):
    file = only(raw, "rank_0/Net/0/0/BiasAdd*output*")
    file.write_bytes(file.read_bytes()[:keep])
    code, lines = gather(raw)
    assert code == 1
    assert f"LOST: {DENSE}.BiasAdd.0.forward output.0: " in lines[0]
    dump = read(out / "step0")
    call = next(call for call in dump.calls if call.name == f"{DENSE}.BiasAdd.0.forward")
    assert call.missing == ("output.0",)
    assert [r.kind for r in call.records] == ["tensor", "tensor", "tensor", "null"]
    assert len(list(out.rglob("*.npy"))) == 13


def test_without_order_and_graph_names_are_as_the_files_spell_them(gather, raw, out):
    for folder in ("execution_order", "graphs"):
        for file in (raw / "rank_0" / folder).iterdir():
            file.unlink()
    code, lines = gather(raw)
    assert code == 0
    assert "the graph has no line for Default_fc-Dense_MatMul-op0, " in lines[0]
    assert read(out / "step0").calls[0].name == "Kernel.Default_fc-Dense_MatMul.0.forward"


def test_without_an_order_the_graph_gives_the_names(gather, raw, out):
    only(raw, "rank_0/execution_order/ms_execution*").unlink()
    assert gather(raw)[0] == 0
    assert read(out / "step0").calls[0].name == f"{DENSE}.MatMul.0.forward"


def test_an_input_that_the_framework_left_out_is_said(gather, raw, out):
    only(raw, "rank_0/Net/0/0/MatMul*input.0*").unlink()
    only(raw, "rank_0/Net/0/0/MatMul*input.3*").unlink()
    assert gather(raw)[0] == 0
    call = read(out / "step0").calls[0]
    assert call.missing == ("input.0", "input.3")
    assert [r.kind for r in call.records] == ["null", "tensor", "tensor", "null", "tensor"]


def test_outputs_alone_are_not_missing_their_inputs(gather, raw, out):
    settings = {"common_dump_settings": {"dump_mode": 0, "input_output": 2}}
    (raw / "kernel_kbyk_dump.json").write_text(json.dumps(settings))
    for file in (raw / "rank_0/Net/0/0").glob("*.input.*"):
        file.unlink()
    assert gather(raw)[0] == 0
    assert all(call.missing == () for call in read(out / "step0").calls)


def test_files_of_others_are_left_out_and_counted(gather, raw):
    (raw / "rank_0/Net/0/0/notes.txt").write_text("")
    (raw / "rank_0/Net/0/0/MatMul.Default_x.0.0.1719").write_bytes(b"\0" * 8)
    code, lines = gather(raw)
    assert code == 0
    assert (
        "note: 2 files are none of a kernel dump and were left out (MatMul.Default_x.0.0.1719, notes.txt)" in lines[0]
    )


def test_names_with_special_characters_are_gathered(gather, tmp_path, out):
    folder = tmp_path / "raw/rank_0/Net/0/0"
    for at, name in enumerate(
        ("Default_网络-Net_层_Exp-op0", "Default_a b-Net_Exp-op0", "Default_x.y-Net_Exp-op0", "_Exp-op0")
    ):
        save(folder, f"Exp.{name}.0.0.{at}.output.0.DefaultFormat.Float32", np.float32([at]))
    assert gather(tmp_path / "raw")[0] == 0
    dump = read(out / "step0")
    assert [call.name for call in dump.calls] == [
        "Kernel.Default_网络-Net_层_Exp.0.forward",
        "Kernel.Default_a b-Net_Exp.0.forward",
        "Kernel.Default_x.y-Net_Exp.0.forward",
        "Kernel._Exp.0.forward",
    ]
    assert [load_tensor(dump, call.records[0]).tolist() for call in dump.calls] == [[0], [1], [2], [3]]


def test_bfloat16_becomes_float32_with_the_same_values(gather, tmp_path, out):
    """The header that MindSpore writes for bfloat16 is none of numpy's."""
    folder = tmp_path / "raw/rank_0/Net/0/0"
    folder.mkdir(parents=True)
    head = b"{'descr': '<E2', 'fortran_order': False, 'shape': (3,), }".ljust(117) + b"\n"
    bits = np.array([0x3F80, 0xC040, 0x0000], np.uint16)  # 1, -3, 0
    name = "Cast.Default_Cast-op0.0.0.1.output.{}.DefaultFormat.BFloat16.npy"
    whole = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bits.tobytes()
    (folder / name.format(0)).write_bytes(whole)
    (folder / name.format(1)).write_bytes(whole[:-1])
    code, lines = gather(tmp_path / "raw")
    assert code == 1
    assert "holds 5 bytes of bfloat16 where its header promises 6" in lines[0]
    dump = read(out / "step0")
    record = dump.calls[0].records[0]
    assert (record.dtype, record.shape, record.statistics.min) == ("BFloat16", (3,), -3.0)
    array = load_npy(out / "step0/rank0/dump_tensor_data" / record.file)
    assert (array.dtype, array.tolist()) == (np.float32, [1, -3, 0])


def test_a_float32_body_under_a_float16_header_is_read_as_float32(gather, tmp_path, out):
    """A CPU kernel that has no float16 computes in float32; the framework's header does not know."""
    folder = tmp_path / "raw/rank_0/Net/0/0"
    save(folder, "Exp.Default_Exp-op0.0.0.1.output.0.DefaultFormat.Float16", np.float16([0, 0]))
    file = only(folder, "*.npy")
    file.write_bytes(file.read_bytes()[:-4] + np.float32([1.5, 70000]).tobytes())
    assert gather(tmp_path / "raw")[0] == 0
    dump = read(out / "step0")
    assert (dump.calls[0].records[0].dtype, dump.calls[0].records[0].statistics.max) == ("Float32", 70000.0)


def test_an_interrupted_gather_leaves_no_dump_that_looks_whole(raw, out, monkeypatch, capsys):
    count = iter(range(100))
    place = tensors._place

    def interrupt(path, target):
        if next(count) == 8:
            raise KeyboardInterrupt
        place(path, target)

    monkeypatch.setattr(tensors, "_place", interrupt)
    assert main(["gather", str(raw), "-o", str(out)]) == 130
    assert not (out / "step0/rank0/dump.json").exists()
    assert (out / "step0/rank0/dump.journal").exists()
    monkeypatch.undo()
    gc.collect()  # what was interrupted holds the journal's lock until it is forgotten, or its process ends
    assert main(["gather", str(raw), "-o", str(out)]) == 0
    assert read(out / "step0").unfinished == ""


def test_a_full_disk_is_one_line(raw, out, monkeypatch, capsys):
    def full(path, target):
        raise OSError(28, "No space left on device", target)

    monkeypatch.setattr(tensors, "_place", full)
    assert main(["gather", str(raw), "-o", str(out)]) == 2
    assert "No space left on device; what is finished stays" in capsys.readouterr().err
    assert not (out / "step0/rank0/dump.json").exists()


# What was asked for


def ask(raw, *kernels):
    for file in (raw / "kernel_kbyk_dump.json", raw / "rank_0/.dump_metadata/data_dump.json"):
        file.write_text(json.dumps({"common_dump_settings": {"dump_mode": 1, "kernels": list(kernels)}}))


@pytest.mark.parametrize(
    "kernels",
    [("MatMul", "ReLU"), ("Default/fc-Dense/MatMul-op0",), ("name-regex(.*fc-Dense.*)",), ("matmul",), ()],
)
def test_what_was_asked_for_and_came_is_not_spoken_of(kernels, gather, raw, out):
    ask(raw, *kernels)
    assert gather(raw) == (0, [f"{out}/step0/rank0: 3 kernels of 1 graph, 14 values"])


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("Default/fc-Dense/MatMul-op1", "matches no kernel; did you mean Default/fc-Dense/MatMul-op0?"),
        ("Default/fc-Dense/Matmul-op0", "matches no kernel; did you mean Default/fc-Dense/MatMul-op0?"),
        ("MatMull", "matches no kernel; did you mean MatMul?"),
        ("Softmax", "matches no kernel; there are BiasAdd, MatMul, ReLU"),
        ("name-regex(.*fc2.*)", "matches no kernel; there are BiasAdd, MatMul, ReLU"),
        ("name-regex(()", "is no regular expression"),
    ],
)
def test_a_name_that_matches_nothing_is_reported_with_the_nearest(kernel, says, gather, raw):
    ask(raw, "ReLU", kernel)
    code, lines = gather(raw)
    assert code == 1
    assert says in lines[-1]
    assert len(lines) == 2


def test_where_nothing_was_dumped_the_mistyped_name_is_reported_too(gather, raw):
    for file in (raw / "rank_0/Net/0/0").iterdir():
        file.unlink()
    ask(raw, "MatMull")
    assert gather(raw) == (
        1,
        [f"{raw}/rank_0: kernels: 'MatMull' matches no kernel; did you mean MatMul?"],
    )


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("ReLU", "is Default/ReLU-op0, which did not run in what was dumped"),
        ("name-regex(.*ReLU-op[0-9]+)", "is Default/ReLU-op0, which did not run in what was dumped"),
        ("Default/ReLU-op0", "or ran under another number, as in graphs after the first; 'name-regex(Default/ReLU-op["),
    ],
)
def test_a_kernel_that_exists_and_did_not_come_is_told_apart(kernel, says, gather, raw):
    for file in (raw / "rank_0/Net/0/0").glob("ReLU*"):
        file.unlink()
    ask(raw, kernel)
    code, lines = gather(raw)
    assert code == 1
    assert f"kernels: {kernel!r} is " in lines[-1]
    assert says in lines[-1]


def test_a_rank_without_files_is_said_beside_one_that_has_some(gather, raw):
    empty = raw / "rank_1/execution_order"
    empty.mkdir(parents=True)
    code, lines = gather(raw)
    assert (code, len(lines)) == (1, 2)
    assert lines[1] == (f"{raw}/rank_1: holds no kernel files; check `iteration` and `kernels` of the dump settings")


# The layouts of a device: by hand


HEAD = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
    "Max Value,Min Value,Avg Value,L2Norm Value"
)


def ascend(tmp_path, *rows, head=HEAD):
    folder = tmp_path / "raw/rank_3/Net/0/2"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "statistic.csv").write_text("\n".join((head, *rows)) + "\n")
    return tmp_path / "raw"


def test_ascend_statistics_become_records_without_tensors(gather, tmp_path, out):
    raw = ascend(
        tmp_path,
        'MatMul,Default/net-Net/MatMul-op0,4,2,100,input,0,32,float32,"(2,4)",7.5,-1,2.25,9.5',
        'MatMul,Default/net-Net/MatMul-op0,4,2,101,output,0,16,bfloat16,"(2,)",3,null,nan,inf',
        'Cast,Default/net-Net/Cast-op0,5,2,102,output,0,8,int32,"(2,)",7,-7,0,9.9',
        'Cast,Default/net-Net/Cast-op1,6,2,103,output,0,1,bool,"()",True,False,0,0,',
    )
    assert gather(raw) == (
        0,
        [
            f"{out}/step2/rank3: 3 kernels of 1 graph, 4 values; the graph has no line for Default/net-Net/MatMul-op0, "
            "Default/net-Net/Cast-op0, Default/net-Net/Cast-op1"
        ],
    )
    dump = read(out / "step2")
    assert (dump.task, dump.step, dump.rank) == ("statistics", 2, 3)
    assert [call.name for call in dump.calls] == [
        "Kernel.Default.net-Net.MatMul.0.forward",
        "Kernel.Default.net-Net.Cast.0.forward",
        "Kernel.Default.net-Net.Cast.1.forward",
    ]
    given, gave = dump.calls[0].records
    assert (given.dtype, given.shape) == ("Float32", (2, 4))
    statistics = given.statistics
    assert (statistics.max, statistics.min, statistics.mean, statistics.norm) == (7.5, -1, 2.25, 9.5)
    assert (gave.dtype, gave.statistics.min, gave.statistics.norm) == ("BFloat16", None, float("inf"))
    assert data(out / "step2/rank3")["data"]["Kernel.Default.net-Net.Cast.0.forward"]["output"][0]["Max"] == 7
    flag = data(out / "step2/rank3")["data"]["Kernel.Default.net-Net.Cast.1.forward"]["output"][0]
    assert flag == {"type": "mindspore.Tensor", "dtype": "Bool", "shape": [], "Max": True, "Min": False}


@pytest.mark.parametrize(
    "row",
    [
        "MatMul,Default/MatMul-op0",
        "MatMul,Default/MatMul-op0,x,2,100,input,0,32,float32,(2),1,1,1,1",
        "MatMul,Default/MatMul-op0,1,2,100,sideways,0,32,float32,(2),1,1,1,1",
        "MatMul,Default/MatMul-op0,1,2,100,input,999999999,32,float32,(2),1,1,1,1",
        '"torn',
    ],
)
def test_a_line_that_says_nothing_is_left_out(row, gather, tmp_path, out, capsys):
    raw = ascend(tmp_path, "Exp,Default/Exp-op0,1,2,100,output,0,4,float32,(1),1,1,1,1", row)
    assert gather(raw)[0] == 0
    assert [call.name for call in read(out / "step2").calls] == ["Kernel.Default.Exp.0.forward"]


def test_a_table_without_its_columns_is_left_out(gather, tmp_path):
    code, lines = gather(ascend(tmp_path, "1,2", head="a,b"))
    assert code == 0
    assert lines[0].endswith("0 kernels of 0 graphs, 0 values")


def test_ascend_tensors_and_their_statistics_are_one_record(gather, tmp_path, out):
    raw = ascend(tmp_path, "Exp,Default_Exp-op0,1,2,100,output,0,8,float32,(2),99,99,99,99")
    save(raw / "rank_3/Net/0/2", "Exp.Default_Exp-op0.1.2.100.output.0.NCHW.float32", np.float32([1, 2]))
    gather(raw)
    (record,) = read(out / "step2").calls[0].records
    assert record.statistics.max == 2, "computed from the tensor"


def test_ascend_types_without_a_numpy_form_are_listed_not_lost(gather, tmp_path, out):
    raw = ascend(tmp_path, "Exp,Default_Exp-op0,1,2,100,output,0,4,bfloat16,(2),2,1,1.5,2.2")
    folder = raw / "rank_3/Net/0/2"
    for slot in (0, 1):
        (folder / f"Exp.Default_Exp-op0.1.2.100.output.{slot}.NCHW.bfloat16").write_bytes(b"\0\0\0\0")
    code, lines = gather(raw)
    assert code == 1
    assert "output.0: Exp.Default_Exp-op0.1.2.100.output.0.NCHW.bfloat16 is no npy" in lines[0]
    dump = read(out / "step2")
    assert len(dump.missing) == 2
    assert [r.kind for r in dump.calls[0].records] == ["tensor", "null"], "statistic.csv tells of the first"
    assert dump.calls[0].records[0].statistics.max == 2


def test_hashed_names_are_restored_in_the_layout_of_o2(gather, tmp_path, out):
    folder = tmp_path / "raw/rank_1/20261121112233/step_5"
    long = f"MatMul.Default_{'n' * 260}_MatMul-op0.1.2.{{}}.output.0.ND.float32.npy"
    save(folder, "0" * 31 + "1", np.float32([1]))
    save(folder, "0" * 31 + "2", np.float32([2]))
    (folder / "mapping.csv").write_text(
        f"hash,name\n{'0' * 31}1.npy,{long.format(20)}\n{'0' * 31}2,{long.format(10).removesuffix('.npy')}\n"
    )
    assert gather(tmp_path / "raw")[0] == 0
    dump = read(out / "step5")
    assert dump.rank == 1
    stem = f"Kernel.Default_{'n' * 260}_MatMul"
    assert [call.name for call in dump.calls] == [f"{stem}.0.forward", f"{stem}.round1.0.forward"]
    assert [load_tensor(dump, call.records[0]).item() for call in dump.calls] == [2, 1]


@pytest.mark.parametrize("inside", ["7/Net/0/3", "7/x/3"])
def test_older_layouts_have_the_rank_without_a_word(inside, gather, tmp_path, out):
    save(tmp_path / "raw/dump" / inside, "Exp.Default_Exp-op0.1.2.3.output.0.ND.float32", np.float32([1]))
    gather(tmp_path / "raw")
    assert (read(out / "step3").rank, read(out / "step3").step) == (7, 3)


# The command


def ranks(tmp_path):
    for rank in (0, 1):
        for iteration in (0, 2, 10):
            folder = tmp_path / f"raw/rank_{rank}/Net/0/{iteration}"
            save(folder, "Exp.Default_Exp-op0.0.0.1.output.0.DefaultFormat.Float32", np.float32([rank]))
    return tmp_path / "raw"


def test_every_iteration_of_every_rank_is_a_dump(gather, tmp_path, out):
    lines = gather(ranks(tmp_path))[1]
    assert [line.split(": ")[0] for line in lines] == [
        f"{out}/step{step}/rank{rank}" for rank in (0, 1) for step in (0, 2, 10)
    ]
    assert {str(p.relative_to(out)) for p in out.rglob("rank*")} == {
        f"step{step}/rank{rank}" for rank in (0, 1) for step in (0, 2, 10)
    }


def test_steps_and_ranks_can_be_chosen(gather, tmp_path, out):
    gather(ranks(tmp_path), "--step", "2-9,10", "--rank", "1")
    assert {str(p.relative_to(out)) for p in out.rglob("rank*")} == {"step2/rank1", "step10/rank1"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--step", "7"), "none of the iterations that --step names"),
        (("--rank", "7"), "none of the ranks that --rank names"),
        (("--step", "a"), '--step: "a" is neither a number nor a range'),
        (("--workers", "0"), "--workers must be 1 or more"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_line(words, says, tmp_path, capsys):
    assert main(["gather", str(CPU), "-o", str(tmp_path), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert captured.err.count("\n") == 1


def test_two_dumps_of_one_rank_are_refused(tmp_path, capsys):
    for run in ("a", "b"):
        save(tmp_path / run / "rank_0/Net/0/0", "Exp.E-op0.0.0.1.output.0.D.Float32", np.float32([1]))
    assert main(["gather", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "holds two dumps of rank 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "is no folder"),
        (lambda path: path.mkdir(), "holds no kernel dump"),
        (lambda path: save(path / "step0/rank0/dump_tensor_data", "Exp.E-op0.0.0.1.output.0.D", [1]), "no kernel dump"),
    ],
)
def test_a_folder_without_a_kernel_dump_is_said(make, says, tmp_path, capsys):
    make(tmp_path / "raw")
    assert main(["gather", str(tmp_path / "raw"), "-o", str(tmp_path / "out")]) == 2
    assert says in capsys.readouterr().err


def test_two_gathered_runs_are_compared_and_the_first_wrong_call_is_a_kernel(raw, tmp_path, capsys):
    file = only(raw, "rank_0/Net/0/0/BiasAdd*output*")
    wrong = np.load(file)
    wrong[0, 0] += 1
    np.save(file, wrong)
    only(raw, "rank_0/Net/0/0/ReLU*input*").write_bytes(file.read_bytes())
    main(["gather", str(raw), "-o", str(tmp_path / "target")])
    main(["gather", str(CPU), "-o", str(tmp_path / "golden")])
    assert main(["doctor", str(tmp_path)]) == 0
    capsys.readouterr()
    words = ["-tp", str(tmp_path / "target/step0"), "-gp", str(tmp_path / "golden/step0"), "-o", str(tmp_path / "cmp")]
    assert main(["compare", *words]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"first wrong call: {DENSE}.BiasAdd.0.forward in the root: computes differently: ")
    assert last.endswith("(/home/user/train/net.py:23)")
    words[1] = words[3]
    assert main(["compare", *words]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no difference: 14 pairs judged, 0 unjudged"
