"""`"file_format": "pt"`: tensors as PyTorch's own files, in a dump that other versions of msprobe read.

What those versions need was found by running 8.1.1 and 26.2.0 (`benchmarks/compat/pytorch_dumps.py`): names that end
in `.pt`, one tensor in each file, `step{n}` alone in the dump_path, and `rank{n}` alone in a step.
"""

import json
import os
import re

import numpy as np
import pytest
import torch
from small_model import Mlp, step
from torch import nn

from msprobe.base.errors import SettingsError
from msprobe.cli import main
from msprobe.store.reader import load_tensor, read

pytestmark = [pytest.mark.torch, pytest.mark.part(2)]

X = torch.linspace(-1, 1, 12).reshape(3, 4)
DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.complex32, torch.complex64, torch.complex128, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]


def collected(collecting, file_format, dtype=torch.float32, task="tensor", level="mix", scale=1.0, **section):
    torch.manual_seed(3)
    net = Mlp().to(dtype)
    with torch.no_grad():
        net.fc2.weight.mul_(scale)
    section = {"file_format": file_format, **section}
    debugger = collecting({"task": task, "level": level, task: section}, level=level)
    out = step(debugger, net, X.to(dtype))
    bits = [out.detach().double().numpy().tobytes(), *(p.grad.double().numpy().tobytes() for p in net.parameters())]
    return debugger._settings.dump_path, bits


def tensors_of(entry):
    """The records of tensors that name a file, of an entry of a dump.json."""
    if isinstance(entry, list):
        return [one for inner in entry for one in tensors_of(inner)]
    if not isinstance(entry, dict):
        return []
    return [entry] if "data_name" in entry else [one for inner in entry.values() for one in tensors_of(inner)]


def loaded(path):
    return torch.load(path, weights_only=True)


def is_plain(tensor):
    """Whether there is nothing but the elements: no subclass, no graph, no larger storage behind a view."""
    return (
        type(tensor) is torch.Tensor
        and not tensor.requires_grad
        and tensor.is_contiguous()
        and tensor.storage_offset() == 0
        and tensor.untyped_storage().nbytes() == tensor.nbytes
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_each_record_names_a_plain_tensor_of_its_dtype_and_shape(dtype, collecting):
    path, _ = collected(collecting, "pt", dtype)
    folder = path / "step0" / "rank"
    found = json.loads((folder / "dump.json").read_text())
    records = tensors_of(found["data"])
    assert len(records) > 20
    assert {record["data_name"] for record in records} == set(os.listdir(folder / "dump_tensor_data"))
    for record in records:
        assert record["data_name"].endswith(".pt")
        tensor = loaded(folder / "dump_tensor_data" / record["data_name"])
        assert is_plain(tensor)
        assert (str(tensor.dtype), list(tensor.shape)) == (record["dtype"], record["shape"])
        assert tensor.double().max().item() == record["Max"]


def test_the_names_and_the_numbers_are_those_of_npy_files_and_no_bit_of_the_training_differs(collecting):
    (pt, bits), (npy, same_bits) = (collected(collecting, form, torch.bfloat16) for form in ("pt", "npy"))
    assert bits == same_bits
    one, other = read(pt / "step0"), read(npy / "step0")
    assert [call.name for call in one.calls] == [call.name for call in other.calls]
    for ours, theirs in zip(one.calls, other.calls, strict=True):
        for a, b in zip(ours.records, theirs.records, strict=True):
            assert (a.name, a.dtype, a.statistics) == (b.name, b.dtype, b.statistics)
            assert a.file.removesuffix(".pt") == b.file.removesuffix(".npy")
            if a.file:
                np.testing.assert_array_equal(load_tensor(one, a), load_tensor(other, b))


def some(dtype, *shape):
    raw = torch.arange(1, 1 + torch.Size(shape).numel() * dtype.itemsize, dtype=torch.uint8) % 2
    return raw.view(dtype).reshape(shape)


@pytest.mark.filterwarnings("ignore:ComplexHalf support")  # torch warns where the test loads such a tensor
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_survives(dtype, collecting):
    debugger, tensor = collecting({"task": "tensor", "tensor": {"file_format": "pt"}}, level="debug"), some(dtype, 3, 2)
    debugger.save(tensor, "x")
    debugger.step()
    (file,) = (debugger._settings.dump_path / "step0" / "rank" / "dump_tensor_data").iterdir()
    found = loaded(file)
    assert is_plain(found)
    assert found.dtype == dtype
    assert found.view(torch.uint8).tolist() == tensor.view(torch.uint8).tolist()


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("value", "elements"),
    [
        (torch.tensor(2.5, dtype=torch.bfloat16), [2.5]),
        (torch.zeros(0, 3), []),
        (torch.arange(6.0).reshape(2, 3).t()[1:], [1, 4, 2, 5]),
        (torch.arange(100.0)[97:], [97, 98, 99]),
        (torch.tensor([7.0]).expand(3), [7, 7, 7]),
        (nn.Parameter(torch.ones(2)), [1, 1]),
        (torch.ones(2).as_subclass(Marked), [1, 1]),
        (torch.tensor([1 + 2j]).conj(), [1 - 2j]),
        (torch.tensor([float("nan"), -0.0]), [float("nan"), -0.0]),
    ],
    ids=["0-d", "empty", "transposed", "view", "expanded", "parameter", "subclass", "conjugate", "nan"],
)
def test_whatever_the_tensor_is_made_of_a_plain_one_is_written(value, elements, collecting):
    debugger = collecting({"task": "tensor", "tensor": {"file_format": "pt"}}, level="debug")
    debugger.save(value, "x", save_backward=False)
    debugger.step()
    (file,) = (debugger._settings.dump_path / "step0" / "rank" / "dump_tensor_data").iterdir()
    found = loaded(file)
    assert is_plain(found)
    assert list(found.shape) == list(value.shape)
    np.testing.assert_array_equal(found.flatten().to(torch.complex64), np.array(elements, np.complex64))


def test_the_bits_of_a_nan_of_bfloat16_survive(collecting):
    bits = torch.tensor([0x7F81, 0xFFC3, 0x7F80, 0x8000], dtype=torch.uint16)
    debugger = collecting({"task": "tensor", "tensor": {"file_format": "pt"}}, level="debug")
    debugger.save(bits.view(torch.bfloat16), "x")
    debugger.step()
    (file,) = (debugger._settings.dump_path / "step0" / "rank" / "dump_tensor_data").iterdir()
    assert loaded(file).view(torch.uint16).tolist() == bits.tolist()


def test_a_name_that_had_to_be_cut_still_ends_in_pt(collecting):
    debugger = collecting({"task": "tensor", "tensor": {"file_format": "pt"}}, level="debug")
    debugger.save({"k" * 300: torch.ones(1), "a/b": torch.ones(1)}, "x")
    debugger.step()
    names = os.listdir(debugger._settings.dump_path / "step0" / "rank" / "dump_tensor_data")
    assert len(names) == 2
    assert all(name.endswith(".pt") for name in names)


def test_the_dump_path_holds_steps_alone_and_a_step_ranks_alone(collecting):
    """8.1.1's `graph` refuses a dump_path with anything else in it: "Expected 'step'"."""
    path, _ = collected(collecting, "pt", task="statistics", summary_mode="md5")
    assert os.listdir(path) == ["step0"]
    assert os.listdir(path / "step0") == ["rank"]
    assert (path.parent / f"{path.name}.run.jsonl").is_file()
    npy, _ = collected(collecting, "npy", task="statistics")
    assert sorted(os.listdir(npy)) == ["run.jsonl", "step0"]


def test_a_second_run_in_the_same_folder_touches_nothing_of_the_first(collecting, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom msprobe.pytorch import PrecisionDebugger\n"
        "d = PrecisionDebugger('c.json', dump_path='dump', level='debug')\n"
        "d.save(torch.ones(1), 'x')\nd.step()\n"
    )
    import subprocess
    import sys

    for name in ("pt", "pt", "npy"):
        (tmp_path / "c.json").write_text(json.dumps({"task": "tensor", "tensor": {"file_format": name}}))
        subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)
    assert sorted(os.listdir(tmp_path / "dump")) == ["run2", "run2.run.jsonl", "run3", "step0"]
    assert os.listdir(tmp_path / "dump/run2") == ["step0"]
    assert sorted(os.listdir(tmp_path / "dump/run3")) == ["run.jsonl", "step0"]
    ids = [json.loads((tmp_path / "dump" / n / "step0/rank/debug.json").read_text())["run"]["id"] for n in ("", "run2")]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("section", [{"tensor_list": ["linear"]}, {"trigger": {"on": ["nan"], "calls": 2}}])
def test_the_tensors_that_statistics_and_triggers_save_are_pt_too(section, collecting):
    path, _ = collected(collecting, "pt", torch.bfloat16, "statistics", scale=float("nan"), **section)
    folder = path / "step0" / "rank"
    records = tensors_of(json.loads((folder / "dump.json").read_text())["data"])
    assert records
    for record in records:
        tensor = loaded(folder / "dump_tensor_data" / record["data_name"])
        assert is_plain(tensor)
        assert str(tensor.dtype) == record["dtype"] == "torch.bfloat16"


def test_what_overflows_is_written_as_pt(collecting):
    path, _ = collected(collecting, "pt", torch.bfloat16, "overflow_check", scale=float("inf"))
    folder = path / "step0" / "rank"
    records = tensors_of(json.loads((folder / "dump.json").read_text())["data"])
    assert {str(loaded(folder / "dump_tensor_data" / record["data_name"]).dtype) for record in records} == {
        "torch.bfloat16"
    }


def test_calls_before_an_exception_are_written_as_pt(collecting):
    debugger = collecting({"task": "exception_dump", "exception_dump": {"file_format": "pt"}})
    net = Mlp()
    debugger.start(net)
    with pytest.raises(RuntimeError):
        net(torch.ones(3, 5))
    debugger.stop()
    debugger.step()
    folder = debugger._settings.dump_path / "step0" / "rank"
    records = tensors_of(json.loads((folder / "dump.json").read_text())["data"])
    assert records
    assert all(is_plain(loaded(folder / "dump_tensor_data" / record["data_name"])) for record in records)


def last_line(capsys, paths, *arguments):
    """The exit code and the last line that a command printed, without the paths of dumps."""
    code = main([*map(str, arguments)])
    line = capsys.readouterr().out.strip().splitlines()[-1]
    for path in paths:
        line = line.replace(str(path), "PATH")
    line = line.replace(".npy", "").replace(".pt", "")
    return code, re.sub(r"[0-9.]+ (MiB|s)\b|_[0-9]{14}", "", line)


@pytest.mark.parametrize(
    "verb",
    [
        ["compare", "-tp", "OTHER", "-gp", "CLEAN", "-o", "OUT"],
        ["compare", "-tp", "CLEAN", "-gp", "CLEAN", "-o", "OUT"],
        ["doctor", "OTHER"],
        ["check", "OTHER"],
        ["acc_check", "-api_info", "OTHER/step0/rank/dump.json", "-o", "OUT"],
        ["overflow_check", "OTHER"],
        ["digest", "OTHER"],
        ["graph_visualize", "-tp", "OTHER", "-gp", "CLEAN", "-o", "OUT"],
        ["diagnose", "OTHER", "CLEAN", "-o", "OUT"],
    ],
    ids=lambda verb: " ".join(verb[:3:2]),
)
def test_every_command_says_the_same_of_pt_files_as_of_npy_files(verb, collecting, capsys, tmp_path):
    answers = []
    for form in ("npy", "pt"):
        clean, _ = collected(collecting, form, torch.bfloat16)
        other, _ = collected(collecting, form, torch.bfloat16, scale=1.5)
        out = tmp_path / f"out_{form}"
        places = {"OTHER": str(other), "CLEAN": str(clean), "OUT": str(out)}
        words = [re.sub("OTHER|CLEAN|OUT", lambda found, places=places: places[found[0]], word) for word in verb]
        answers.append(last_line(capsys, [other, clean, out, tmp_path], *words))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("form", ["packed", "columnar"])
def test_a_converted_dump_still_has_its_pt_files(form, collecting, tmp_path):
    if form == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it; install msprobe-ms[columnar]")
    path, _ = collected(collecting, "pt")
    form_code = main(["convert", str(path), "-o", str(tmp_path / "other"), "--to", form])
    assert form_code == 0
    assert main(["compare", "-tp", str(tmp_path / "other"), "-gp", str(path), "-o", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"format": "packed"}, '"pt" writes one file per tensor'),
        ({"format": "columnar"}, '"pt" writes one file per tensor'),
        ({"tensor": {"file_format": "pth"}}, 'did you mean "pt"'),
    ],
)
def test_what_cannot_be_is_refused(settings, words, collecting):
    with pytest.raises(SettingsError, match=re.escape(words)):
        collecting({"task": "tensor", "tensor": {"file_format": "pt"}, **settings})


def test_a_disk_that_is_full_costs_the_tensor_and_no_more(collecting, tmp_path):
    import resource

    debugger = collecting({"task": "tensor", "tensor": {"file_format": "pt"}}, level="debug")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        debugger.save(torch.ones(10), "small")
        debugger.save(torch.ones(100_000), "large")
        debugger.step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    folder = debugger._settings.dump_path / "step0" / "rank"
    assert os.listdir(folder / "dump_tensor_data") == ["small.0.debug.pt"]
    found = json.loads((folder / "debug.json").read_text())
    assert [gap["name"] for gap in found["missing"]] == ["large.0.debug"]
    assert "data_name" not in json.dumps(found["data"]["large.0.debug"])


def test_disk_budget_counts_what_the_files_take(collecting):
    debugger = collecting({"task": "tensor", "disk_budget": 40_000, "tensor": {"file_format": "pt"}}, level="debug")
    for n in range(40):
        debugger.save(torch.ones(100), f"x{n}")
    debugger.step()
    files = list((debugger._settings.dump_path / "step0" / "rank" / "dump_tensor_data").iterdir())
    assert 0 < sum(file.stat().st_size for file in files) <= 40_000
    assert len(files) < 40
