"""`store/kernel_dump/files.py` and its neighbours: kernel dumps of the framework, read as they lie.

`kernel_dump` is a real sample of a CPU. Everything in the layouts of a device is written by hand after the description
of the format; none of it was made by a device.
"""

import csv
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.base.names import parse
from msprobe.store.kernel_dump.files import kernel_dumps, read_kernels
from msprobe.store.reader import load_tensor

CPU = Path(__file__).parents[2] / "samples" / "kernel_dump" / "cpu"
DENSE = "Kernel.Default_fc-Dense"
MATMUL = "MatMul.Default_net-Net_MatMul-op0"


def write(folder, name, array):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / name, array)


def kernel(folder, stamp, value=0.0, *, name=MATMUL, task=0, what="output.0"):
    """One file of one execution, which holds `value`."""
    write(folder, f"{name}.{task}.0.{stamp}.{what}.DefaultFormat.Float32.npy", np.full(2, value, np.float32))


def only_dump(root):
    ((at, folders),) = kernel_dumps(root).items()
    return read_kernels(folders, *at)


def values(dump):
    """Record -> first element."""
    return {r.name: load_tensor(dump, r).ravel()[0].item() for call in dump.calls for r in call.records}


def pairs_of_the_reference(root):
    """op_name.task_id.io.slot and how many there were before by time -> first element."""
    seen = {}
    for path in root.rglob("*.npy"):
        _, op, task, _, stamp, *rest = path.name.split(".")
        key = ".".join((op, task, *rest[: next(i for i, word in enumerate(rest) if not word.isdigit() and i)]))
        seen.setdefault(key, []).append((int(stamp), np.load(path).ravel()[0].item()))
    return {(key, k): value for key, found in seen.items() for k, (_, value) in enumerate(sorted(found))}


def test_a_cpu_dump_is_read_in_the_order_of_execution():
    dump = only_dump(CPU)
    assert [call.name for call in dump.calls] == [
        f"{DENSE}.MatMul.0.forward",
        f"{DENSE}.BiasAdd.0.forward",
        "Kernel.Default.ReLU.0.forward",
        "Parameter.fc_bias.0.forward",
        "Parameter.fc_weight.0.forward",
        "Parameter.x.0.forward",
    ]
    assert (dump.level, dump.task, dump.framework, dump.step, dump.rank) == ("L2", "tensor", "mindspore", 0, 0)
    assert [parse(call.name).direction for call in dump.calls] == ["forward"] * 6


def test_inputs_come_before_outputs_by_slot_with_dtype_and_shape_of_the_header():
    first = only_dump(CPU).calls[0]
    assert [(r.name.removeprefix(first.name), r.part, r.path, r.dtype, r.shape) for r in first.records] == [
        (".input.0", "input", ("0",), "Float32", (2, 4)),
        (".input.1", "input", ("1",), "Float32", (2, 4)),
        (".input.2", "input", ("2",), "Bool", ()),
        (".input.3", "input", ("3",), "Bool", ()),
        (".output.0", "output", ("0",), "Float32", (2, 2)),
    ]
    assert {r.kind for r in first.records} == {"tensor"}


def test_every_tensor_is_the_one_that_the_framework_wrote():
    dump = only_dump(CPU)
    records = [record for call in dump.calls for record in call.records]
    files = {path.name: path for path in CPU.rglob("*.npy")}
    assert {record.file for record in records} == set(files)
    for record in records:
        np.testing.assert_array_equal(load_tensor(dump, record), np.load(files[record.file]))
    by_name = {record.name: record for record in records}
    x, weight = (load_tensor(dump, by_name[f"{DENSE}.MatMul.0.forward.input.{n}"]) for n in (0, 1))
    np.testing.assert_allclose(load_tensor(dump, by_name[f"{DENSE}.MatMul.0.forward.output.0"]), x @ weight.T, 1e-6)


@pytest.mark.parametrize(
    ("folders", "path", "found"),
    [
        (["rank_0/Net/0/0", "rank_0/Net/1/0", "rank_1/Net/0/12"], "", {(0, 0): 2, (1, 12): 1}),
        (["rank_0/Net/0/0", "rank_0/Net/0/1"], "rank_0/Net/0/1", {(0, 1): 1}),
        (["7/Net/0/3"], "", {(7, 3): 1}),
        (["7/x/3", "7/x/4"], "", {(7, 3): 1, (7, 4): 1}),
        (["rank_3/20250101000000/step_2"], "", {(3, 2): 1}),
        (["rank_0/Net/0/0", "rank_0/Net/0/last", "rank_x/Net/0/0", "other/Net/0/0"], "", {(0, 0): 1}),
        (["a/rank_0/Net/0/0", "b/rank_0/Net/0/0"], "", {(0, 0): 2}),
        (["rank_0/Net/0/10", "rank_0/Net/0/9"], "", {(0, 9): 1, (0, 10): 1}),
        (["rank_0/execution_order/0/0"], "", {}),
    ],
)
def test_rank_and_iteration_are_told_by_the_path(folders, path, found, tmp_path):
    for folder in folders:
        kernel(tmp_path / "d" / folder, 1)
    dumps = kernel_dumps(tmp_path / "d" / path)
    assert {at: len(paths) for at, paths in dumps.items()} == found
    assert list(dumps) == sorted(dumps)


def test_the_kth_execution_by_time_is_the_kth_round(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    for stamp in (100, 99, 1000):
        kernel(folder, stamp, stamp)
    assert values(only_dump(tmp_path)) == {
        "Kernel.Default_net-Net.MatMul.0.forward.output.0": 99,
        "Kernel.Default_net-Net.MatMul.round1.0.forward.output.0": 100,
        "Kernel.Default_net-Net.MatMul.round2.0.forward.output.0": 1000,
    }


def test_pairs_are_those_of_the_key_of_name_task_io_and_slot(tmp_path):
    """Two runs with other time stamps, folders and types: what has one name here is what the reference pairs."""
    rng = np.random.default_rng(5)
    for side in ("target", "golden"):
        stamp = int(rng.integers(1_000_000))
        for n in range(60):
            op, task = rng.integers(6), int(rng.integers(2))
            folder = tmp_path / side / "rank_0" / "Net" / str(rng.integers(2)) / "0"
            type_ = "MatMul" if side == "target" else "MatMulV2"
            for what in ("input.0", "input.1", "output.0"):
                kernel(folder, stamp, n, name=f"{type_}.Default_a_MatMul-op{op}", task=task if op < 3 else 0, what=what)
                stamp += int(rng.integers(1, 9))
    ours = [values(only_dump(tmp_path / side)) for side in ("target", "golden")]
    theirs = [pairs_of_the_reference(tmp_path / side) for side in ("target", "golden")]
    assert all(len(a) == len(b) == 180 for a, b in zip(ours, theirs, strict=True))

    def counted(sides):
        return sorted((sides[0][name], sides[1][name]) for name in sides[0].keys() & sides[1].keys())

    assert counted(ours) == counted(theirs)
    assert len(counted(ours)) > 100


def test_a_name_with_several_tasks_is_several_kernels(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    kernel(folder, 5, 5, task=12)
    kernel(folder, 6, 6, task=3)
    kernel(folder, 7, 7, task=12)
    kernel(folder, 8, 8, task=7, name="Add.Default_Add-op1")
    assert values(only_dump(tmp_path)) == {
        "Kernel.Default_net-Net.MatMul.task12.0.forward.output.0": 5,
        "Kernel.Default_net-Net.MatMul.task3.0.forward.output.0": 6,
        "Kernel.Default_net-Net.MatMul.task12.round1.0.forward.output.0": 7,
        "Kernel.Default.Add.1.forward.output.0": 8,
    }


def test_graphs_and_copies_of_one_iteration_are_pooled_below_their_common_folder(tmp_path):
    kernel(tmp_path / "rank_0" / "Net" / "0" / "4", 2, 2)
    kernel(tmp_path / "rank_0" / "Net" / "1" / "4", 1, 1)
    dump = only_dump(tmp_path)
    assert dump.folder == str(tmp_path / "rank_0" / "Net")
    assert list(values(dump).values()) == [1, 2]
    assert dump.calls[0].records[0].file == f"1/4/{MATMUL}.0.0.1.output.0.DefaultFormat.Float32.npy"


def test_long_names_are_restored_from_the_mapping(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    long = f"MatMul.Default_{'n' * 300}_MatMul-op4.0.0.17.output.0.DefaultFormat.npy"
    write(folder, "1234567890.npy", np.float32([3]))
    write(folder, "99.npy", np.float32([4]))
    (folder / "mapping.csv").write_text(f"short,long\n1234567890.npy,{long}\n")
    dump = only_dump(tmp_path)
    assert values(dump) == {f"Kernel.Default_{'n' * 300}.MatMul.4.forward.output.0": 3}


def test_several_indices_are_the_path(tmp_path):
    kernel(tmp_path / "rank_0" / "Net" / "0" / "0", 1, what="input.1.0")
    (record,) = only_dump(tmp_path).calls[0].records
    assert (record.path, record.name.rpartition("forward.")[2]) == (("1", "0"), "input.1.0")


def test_files_of_others_are_left_out_and_said(tmp_path, capsys):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    kernel(folder, 1)
    write(folder, "loss_float32_0.npy", np.float32([1]))
    assert len(only_dump(tmp_path).calls) == 1
    assert "1 files do not belong to a kernel dump and are skipped (loss_float32_0.npy)" in capsys.readouterr().err


def test_a_folder_without_kernels_says_what_is_missing(tmp_path):
    write(tmp_path, "loss.npy", np.float32([1]))
    with pytest.raises(DumpError, match=r"contains no values of kernels; give the dump_path of a kernel dump"):
        read_kernels([tmp_path], 0, 0)


BROKEN = {
    "empty": b"",
    "cut short": None,
    "lying": b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,), }".ljust(117)
    + b"\n",
    "bfloat16 of a negative size": b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<E2', 'fortran_order': False, 'shape': (-2, -2), }".ljust(117)
    + b"\n"
    + b"12345678",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_stays_a_record_that_cannot_be_opened(content, tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    kernel(folder, 1)
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1] if content is None else content)
    dump = only_dump(tmp_path)
    (record,) = dump.calls[0].records
    assert (record.file, record.dtype, record.shape) == (path.name, "Float32", None), "the dtype is in the file's name"
    with pytest.raises(DumpError):
        load_tensor(dump, record)


def test_a_pickled_array_is_never_opened(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)
    np.save(folder / f"{MATMUL}.0.0.1.output.0.DefaultFormat.npy", np.array([{}], object), allow_pickle=True)
    dump = only_dump(tmp_path)
    (record,) = dump.calls[0].records
    assert (record.dtype, record.shape) == ("", None)
    with pytest.raises(DumpError, match="not numbers; such files are not opened"):
        load_tensor(dump, record)


@pytest.mark.parametrize("make", ["link", "linked folder", "pipe"])
def test_links_and_pipes_are_not_opened(make, tmp_path):
    folder = tmp_path / "d" / "rank_0" / "Net" / "0" / "0"
    kernel(folder, 1)
    dump = only_dump(tmp_path / "d")
    (record,) = dump.calls[0].records
    path = folder / record.file
    shutil.copy(path, tmp_path / "secret.npy")
    path.unlink()
    if make == "pipe":
        os.mkfifo(path)
    elif make == "link":
        path.symlink_to(tmp_path / "secret.npy")
    else:
        dump = only_dump_of_two_graphs(tmp_path, folder, record.file)
        (record,) = (r for call in dump.calls for r in call.records if r.file.startswith("0/"))
    assert make == "linked folder" or only_dump(tmp_path / "d").calls[0].records[0].shape is None
    with pytest.raises(DumpError, match=r"outside|not a regular file"):
        load_tensor(dump, record)


def only_dump_of_two_graphs(tmp_path, folder, file):
    """Read while the folder is one; a link to elsewhere stands in its place afterwards."""
    kernel(folder, 1)
    kernel(folder.parents[1] / "1" / "0", 2)
    dump = only_dump(tmp_path / "d")
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    return dump


@pytest.mark.parametrize(
    "file", ["../secret.npy", "/etc/hostname", "a/../../secret.npy", "./x.npy", "a//b.npy", "x\0.npy", ".."]
)
def test_a_path_that_leaves_the_folder_is_refused(file, tmp_path):
    kernel(tmp_path / "rank_0" / "Net" / "0" / "0", 1)
    np.save(tmp_path / "rank_0" / "Net" / "0" / "secret.npy", np.float32([1]))
    dump = only_dump(tmp_path)
    with pytest.raises(DumpError, match="outside"):
        load_tensor(dump, replace(dump.calls[0].records[0], file=file))


def test_what_numpy_misreads_is_read_as_the_framework_meant_it(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)

    def header(descr):
        return (
            b"\x93NUMPY\x01\x00v\x00"
            + f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 1), }}".encode().ljust(117)
            + b"\n"
        )

    numbers = np.array([[1.5], [-3.0]], np.float32)
    halves = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    (folder / "Cast.a_Cast-op0.0.0.1.output.0.DefaultFormat.npy").write_bytes(header("<E2") + halves.tobytes())
    (folder / "Exp.a_Exp-op0.0.0.2.output.0.DefaultFormat.npy").write_bytes(header("<f2") + numbers.tobytes())
    dump = only_dump(tmp_path)
    assert [(r.dtype, r.shape) for call in dump.calls for r in call.records] == [
        ("BFloat16", (2, 1)),
        ("Float32", (2, 1)),
    ]
    for call in dump.calls:
        np.testing.assert_array_equal(load_tensor(dump, call.records[0]), numbers)


def test_tensors_have_the_statistics_of_the_table_beside_them(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    kernel(folder, 7, 2.5)
    head = ["Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot", "Data Type", "Shape", "Max Value"]
    with open(folder / "statistic.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(head)
        table.writerow(["MatMul", "Default/net-Net/MatMul-op0", 0, 0, 7, "output", 0, "float32", "(2,)", "2.5"])
        table.writerow(["MatMul", "Default/net-Net/MatMul-op0", 0, 0, 7, "output", 1, "float32", "(3,)", "1"])
    dump = only_dump(tmp_path)
    first, second = dump.calls[0].records
    assert dump.task == "tensor"
    assert (first.statistics.max, first.statistics.mean, bool(first.file)) == (2.5, None, True)
    assert (second.path, second.shape, second.statistics.max, second.file) == (("1",), (3,), 1, "")


def test_ten_thousand_rounds_of_one_kernel_take_no_time(tmp_path):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)
    with open(folder / "statistic.csv", "w") as file:
        file.write("Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot\n")
        file.writelines(f"Add,Default/Add-op0,0,0,{n},output,0\n" for n in range(10_000))
    begun = time.process_time()
    dump = only_dump(tmp_path)
    assert dump.calls[-1].name == "Kernel.Default.Add.round9999.0.forward"
    assert time.process_time() - begun < 3, "it was a minute where each name was sought from the first round on"
