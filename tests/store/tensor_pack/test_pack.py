"""`format: "packed"`: the tensors of a dump in one file, as they are, and npy files of them on request."""

import json
import os
import re
import resource

import numpy as np
import pytest

from msprobe import convert, doctor
from msprobe.base.errors import UsageError
from msprobe.store.npy import load_npy
from msprobe.store.reader import load_tensor, read
from msprobe.store.tensor_pack import index
from msprobe.store.writer import Writer

HEADER = {"task": "tensor", "level": "mix", "framework": "mindspore", "run": {"step": 0, "rank": 0}}


class bfloat16(np.void):  # the name that frameworks register
    pass


NARROW = np.uint16([0x3FC0, 0xC010]).view(np.dtype((bfloat16, "V2")))  # 1.5, -2.25
ARRAYS = {
    "small": np.float32([[1.5, -2.25], [3.0, 0.5]]),
    "again": np.float32([1.5, -2.25, 3.0, 0.5]),
    "narrow": NARROW,
    "half": np.float16([1, 2, 3]),
    "flags": np.array([True, False]),
    "none": np.empty((0, 3), np.int64),
    "one": np.array(7, np.int32),
    "complex": np.complex64([1 + 2j]),
    "turned": np.arange(6.0).reshape(2, 3).T,
    "large": np.arange(400_000, dtype=np.float32),
    "name \u4e2d\t": np.uint8([1]),
}
AS_READ = {**ARRAYS, "narrow": np.float32([1.5, -2.25])}


def compact(node):
    return json.dumps(node, separators=(",", ":"))


def entry(names):
    leaves = [
        {"type": "mindspore.Tensor", "dtype": "Float32", "shape": list(ARRAYS[name].shape), "data_name": f"{name}.npy"}
        for name in names
    ]
    return compact({"output": leaves})


def write(folder, form="packed", names=tuple(ARRAYS), **options):
    """One call for each two tensors; their records name them as the writer does."""
    writer = Writer(folder, HEADER, form=form, **options)
    for number, at in enumerate(range(0, len(names), 2)):
        saved = [writer.tensor(f"{name}.npy", ARRAYS[name]) for name in names[at : at + 2]]
        leaves = json.loads(entry(names[at : at + 2]))
        for leaf, name in zip(leaves["output"], saved, strict=True):
            leaf["data_name"] = name
        writer.call(f"Functional.relu.{number}.forward", None, writer.stack(["a frame"]), compact(leaves))
    return writer


@pytest.fixture
def packed(tmp_path):
    folder = tmp_path / "packed" / "step0" / "rank0"
    write(folder).close()
    return folder


@pytest.fixture
def plain(tmp_path):
    folder = tmp_path / "json" / "step0" / "rank0"
    write(folder, "json").close()
    return folder


def content(root):
    """By relative path; what a dump says of the place where it was written is left out."""
    return {
        str(path.relative_to(root)): re.sub(rb'"dump_data_dir": ".*"', b"", path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


def by_hand(folder):
    """The tensors of a pack, read as the format's page says."""
    stored = (folder / "dump_tensor_data" / "tensors.pack").read_bytes()
    found = {}
    for line in (folder / "dump_tensor_data" / "tensors.index").read_text("ascii").splitlines():
        name, dtype, shape, _, chunks = line.split("\t")
        raw = b"".join(stored[at : at + length] for at, length in json.loads(chunks))
        found[json.loads(name)] = dtype, json.loads(shape), raw
    return found


def test_the_files_are_those_of_json_but_for_the_tensors(packed, plain):
    assert sorted(os.listdir(packed / "dump_tensor_data")) == ["tensors.index", "tensors.pack"]
    both = [{name: data for name, data in content(root).items() if "tensor" not in name} for root in (packed, plain)]
    assert both[0] == both[1]
    assert set(both[0]) == {"dump.json", "stack.json", "construct.json"}


def test_every_tensor_lies_there_as_it_is(packed):
    found = by_hand(packed)
    assert len(found) == len(ARRAYS)
    for name, array in zip(found, ARRAYS.values(), strict=True):
        dtype, shape, raw = found[name]
        assert dtype == ("bfloat16" if array is NARROW else array.dtype.str)
        assert (shape, raw) == (list(array.shape), array.tobytes())


def test_tensors_are_read_as_npy_files_are(packed, plain):
    names = [record.file for call in read(plain).calls for record in call.records]
    assert len(names) == len(ARRAYS)
    for name, array in zip(names, AS_READ.values(), strict=True):
        ours = load_npy(packed / "dump_tensor_data" / name)
        assert (ours.dtype, ours.shape, ours.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert list(read(packed).calls) == list(read(plain).calls)


def test_equal_contents_lie_there_once(packed):
    size = sum(array.nbytes for name, array in ARRAYS.items() if name != "again")
    assert (packed / "dump_tensor_data" / "tensors.pack").stat().st_size == size


@pytest.mark.parametrize("digests", ["xxh3", "sha256"])
def test_the_index_says_which_digest(digests, tmp_path, monkeypatch):
    if digests == "sha256":
        monkeypatch.setattr(index, "xxh3_128_hexdigest", None)
    else:
        pytest.importorskip("xxhash", reason="another digest is used without it; install msprobe-ms[fast]")
    write(tmp_path).close()
    lines = (tmp_path / "dump_tensor_data" / "tensors.index").read_text("ascii").splitlines()
    found = {line.split("\t")[3].split(";")[0] for line in lines}
    assert len(found) == len(ARRAYS) - 1  # two are equal
    # Of float32 1.5, -2.25, 3, 0.5; worked out by `xxhsum -H2` and `sha256sum`.
    assert lines[0].split("\t")[3].split(";")[0] == EXPECTED[digests]


EXPECTED = {"xxh3": "xxh3:284bef2739ed779c32d9d10d5d42192d", "sha256": "d46e496f06c9c949eee38d8c38de937c"}


def test_a_call_costs_two_writes_and_no_file(tmp_path, monkeypatch):
    seen = []
    for name in ("open", "write", "pwrite", "writev"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, real=real, name=name: (seen.append(name), real(*args))[1])
    writer = Writer(tmp_path, HEADER, form="packed")
    made = []
    for number in range(3):
        seen.clear()
        for part in range(5):
            writer.tensor(f"a.{number}.{part}.npy", np.float32([number, part]))
        writer.call(f"a.{number}", None, None, "{}")
        made.append(list(seen))
    assert made[1:] == [["pwrite", "write", "write"]] * 2  # the bytes, the lines of the index, that of the journal
    writer.close()
    assert len(by_hand(tmp_path)) == 15


def test_what_was_written_is_there_before_the_call_is(tmp_path):
    writer = write(tmp_path)
    assert len(by_hand(tmp_path)) == len(ARRAYS)
    writer.close()


@pytest.mark.parametrize("in_the_background", [False, True])
def test_by_a_thread_it_is_the_same(in_the_background, tmp_path, packed):
    write(tmp_path / "other", limit=None if in_the_background else 1 << 20).close()
    assert by_hand(tmp_path / "other") == by_hand(packed)


def test_a_training_may_close_descriptors_that_it_does_not_know(tmp_path):
    writer = write(tmp_path, names=("small",))
    before = set(map(int, os.listdir("/proc/self/fd")))
    for number in before:
        if str(tmp_path) in os.path.realpath(f"/proc/self/fd/{number}"):
            os.close(number)
    writer.tensor("half.npy", ARRAYS["half"])
    writer.call("Functional.relu.1.forward", None, None, entry(["half"]))
    writer.close()
    assert {name: raw for name, (_, _, raw) in by_hand(tmp_path).items()} == {
        "small.npy": ARRAYS["small"].tobytes(),
        "half.npy": ARRAYS["half"].tobytes(),
    }


def test_no_descriptor_stays_open(packed):
    open_files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert not [path for path in open_files if "tensors." in path and str(packed) in path]


@pytest.mark.parametrize("name", ["small", "large"])
def test_what_the_disk_refuses_is_left_out_and_said(name, tmp_path):
    writer = write(tmp_path, names=("half",))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        if name == "large":
            with pytest.raises(OSError, match="too large"):
                writer.tensor("large.npy", ARRAYS["large"])
        else:
            writer.tensor("small.npy", ARRAYS["small"])
            writer.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.call("a", None, None, entry([name] if name == "small" else []))
    writer.tensor("flags.npy", ARRAYS["flags"])
    writer.call("b", None, None, entry(["flags"]))
    writer.close()
    dump = read(tmp_path)
    assert list(by_hand(tmp_path)) == ["half.npy", "flags.npy"]
    assert list(dump.missing) == (["a small: File too large"] if name == "small" else [])
    files = {record.file for call in dump.calls for record in call.records if record.file}
    assert files == {"half.npy", "flags.npy"}
    assert load_tensor(dump, next(call for call in dump.calls if call.name == "b").records[0]).tolist() == [True, False]


def split(folder):
    return doctor.run(doctor.Options(folder=folder, split=True))


def test_doctor_splits_a_pack_into_the_files_that_json_has(packed, plain, capsys):
    assert split(packed.parent.parent) == 0
    said = capsys.readouterr().out
    assert f"{len(ARRAYS)} tensors, {len(ARRAYS)} of them split into npy files" in said
    assert content(packed) == content(plain)
    assert split(packed) == 0  # there is nothing left to do
    assert "of them split" not in capsys.readouterr().out
    assert content(packed) == content(plain)


def test_a_split_that_was_interrupted_is_begun_again(packed, plain):
    tensors = packed / "dump_tensor_data"
    (packed / "dump_tensor_data.part").mkdir()
    (packed / "dump_tensor_data.part" / "half.npy").write_bytes(b"cut")
    (tensors / "flags.npy").write_bytes((plain / "dump_tensor_data" / "flags.npy").read_bytes())
    assert split(packed) == 0
    assert content(packed) == content(plain)


def test_a_damaged_pack_is_not_split(packed, capsys):
    pack = packed / "dump_tensor_data" / "tensors.pack"
    pack.write_bytes(pack.read_bytes()[:100])
    assert split(packed) == 1
    assert "not split: " in capsys.readouterr().out
    assert sorted(os.listdir(packed / "dump_tensor_data")) == ["tensors.index", "tensors.pack"]
    assert not (packed / "dump_tensor_data.part").exists()


def test_split_needs_a_dump():
    with pytest.raises(UsageError, match="--split applies to a dump; give the folder of the dump"):
        doctor.run(doctor.Options(split=True))


def converted(given, out, to):
    assert convert.run(convert.Options(dump=given, output=out, to=to)) == 0
    return out


def test_each_form_becomes_the_other(packed, plain, tmp_path):
    root = packed.parent.parent, plain.parent.parent
    assert content(converted(root[0], tmp_path / "unpacked", "json")) == content(root[1])
    made = converted(root[1], tmp_path / "again", "packed")
    again = by_hand(made / "step0" / "rank0")
    # npy files have no bfloat16, which is float32 from there on; they are in order of their names.
    found = by_hand(packed)
    assert {name: found[name] for name in found if "narrow" not in name} == {
        name: again[name] for name in again if "narrow" not in name
    }
    assert again["narrow.npy"] == ("<f4", [2], AS_READ["narrow"].tobytes())


def test_a_packed_dump_becomes_columnar(packed, plain, tmp_path):
    pytest.importorskip("pyarrow", reason="the format is written through it")
    columnar = converted(packed.parent.parent, tmp_path / "columnar", "columnar")
    assert content(converted(columnar, tmp_path / "back", "json")) == content(plain.parent.parent)


@pytest.mark.parametrize(("form", "to"), [("packed", "packed"), ("json", "json")])
def test_what_has_that_form_already_is_no_dump_to_convert(form, to, packed, plain, tmp_path):
    with pytest.raises(UsageError, match=f"contains a dump in a format other than {to}"):
        converted({"packed": packed, "json": plain}[form], tmp_path / "out", to)
