"""`msprobe gather` on the files of a kernel dump: what the dump that it makes holds.

The sample was made by MindSpore on the CPU.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from kernel_files import CPU, DENSE, KERNELS, data, only, save

from msprobe.cli import main
from msprobe.store.npy import load_npy
from msprobe.store.reader import load_tensor, read


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
    assert "holds 5 bytes of bfloat16, but its header requires 6" in lines[0]
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
