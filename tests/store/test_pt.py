"""`store/torch_files.py`: tensors of torch.save, opened by torch alone, and never trusted."""

import io
import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_file, load_tensor, read
from msprobe.store.torch_files import examine_pt, load_pt

pytestmark = pytest.mark.everywhere

NAME = "Functional.relu.0.forward"
FILE = f"{NAME}.output.0.pt"


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="files of torch are opened by torch; install msprobe-ms[torch]")


@pytest.fixture
def dump(write):
    """A dump of torch that names one `.pt`; gives its folder."""
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "data_name": FILE}
    folder = write({NAME: {"output": [leaf]}}, framework="pytorch", task="tensor")
    (folder / "dump_tensor_data").mkdir()
    return folder


def load(folder):
    dump = read(folder)
    return load_tensor(dump, dump.calls[0].records[0])


class Bomb:
    """Makes a file when a pickle of it is opened."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def archive(data, **more):
    """The bytes of an archive as torch.save makes it, with another pickle in it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        zipped.writestr("archive/data.pkl", data)
        zipped.writestr("archive/byteorder", "little")
        zipped.writestr("archive/version", "3\n")
        for name, content in more.items():
            zipped.writestr(f"archive/{name}", content)
    return made.getvalue()


def test_a_tensor_of_a_dump_is_read(dump, torch):
    torch.save(torch.arange(6, dtype=torch.float32).reshape(2, 3), dump / "dump_tensor_data" / FILE)
    assert load(dump).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read(dump).calls[0].records[0].name == f"{NAME}.output.0"


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (4,), (2, 2)])
def test_dtype_and_shape_stay(tmp_path, torch, dtype, shape):
    expected = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    torch.save(torch.tensor(expected.tolist(), dtype=getattr(torch, dtype)).reshape(shape), tmp_path / "x.pt")
    array = load_file(tmp_path / "x.pt")
    assert (array.dtype, array.shape) == (expected.dtype, shape)
    assert array.tobytes() == expected.tobytes()


def test_bfloat16_is_widened_exactly(tmp_path, torch):
    bits = np.arange(1 << 16, dtype=np.uint16)
    torch.save(torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16), tmp_path / "x.pt")
    array = load_pt(tmp_path / "x.pt")
    assert array.dtype == np.float32
    # A bfloat16 is the upper half of a float32. What the lower half of a NaN's payload becomes is left open.
    exact = (bits.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(np.isnan(array), np.isnan(exact))
    assert array[~np.isnan(exact)].tobytes() == exact[~np.isnan(exact)].tobytes()


def test_floats_of_eight_bits_are_widened_exactly(tmp_path, torch):
    tensor = torch.arange(256, dtype=torch.uint8).view(torch.float8_e5m2)
    torch.save(tensor, tmp_path / "x.pt")
    array = load_pt(tmp_path / "x.pt")
    # e5m2 is the upper half of a float16.
    exact = (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)
    assert array.dtype == np.float32
    assert np.array_equal(array, exact, equal_nan=True)


def test_tensors_of_any_making_are_read(tmp_path, torch):
    whole = torch.arange(12.0).reshape(3, 4)
    for tensor, expected in [
        (torch.nn.Parameter(whole.clone()), whole),
        (whole.clone().requires_grad_(), whole),
        (whole.t(), whole.t()),
        (whole[1:, ::2], whole[1:, ::2]),
        (torch.ones(1).expand(5, 5), torch.ones(5, 5)),
    ]:
        torch.save(tensor, tmp_path / "x.pt")
        assert load_pt(tmp_path / "x.pt").tolist() == expected.tolist()
    torch.save(torch.tensor([1 + 2j]).conj(), tmp_path / "x.pt")
    assert load_pt(tmp_path / "x.pt").tolist() == [1 - 2j]


@pytest.mark.parametrize("made", [{"weight": 1}, [1.0], 5, "text", None])
def test_anything_but_one_tensor_is_refused(tmp_path, torch, made):
    torch.save(made, tmp_path / "x.pt")
    with pytest.raises(DumpError, match=rf"x\.pt: contains a {type(made).__name__}, not one tensor"):
        load_pt(tmp_path / "x.pt")


def test_a_tensor_without_plain_elements_is_refused(tmp_path, torch):
    torch.save(torch.eye(3).to_sparse(), tmp_path / "x.pt")
    with pytest.raises(DumpError, match=r"x.pt: contains a tensor without dense elements"):
        load_pt(tmp_path / "x.pt")


def test_code_in_a_file_is_refused_and_does_not_run(dump, torch, tmp_path):
    path = dump / "dump_tensor_data" / FILE
    torch.save(Bomb(tmp_path / "ran"), path)
    with pytest.raises(DumpError, match="torch cannot open it") as refused:
        load(dump)
    assert "unsupported GLOBAL" in str(refused.value).replace("Unsupported global", "unsupported GLOBAL")
    for advice in ("weights_only", "safe_globals", "trust"):
        assert advice not in str(refused.value)
    assert not (tmp_path / "ran").exists()
    # The same file does run code where it is trusted: the test would see it.
    torch.load(path, weights_only=False).close()
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_bare_pickle_is_refused_and_does_not_run(dump, tmp_path, protocol):
    (dump / "dump_tensor_data" / FILE).write_bytes(pickle.dumps(Bomb(tmp_path / "ran"), protocol))
    with pytest.raises(DumpError, match="or a plain pickle, which is not opened"):
        load(dump)
    assert not (tmp_path / "ran").exists()


def test_a_file_that_was_cut_is_refused_at_every_byte(tmp_path, torch):
    torch.save(torch.arange(3.0), tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    examine_pt(tmp_path / "whole.pt")
    for keep in range(0, len(whole), 7):
        (tmp_path / "x.pt").write_bytes(whole[:keep])
        with pytest.raises(DumpError, match=r"x\.pt: not a readable file of torch\.save"):
            load_pt(tmp_path / "x.pt")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"\x93NUMPY",
        b"\x80\x02.",
        archive(b""),
        archive(b"junk"),
        archive(b"\x80\x02N."),
        bytes(999),
    ],
)
def test_garbage_is_refused(tmp_path, torch, content):
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(DumpError, match=r"x\.pt: "):
        load_pt(tmp_path / "x.pt")


def test_a_packed_archive_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("archive/data/0", bytes(1 << 20))
    with pytest.raises(DumpError, match=r"refers to more than the \d+ bytes of the file"):
        load_pt(tmp_path / "x.pt")


def test_a_tensor_that_repeats_one_element_without_end_is_refused(tmp_path, torch):
    torch.save(torch.ones(1).expand(1 << 20, 1 << 20), tmp_path / "x.pt")
    with pytest.raises(DumpError, match=r"describes a tensor of 4398046511104 bytes in a file of \d{3,4} bytes;"):
        load_pt(tmp_path / "x.pt")


@pytest.mark.parametrize("name", ["../x.pt", "/etc/x.pt", "a/../x.pt", "./x.pt", "x\0.pt"])
def test_a_path_out_of_the_folder_is_not_opened(write, name):
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "data_name": name}
    with pytest.raises(DumpError, match="is outside dump_tensor_data; it is not opened"):
        load(write({NAME: {"output": [leaf]}}))


def test_a_link_out_of_the_folder_is_not_followed(dump, tmp_path):
    (tmp_path / "secret.pt").write_bytes(b"")
    (dump / "dump_tensor_data" / FILE).symlink_to(tmp_path / "secret.pt")
    with pytest.raises(DumpError, match="is outside dump_tensor_data; it is not opened"):
        load(dump)


def test_a_missing_file_and_a_folder_are_said(dump):
    with pytest.raises(DumpError, match="the tensor is missing; copy dump_tensor_data next to its dump"):
        load(dump)
    (dump / "dump_tensor_data" / FILE).mkdir()
    with pytest.raises(DumpError, match=r"cannot be opened .*collect this step again"):
        load(dump)


ALONE = """
import json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, Refuse())
from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor, read
dump = read(sys.argv[1])
try:
    load_tensor(dump, dump.calls[0].records[0])
except DumpError as err:
    print(json.dumps([len(dump.calls), dump.framework, str(err)]))
"""


def test_without_torch_the_dump_is_read_and_its_tensors_say_what_to_install(dump):
    (dump / "dump_tensor_data" / FILE).write_bytes(archive(b"\x80\x02N."))
    done = subprocess.run([sys.executable, "-c", ALONE, str(dump)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls, framework, message = json.loads(done.stdout)
    assert (calls, framework) == (1, "pytorch")
    assert message.startswith(f"{dump}/dump_tensor_data/{FILE}: ")
    assert "pip install 'msprobe-ms[torch]'" in message


OLD = """
import sys, types
sys.modules["torch"] = types.SimpleNamespace(__version__=sys.argv[2])
from pathlib import Path
from msprobe.base.errors import DumpError
from msprobe.store.torch_files import load_pt
try:
    load_pt(Path(sys.argv[1]))
except DumpError as err:
    print(err)
"""


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1+cpu", "2.5.0a0+git1234"])
def test_a_torch_that_a_file_can_trick_is_not_used(tmp_path, version):
    (tmp_path / "x.pt").write_bytes(archive(b"\x80\x02N."))
    command = [sys.executable, "-c", OLD, str(tmp_path / "x.pt"), version]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"torch {version} cannot open untrusted files safely; install torch 2.6 or newer" in done.stdout
