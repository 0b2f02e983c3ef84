"""Packs of tensors that were damaged on the disk: doctor, convert and every reader notice it, and nothing is lost."""

import json
import random
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

from msprobe import convert, doctor
from msprobe.base.errors import DumpError
from msprobe.cli import main
from msprobe.store.npy import load_npy, open_npy
from msprobe.store.tensor_pack import index, packed
from msprobe.store.writer import Writer

pytestmark = pytest.mark.part(3)

HEADER = {"task": "tensor", "level": "L1", "framework": "mindspore", "run": {"step": 0, "rank": 0}}
RANDOM = np.random.default_rng(35)
ARRAYS = {
    "small": RANDOM.standard_normal((2, 3)).astype(np.float32),
    "half": RANDOM.standard_normal(7).astype(np.float16),
    "flags": np.array([True, False, True]),
    "zeros": np.zeros(40, np.float32),
    "large": RANDOM.standard_normal(700_000).astype(np.float32),  # three chunks
    "long": RANDOM.integers(-9, 9, 300_000),
}
FORMS = ("packed", "columnar")


def write(folder, form="packed", arrays=None):
    """One call for each array."""
    if form == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it")
    writer = Writer(folder, HEADER, form=form)
    for name, array in (arrays or ARRAYS).items():
        file = writer.tensor(f"Functional.{name}.0.forward.output.0.npy", array)
        four = {key: float(of(array)) for key, of in (("Max", np.max), ("Min", np.min), ("Mean", np.mean))}
        four["Norm"] = float(np.linalg.norm(array.astype(np.float64)))
        dtype = str(array.dtype).capitalize()
        leaf = {"type": "mindspore.Tensor", "dtype": dtype, "shape": list(array.shape), **four, "data_name": file}
        writer.call(f"Functional.{name}.0.forward", None, None, json.dumps({"output": [leaf]}))
    writer.close()
    return folder


@pytest.fixture(params=FORMS)
def dump(request, tmp_path):
    return write(tmp_path / "dump", request.param)


def tensors_of(folder):
    return folder / "dump_tensor_data"


def flip(file, bit):
    data = bytearray(file.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def examine(folder):
    return doctor.run(doctor.Options(folder=folder))


def converted(folder, out, to="json"):
    return convert.run(convert.Options(dump=folder, output=out, to=to))


def is_read_otherwise(folder):
    """Whether a reader fails, or gives other values; never an exception other than DumpError."""
    for name, array in ARRAYS.items():
        try:
            found = load_npy(tensors_of(folder) / f"Functional.{name}.0.forward.output.0.npy")
        except DumpError:
            return True
        if (found.dtype, found.shape, found.tobytes()) != (array.dtype, array.shape, array.tobytes()):
            return True
    return False


@pytest.mark.sample(16)
@pytest.mark.parametrize("file", ["tensors.pack", "tensors.index"])
@pytest.mark.parametrize("seed", range(12))
def test_one_flipped_bit_is_found_by_doctor_convert_and_compare(dump, file, seed, tmp_path, capsys):
    source = tensors_of(dump) / file
    good = shutil.copytree(dump, tmp_path / "good")
    bit = random.Random(seed).randrange(8 * source.stat().st_size)
    flip(source, bit)
    if not is_read_otherwise(dump):
        assert (dump / "dump.parquet").exists()  # a bit of the compression's frame, which changes no value
        return
    before = content(dump)
    assert examine(dump) == 1, f"bit {bit} of {file}"
    assert "LOST" in capsys.readouterr().out
    assert converted(dump, tmp_path / "out") == 1, f"bit {bit} of {file}"
    assert "LOST" in capsys.readouterr().out
    assert content(dump) == before
    assert main(["compare", "-tp", str(dump), "-gp", str(good), "-o", str(tmp_path / "o"), "--format", "csv"]) == 1
    assert "no difference in what could be judged" in capsys.readouterr().out.splitlines()[-1]


def test_a_flipped_bit_of_an_index_line_is_noticed_by_the_checksum_or_changes_the_digest():
    line = index.line_of("Functional.add.0.forward.output.0", "float32", (2, 3), "a1b2c3d4", [(64, 24)])
    name, fields = index.parse_line(line)
    assert (name, fields.digest) == ("Functional.add.0.forward.output.0", "a1b2c3d4")
    for bit in range(8 * len(line)):
        damaged = bytearray(line)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found, others = index.parse_line(bytes(damaged))
        except ValueError:
            continue
        # the semicolon before the checksum: the rest is a digest then, which no content has
        assert (found, others._replace(digest=fields.digest)) == (name, fields)
        assert others.digest != fields.digest


@pytest.mark.always
@pytest.mark.parametrize("form", FORMS)
def test_a_value_of_a_damaged_tensor_is_never_given_in_silence(form, tmp_path):
    folder = write(tmp_path / "dump", form)
    pack = tensors_of(folder) / "tensors.pack"
    whole, order = pack.read_bytes(), random.Random(7)
    names = [f"Functional.{name}.0.forward.output.0.npy" for name in ARRAYS]
    found = 0
    for _ in range(60):
        pack.write_bytes(whole)
        flip(pack, order.randrange(8 * len(whole)))
        for name, array in zip(names, ARRAYS.values(), strict=True):
            try:
                assert in_pieces(tensors_of(folder) / name) == array.tobytes()
            except DumpError:
                found += 1
    assert found >= 50  # all in a plain pack; some bits of compressed frames change nothing


def in_pieces(path):
    """The bytes of a tensor, read as comparisons read it."""
    tensor = open_npy(path)
    if isinstance(tensor, np.ndarray):
        return tensor.tobytes()
    pieces = (tensor.part(at, min(at + 99_999, tensor.size)) for at in range(0, tensor.size, 99_999))
    return b"".join(piece.tobytes() for piece in pieces)


def test_sha_256_is_checked_by_doctor_and_convert(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(index, "xxh3_128_hexdigest", None)
    monkeypatch.setattr(index, "xxh3_128", None)
    folder = write(tmp_path / "dump")
    assert examine(folder) == 0
    flip(tensors_of(folder) / "tensors.pack", 12345)
    assert examine(folder) == 1
    assert converted(folder, tmp_path / "out") == 1
    assert capsys.readouterr().out.count("large.0.forward.output.0.npy") >= 2


def test_digests_that_cannot_be_checked_here_are_not_called_whole(tmp_path, monkeypatch, capsys):
    pytest.importorskip("xxhash", reason="another digest is used without it; install msprobe-ms[fast]")
    folder = write(tmp_path / "dump")
    monkeypatch.setattr(index, "xxh3_128", None)
    assert examine(folder) == 1
    assert f"{len(ARRAYS)} digests cannot be checked: pip install 'msprobe-ms[fast]'" in capsys.readouterr().out
    assert not is_read_otherwise(folder)


def test_a_line_has_the_checksum_of_the_rest_of_it(dump):
    for line in (tensors_of(dump) / "tensors.index").read_bytes().splitlines():
        fields = line.split(b"\t")
        fields[3], checksum = fields[3].split(b";")
        assert int(checksum, 16) == zlib.crc32(b"\t".join(fields))


def test_an_index_without_checksums_is_read(dump):
    file = tensors_of(dump) / "tensors.index"
    lines = [line.split("\t") for line in file.read_text().splitlines()]
    file.write_text("".join("\t".join((*f[:3], f[3].split(";")[0], f[4])) + "\n" for f in lines))
    assert examine(dump) == 0
    assert not is_read_otherwise(dump)


# What a conversion cannot carry.

TORN = {
    "in the middle": lambda lines: [lines[0][: len(lines[0]) // 2] + "\n", *lines[1:]],
    "at the end": lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]],
    "gone": lambda lines: lines[1:],
    "two in one": lambda lines: [lines[0].rstrip("\n") + lines[1], *lines[2:]],
    "all of it": lambda lines: [line[:9] + "\n" for line in lines],
    "empty": lambda lines: [],
}


def torn(folder, how):
    file = tensors_of(folder) / "tensors.index"
    file.write_text("".join(TORN[how](file.read_text().splitlines(keepends=True))))


@pytest.mark.parametrize("how", TORN)
@pytest.mark.parametrize(("form", "to"), [("packed", "json"), ("packed", "columnar"), ("columnar", "json")])
def test_a_conversion_of_a_torn_index_says_what_is_missing(form, to, how, tmp_path, capsys):
    if to == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it")
    folder = write(tmp_path / "dump", form)
    torn(folder, how)
    before = content(folder)
    assert converted(folder, tmp_path / "out", to) == 1
    out = capsys.readouterr().out
    assert (
        "small.0.forward.output.0.npy: the tensor is missing" in out
        or "long.0.forward.output.0.npy: the tensor is missing" in out
    )
    assert "LOST" in out.splitlines()[-1]
    assert content(folder) == before


@pytest.mark.parametrize("how", TORN)
@pytest.mark.parametrize("form", FORMS)
def test_a_torn_pack_is_not_split(form, how, tmp_path, capsys):
    folder = write(tmp_path / "dump", form)
    torn(folder, how)
    before = content(folder)
    assert doctor.run(doctor.Options(folder=folder, split=True)) == 1
    assert "not split" in capsys.readouterr().out
    assert content(folder) == before


DAMAGED = {
    "missing": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "garbage": lambda path: path.write_bytes(b"garbage"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link elsewhere": lambda path: (path.unlink(), path.symlink_to("/etc/hostname")),
    "a symbolic link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
}


@pytest.mark.parametrize("how", DAMAGED)
@pytest.mark.parametrize("to", ["packed", "columnar"])
def test_a_conversion_of_npy_files_says_what_is_missing(to, how, tmp_path, capsys):
    if to == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it")
    folder = write(tmp_path / "dump", "json")
    DAMAGED[how](tensors_of(folder) / "Functional.half.0.forward.output.0.npy")
    assert converted(folder, tmp_path / "out", to) == 1
    out = capsys.readouterr().out
    assert "LOST: " in out
    assert "half.0.forward.output.0.npy" in out


def test_a_whole_dump_is_carried_both_ways_without_a_loss(tmp_path, capsys):
    folder = write(tmp_path / "dump", "json")
    for number, to in enumerate(("packed", "json", "columnar", "json")):
        pytest.importorskip("pyarrow", reason="the format is written through it")
        assert converted(folder, tmp_path / str(number), to) == 0
        folder = tmp_path / str(number)
        assert examine(folder) == 0
    assert "LOST" not in capsys.readouterr().out
    assert not is_read_otherwise(folder)


@pytest.mark.parametrize("to", ["packed", "columnar"])
def test_dumps_beside_one_that_cannot_be_read_are_carried(to, tmp_path, capsys):
    if to == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it")
    for rank in range(3):
        write(tmp_path / "run" / "step0" / f"rank{rank}", "json")
    (tmp_path / "run" / "step0" / "rank1" / "dump.json").write_text('{"task": ')
    assert converted(tmp_path / "run", tmp_path / "out", to) == 1
    assert "rank1/dump.json: is not valid JSON" in capsys.readouterr().out
    assert [examine(tmp_path / "out" / "step0" / f"rank{rank}") for rank in (0, 2)] == [0, 0]


def test_a_conversion_of_nothing_but_broken_dumps_carried_nothing(tmp_path):
    write(tmp_path / "run", "json")
    (tmp_path / "run" / "dump.json").write_text('{"task": ')
    assert converted(tmp_path / "run", tmp_path / "out", "packed") == 2


def test_links_beside_a_dump_are_reported(tmp_path, capsys):
    write(tmp_path / "run", "json")
    (tmp_path / "run" / "notes.txt").symlink_to("/etc/hostname")
    assert converted(tmp_path / "run", tmp_path / "out", "packed") == 1
    assert "notes.txt: is a symbolic link" in capsys.readouterr().out


def test_a_damaged_journal_stays_beside_the_dump_that_was_made_of_it(tmp_path):
    folder = tmp_path / "dump"
    writer = Writer(folder, HEADER)
    writer.call("Functional.add.0.forward", None, None, "{}")
    writer.flush()
    del writer
    journal = folder / "dump.journal"
    text = journal.read_bytes() + b'C\t"damaged\n'
    journal.write_bytes(text)
    assert examine(folder) == 1
    assert not journal.exists()
    assert (folder / "dump.journal.damaged").read_bytes() == text
    assert examine(folder) == 1  # what was lost stays lost
    Writer(folder, HEADER).close()
    assert not (folder / "dump.journal.damaged").exists()


def test_an_unchecked_piece_does_not_spoil_the_check_of_the_whole(tmp_path):
    folder = write(tmp_path / "dump")
    found = packed.find_packed(tensors_of(folder) / "Functional.large.0.forward.output.0.npy")
    assert found.part(600_000, 600_010).tolist() == ARRAYS["large"][600_000:600_010].tolist()
    assert found.whole().tobytes() == ARRAYS["large"].tobytes()
    assert Path(found.path).name == "Functional.large.0.forward.output.0.npy"
