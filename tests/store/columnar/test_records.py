"""`store/columnar`: a columnar dump reads as one of JSON does, and each becomes the other again, byte by byte."""

import json
import math
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe import convert, doctor
from msprobe.base.errors import DumpError, UsageError
from msprobe.store.detect import kind_of
from msprobe.store.npy import examine, load_npy, open_npy
from msprobe.store.reader import load_tensor, read, read_head
from msprobe.store.tensor_pack.chunks import CHUNK
from msprobe.store.tensor_pack.pack import Pack
from msprobe.store.writer import Writer

pytest.importorskip("pyarrow", reason="the format is written through it; install msprobe-ms[columnar]")

HEADER = {"task": "tensor", "level": "mix", "framework": "mindspore", "run": {"step": 3, "rank": 1}}
CELL = "Cell.a.Sub.forward.0"


class bfloat16(np.void):  # the name that frameworks register
    pass


def narrow(numbers):
    """bfloat16 numbers, of float32 ones whose lower half is cut off."""
    bits = (np.asarray(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits.view(np.dtype((bfloat16, "V2")))


def leaf(call, part, array=None, **more):
    numbers = np.asarray([1.5, -2.25, 1e-9] if array is None else array, np.float64)
    four = dict(zip(("Max", "Min", "Mean", "Norm"), (numbers.max(), numbers.min(), numbers.mean()), strict=False))
    named = {} if array is None else {"data_name": f"{call}.{part}.npy"}
    norm = float(np.linalg.norm(numbers))
    return {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": list(numbers.shape),
        **{key: float(number) for key, number in four.items()},
        "Norm": norm,
        **more,
        **named,
    }


RELU = "Functional.relu.0.forward"
X, Y = np.float32([1.5, -2.25, 3.0]), np.float32([1.5, 0.0, 3.0])
CALLS = {
    RELU: {
        "input_args": [leaf(RELU, "input.0", X, md5="7a0a407c", **{"from": "parameter fc.weight"}), 3],
        "input_kwargs": {"shape": {"type": "slice", "value": [0, None, 2]}, "none": None},
        "output": [leaf(RELU, "output.0", Y, md5="00000001"), leaf("", "", md5="crc32c:00000001")],
    },
    "Functional.exp.0.forward": {
        "input_args": [
            leaf("Functional.exp.0.forward", "input.0", Y, md5="00000001", **{"from": f"call {RELU}.output.0"})
        ],
        "output": [
            {**leaf("", ""), "Max": math.inf, "Norm": math.inf, "positive_inf_count": 2},
            {**leaf("", ""), "Max": math.nan, "Min": math.nan, "Mean": math.nan, "Norm": math.nan, "nan_count": 1},
            {
                "type": "mindspore.Tensor",
                "dtype": "Bool",
                "shape": [2],
                "Max": True,
                "Min": False,
                "Mean": None,
                "Norm": None,
            },
            {"type": "mindspore.Tensor", "dtype": "Int64", "shape": [], "Max": 7, "Min": 7, "Mean": 7.0, "Norm": 7.0},
        ],
    },
    "Functional.exp.1.forward": {
        "input_args": [
            leaf("Functional.exp.1.forward", "input.0", **{"from": "call Functional.gone.0.forward.output.0"})
        ],
        "output": [{**leaf("", ""), "positive_inf_count": 2}],
        "missing": ["output.1"],
    },
    CELL: {
        "input_args": [[leaf(CELL, "input.0.0", X)], {"type": "str", "value": '"Max":1.0,"md5":"00000001"\t\u00e9'}]
    },
    "Cell.a.Sub.backward.0": {"input": [leaf("", "")], "output": [None], "is_recompute": True},
    "Cell.a.Sub.parameters_grad": {"weight": [leaf("Cell.a.Sub.parameters_grad", "weight", Y)]},
}
TENSORS = {"input.0": X, "output.0": Y, "weight": Y, "input.0.0": X}


def write(folder, columnar, calls=None, header=HEADER, tensors=True, close=True):
    writer = Writer(folder, header, form="columnar" if columnar else "json")
    inner = writer.stack(["File net.py, line 3, in f, \n x()"])
    outer = writer.stack(["File net.py, line 9, in g, \n y()", "File t.py, line 1, in <module>, \n g()"])
    for number, (name, entry) in enumerate((calls or CALLS).items()):
        text = json.dumps(entry, separators=(",", ":"))
        for at in range(2) if tensors else ():
            for part, array in TENSORS.items():
                if f'"{name}.{part}.npy"' in text and at == 0:
                    writer.tensor(f"{name}.{part}.npy", array)
        parent = CELL if name.startswith("Functional") else None
        writer.call(name, parent, outer if number % 2 else inner if "forward" in name else None, text)
    writer.call("Functional.not_collected.0.forward", CELL, inner, None)
    writer.order(["Functional.exp.1.forward", "Functional.exp.0.forward"])
    writer.missing("Functional.exp.1.forward", "output.1", "it was deleted")
    if close:
        writer.close()
    return writer


@pytest.fixture
def both(tmp_path):
    """The same dump in JSON and columnar."""
    made = tmp_path / "json" / "step3" / "rank1", tmp_path / "columnar" / "step3" / "rank1"
    for folder, columnar in zip(made, (False, True), strict=True):
        write(folder, columnar)
    return made


def same(one, other, beside=("step", "rank")):
    assert repr(list(one.calls)) == repr(list(other.calls))  # a NaN is no NaN
    assert list(one.construct.items()) == list(other.construct.items())
    for key in ("task", "level", "framework", "missing", "unfinished", "extra_info", "format_version", *beside):
        assert getattr(one, key) == getattr(other, key), key
    for at in range(len(one.calls)):
        assert one.calls.stack(at) == other.calls.stack(at)
        assert one.calls.lost.get(at) == other.calls.lost.get(at)


def test_a_columnar_dump_reads_as_one_of_json(both):
    plain, table = map(read, both)
    assert sorted(os.listdir(both[1])) == ["dump.parquet", "dump_tensor_data"]
    assert sorted(os.listdir(both[1] / "dump_tensor_data")) == ["tensors.index", "tensors.pack"]
    same(plain, table)
    assert table.calls.stack_of("Functional.not_collected.0.forward") == ("File net.py, line 3, in f, \n x()",)
    records = [record for call in table.calls for record in call.records if record.file]
    assert len(records) == 5
    for record in records:
        array = load_tensor(table, record)
        assert (
            array.tobytes() == TENSORS[next(part for part in TENSORS if record.file.endswith(f".{part}.npy"))].tobytes()
        )
        assert array.tobytes() == load_tensor(plain, record).tobytes()
        assert array.dtype == load_tensor(plain, record).dtype


def test_what_lies_in_a_folder_is_found_by_its_table(both, tmp_path):
    for path in (both[1], both[1] / "dump.parquet"):
        assert kind_of(path).word == "dump"
        assert read(path).rank == 1
    assert kind_of(tmp_path / "columnar").word == "run"
    assert read_head(both[1] / "dump.parquet") == read_head(both[0] / "dump.json")


def test_a_level_without_enclosing_cells_has_none_and_a_dump_without_stacks_neither(tmp_path):
    for columnar in (False, True):
        write(tmp_path / f"flat{columnar}", columnar, header={**HEADER, "level": "L1"})
        writer = Writer(tmp_path / f"bare{columnar}", HEADER, extra_info=False, form="columnar" if columnar else "json")
        writer.call(CELL, None, None, "{}")
        writer.close()
    same(read(tmp_path / "flatFalse"), read(tmp_path / "flatTrue"))
    assert read(tmp_path / "flatTrue").construct == {}
    same(read(tmp_path / "bareFalse"), read(tmp_path / "bareTrue"))


def test_what_the_user_saved_is_a_table_of_its_own(tmp_path):
    for columnar in (False, True):
        writer = Writer(
            tmp_path / str(columnar),
            {**HEADER, "level": "debug"},
            extra_info=False,
            form="columnar" if columnar else "json",
        )
        writer.call("loss.0.debug", None, None, json.dumps(leaf("", "")))
        writer.call("all.0.debug", None, None, json.dumps([leaf("", ""), {"a": leaf("", "")}]))
        writer.close()
    assert os.listdir(tmp_path / "True") == ["debug.parquet"]
    same(read(tmp_path / "False"), read(tmp_path / "True"))


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def converted(given, out, to, code=0):
    assert convert.run(convert.Options(dump=given, output=out, to=to)) == code
    return out


def test_json_becomes_columnar_and_json_again_byte_by_byte(both, tmp_path):
    root = tmp_path / "json"
    (root / "run.jsonl").write_text("{}\n")
    (both[0] / "findings.json").write_text("{}\n")
    columnar = converted(root, tmp_path / "a", "columnar")
    assert not list(columnar.rglob("dump.json")) + list(columnar.rglob("*.npy"))
    same(read(both[0]), read(columnar / "step3" / "rank1"))
    assert content(converted(columnar, tmp_path / "b", "json")) == content(root)


def test_columnar_becomes_the_json_that_would_have_been_written(both, tmp_path):
    made = content(converted(tmp_path / "columnar", tmp_path / "c", "json"))
    wanted = content(tmp_path / "json")
    path = "step3/rank1/dump.json"
    place = str(tmp_path / "c" / "step3" / "rank1" / "dump_tensor_data").encode()
    assert made.pop(path).replace(place, f"{both[0] / 'dump_tensor_data'}".encode()) == wanted.pop(path)
    assert made == wanted


def test_dumps_of_the_other_tool_keep_their_values(samples, tmp_path):
    for version in sorted(os.listdir(samples)):
        for place in sorted(path.parent for path in (samples / version).rglob("dump.json")):
            name = str(place.relative_to(samples)).replace("/", "_")
            try:
                plain = read(place, structure=True)
            except DumpError:
                continue
            columnar = converted(place, tmp_path / f"{name}_c", "columnar")
            same(plain, read(columnar, structure=True), ())
            back = converted(columnar, tmp_path / f"{name}_j", "json")
            same(plain, read(back, structure=True), ())
            wanted, made = content(place), content(back)
            assert repr(json.loads(made.pop("dump.json"))["data"]) == repr(json.loads(wanted.pop("dump.json"))["data"])
            for file in wanted.keys() - {"debug.json"}:
                assert made[file] == wanted[file], file


FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1e16, 5e-324, math.inf, math.nan])
LEAVES = st.one_of(
    st.none(),
    st.integers(),
    FLOATS,
    st.text(),
    st.builds(
        lambda four, shape, more: {
            "type": "mindspore.Tensor",
            "dtype": "Float32",
            "shape": shape,
            **dict(zip(("Max", "Min", "Mean", "Norm"), four, strict=True)),
            **more,
        },
        st.tuples(FLOATS, FLOATS, FLOATS, FLOATS | st.integers() | st.none()),
        st.lists(st.integers(0, 9), max_size=2),
        st.fixed_dictionaries(
            {},
            optional={
                "nan_count": st.integers(-1, 3),
                "md5": st.sampled_from(
                    ["0000abcd", "crc32c:0000abcd", "crc32c:ffffffff", "crc32:0000abcd", "x", "", 3]
                ),
                "data_name": st.sampled_from(["F.a.0.forward.input.0.npy", "F.a.0.forward", "\x01.npy", "", 3]),
                "from": st.sampled_from(
                    [
                        "call F.a.0.forward.output.0",
                        "call F.gone.0.forward.output.1",
                        "parameter a.b",
                        "parameter",
                        "leaf",
                    ]
                ),
                "gradient": st.sampled_from(["accumulated", "?"]),
                "value": st.integers(),
            },
        ),
    ),
    st.builds(lambda kind, value: {"type": kind, "value": value}, st.text(), FLOATS | st.text()),
)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "input_args": TREES,
        "output": TREES,
        "parameters": TREES,
        "missing": st.lists(st.text()),
        "is_recompute": st.booleans(),
    },
)
NAMES = st.sampled_from(
    ["F.a.0.forward", "F.b.1.forward", "Cell.n.N.parameters_grad", 'F."\\é.0.forward', "x.0.debug", "\x02"]
)


@settings(deadline=None)
@given(calls=st.dictionaries(NAMES, ENTRIES, max_size=4))
def test_any_entries_come_back(calls, tmp_path_factory):
    root = tmp_path_factory.mktemp("any")
    for columnar in (False, True):
        writer = Writer(root / str(columnar), HEADER, form="columnar" if columnar else "json")
        for name, entry in calls.items():
            writer.call(name, None, None, json.dumps(entry, separators=(",", ":")))
        writer.close()
    assert repr(list(read(root / "True").calls)) == repr(list(read(root / "False").calls))
    is_lacking = any(record.file for call in read(root / "True").calls for record in call.records)
    back = converted(root / "True", root / "back", "json", code=int(is_lacking))
    assert content(back) == content(root / "False")
    shutil.rmtree(root)


# Tensors.

ODD = {
    "nothing": np.zeros((0, 3), np.float32),
    "one": np.float64(1.5),
    "bools": np.array([True, False]),
    "big_endian": np.arange(5, dtype=">i4"),
    "complex": np.arange(6).reshape(2, 3) * (1 + 2j),
    "column": np.arange(12.0).reshape(3, 4).T,
    "half": np.arange(9, dtype=np.float16),
    "nan": np.array([np.nan, -0.0, np.inf], np.float32),
    "chunks": np.random.default_rng(0).standard_normal(3 * CHUNK // 4 + 7).astype(np.float32),
    "pairs": np.random.default_rng(1).standard_normal(CHUNK // 8) * 1j,
}


@pytest.fixture
def pack(tmp_path):
    return Pack(tmp_path)


@pytest.mark.parametrize("name", ODD)
def test_every_array_comes_back(name, pack, tmp_path):
    path = tmp_path / f"{name}.npy"
    pack.write(str(path), np.asarray(ODD[name]))
    found, wanted = load_npy(path), np.asarray(ODD[name])
    assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())
    assert examine(path).shape == wanted.shape


def test_a_large_tensor_is_read_in_parts(pack, tmp_path):
    wanted = ODD["chunks"]
    pack.write(str(tmp_path / "a.npy"), wanted)
    file = open_npy(tmp_path / "a.npy")
    length = CHUNK // 4
    for start, stop in ((0, 3), (length - 2, length + 2), (5, 2 * length + 9), (wanted.size - 1, wanted.size), (4, 4)):
        assert file.part(start, stop).tobytes() == wanted[start:stop].tobytes()


def test_bfloat16_takes_two_bytes_and_is_read_as_float32(pack, tmp_path):
    numbers = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    wanted = (numbers.view(np.uint32) & 0xFFFF0000).view(np.float32)
    pack.write(str(tmp_path / "a.npy"), narrow(numbers))
    assert load_npy(tmp_path / "a.npy").tobytes() == wanted.tobytes()
    assert load_npy(tmp_path / "a.npy").dtype == np.float32
    assert (tmp_path / "tensors.pack").stat().st_size < 2 * numbers.size
    pack.write_narrow(str(tmp_path / "b.npy"), wanted)  # as `convert` does, of the same numbers in float32
    assert (tmp_path / "tensors.pack").stat().st_size < 2 * numbers.size
    assert load_npy(tmp_path / "b.npy").tobytes() == wanted.tobytes()


def test_equal_contents_are_stored_once(pack, tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 50))
    pack.write(str(tmp_path / "a.npy"), x)
    size = (tmp_path / "tensors.pack").stat().st_size
    for name, again in (("b", x.copy()), ("c", x.reshape(-1)), ("d", x.view(np.int64))):
        pack.write(str(tmp_path / f"{name}.npy"), again)
        assert load_npy(tmp_path / f"{name}.npy").tobytes() == x.tobytes()
        assert load_npy(tmp_path / f"{name}.npy").dtype == again.dtype
    assert (tmp_path / "tensors.pack").stat().st_size == size
    pack.write(str(tmp_path / "e.npy"), x.T)
    assert (tmp_path / "tensors.pack").stat().st_size > size


def test_the_later_tensor_of_one_name_counts(pack, tmp_path):
    for numbers in ([1.0], [2.0]):
        pack.write(str(tmp_path / "a.npy"), np.array(numbers))
    assert load_npy(tmp_path / "a.npy").tolist() == [2.0]


def test_a_line_that_was_cut_off_is_left_out(pack, tmp_path):
    for name in "ab":
        pack.write(str(tmp_path / f"{name}.npy"), np.arange(3.0))
    index = tmp_path / "tensors.index"
    index.write_bytes(index.read_bytes()[:-2])
    assert load_npy(tmp_path / "a.npy").tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(DumpError, match=r"b\.npy: the tensor is missing"):
        load_npy(tmp_path / "b.npy")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("<f8", "[3]", "", "[[0,24]]"), "a chunk at 0"),
        (("<f8", "[3]", "", "[]"), "0 chunks"),
        (("<f8", "[-3]", "", "[]"), "shape"),
        (("O", "[3]", "", "[[0,9]]"), "not numbers"),
        (("<f8", "[3000000000000]", "", "[[0,9]]"), "1 chunks"),
        (("nonsense", "[3]", "", "[[0,9]]"), "cannot be read"),
    ],
)
def test_an_index_that_says_what_cannot_be_is_an_error(fields, why, tmp_path):
    (tmp_path / "tensors.pack").write_bytes(b"\0" * 20)
    (tmp_path / "tensors.index").write_text("\t".join(('"a.npy"', *fields)) + "\n")
    with pytest.raises(DumpError, match=why):
        load_npy(tmp_path / "a.npy")


def test_a_damaged_pack_is_an_error(pack, tmp_path):
    pack.write(str(tmp_path / "a.npy"), np.zeros(5000))
    file = tmp_path / "tensors.pack"
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(DumpError, match=r"a\.npy: .*collect this step again"):
        load_npy(tmp_path / "a.npy")
    file.unlink()
    with pytest.raises(DumpError, match=r"tensors\.pack: cannot be opened"):
        load_npy(tmp_path / "a.npy")


def test_a_tensor_that_leads_out_of_its_folder_is_not_written(both, tmp_path, capsys):
    index = both[1] / "dump_tensor_data" / "tensors.index"
    index.write_text(index.read_text() + '"../../out.npy"\t<f8\t[0]\t\t[]\n')
    converted(tmp_path / "columnar", tmp_path / "c", "json", code=1)
    assert "which is not a file name" in capsys.readouterr().out
    assert not list(tmp_path.rglob("out.npy"))


@pytest.mark.parametrize(
    "damage", [lambda b: b[:200], lambda b: b"", lambda b: b"PAR1" + b[4:-9] + b"\0" * 5 + b"PAR1"]
)
def test_a_damaged_table_is_an_error(both, damage):
    file = both[1] / "dump.parquet"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DumpError, match=r"dump\.parquet: "):
        read(file)


def test_a_table_of_something_else_is_an_error(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1]}), tmp_path / "dump.parquet")
    with pytest.raises(DumpError, match="is not the table of a dump"):
        read(tmp_path)


# The verbs.


def test_doctor_says_of_a_columnar_dump_what_it_says_of_json(both, capsys):
    said = []
    for folder in both:
        assert doctor.run(doctor.Options(folder=folder)) == 1
        said.append(capsys.readouterr().out.removeprefix(str(folder)))
    assert said[0] == said[1]
    assert "6 calls, 18 records, 5 tensors; LOST: 1 parts were not collected" in said[1]
    index = both[1] / "dump_tensor_data" / "tensors.index"
    index.write_text("".join(index.read_text().splitlines(keepends=True)[1:]))
    assert doctor.run(doctor.Options(folder=both[1])) == 1
    assert "1 tensors are lost" in capsys.readouterr().out


def test_convert_refuses_what_it_cannot_do(both, tmp_path):
    (tmp_path / "there").mkdir()
    for dump, out, to in (
        (tmp_path / "absent", tmp_path / "o", "json"),
        (tmp_path / "json", tmp_path / "o", "json"),
        (tmp_path / "json", tmp_path / "there", "columnar"),
        (tmp_path / "json", tmp_path / "json" / "inside", "columnar"),
    ):
        with pytest.raises(UsageError):
            convert.run(convert.Options(dump=dump, output=out, to=to))
    write(tmp_path / "open", False, close=False)
    with pytest.raises(UsageError, match="msprobe doctor"):
        convert.run(convert.Options(dump=tmp_path / "open", output=tmp_path / "o", to="columnar"))


def test_a_dump_replaces_one_of_the_other_format(both):
    for folder, columnar in zip(both, (True, False), strict=True):
        write(folder, columnar)
    assert {"dump.json", "dump.parquet"} & {*os.listdir(both[0])} == {"dump.parquet"}
    assert {"dump.json", "dump.parquet"} & {*os.listdir(both[1])} == {"dump.json"}
    assert not list(both[0].rglob("*.npy")) + list(both[1].rglob("tensors.*"))


WITHOUT = """
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
from msprobe.base.errors import DumpError
from msprobe.store.npy import load_npy
from msprobe.store.reader import read
root = Path(sys.argv[1])
plain = root / "json" / "step3" / "rank1"
assert len(read(plain).calls) == 6
assert load_npy(plain / "dump_tensor_data" / "Functional.relu.0.forward.input.0.npy").size == 3
for call in (lambda: read(root / "columnar" / "step3" / "rank1"), lambda: load_npy(root / "compressible.npy")):
    try:
        call()
    except DumpError as err:
        assert "pip install 'msprobe-ms[columnar]'" in str(err), err
    else:
        raise AssertionError
"""


def test_without_pyarrow_json_is_read_and_columnar_says_what_to_install(both, tmp_path):
    Pack(tmp_path).write(str(tmp_path / "compressible.npy"), np.zeros(1000))
    done = subprocess.run([sys.executable, "-c", WITHOUT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
