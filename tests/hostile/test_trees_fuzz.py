"""Whatever lies in a kernel dump, a tree of saves or of npy files, it is read as a Dump or refused with a DumpError."""

import csv
import json
import os
import shutil
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import DumpError
from msprobe.base.names import parse
from msprobe.store.detect import kind_of
from msprobe.store.kernel_dump.files import kernel_dumps, read_kernels
from msprobe.store.reader import load_tensor
from msprobe.store.saves.graph_saves import npy_dumps, read_npys, read_saves, saved_dumps
from msprobe.store.saves.single_saves import read_single, single_dumps

WORDS = [
    "MatMul",
    "Default_a-op1",
    "Parameter",
    "0",
    "17",
    "input",
    "output",
    "x",
    "grad",
    "float32",
    "npy",
    "data",
    "é",
]
names = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), min_size=1, max_size=9).flatmap(
    lambda words: st.sampled_from(
        [".".join(words), "_".join(words), ".".join([*words, "npy"]), "_".join(words) + ".npy"]
    )
)
FOLDERS = ["rank_0/Net/0/0", "step0/rank0", "data/x/step0/rank0", "data/x/step0/rank0/micro_step0", "a"]
contents = st.binary(max_size=40) | st.just(b"\x93NUMPY\x01\x00") | st.text(max_size=20).map(str.encode)
cells = st.text(max_size=4) | st.sampled_from(
    ["input", "output", "0", "1.5", "nan", "null", "True", "(2,)", "9" * 5000]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("\ud800")
lines = st.dictionaries(
    st.sampled_from(["name", "count", "id", "type", "dtype", "shape", "Max", "data_name", "md5", "value"]),
    scalars | st.lists(scalars, max_size=3),
)


def put(path, content):
    with suppress(OSError, ValueError, UnicodeEncodeError):  # names that no file can have
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


def dumps(root):
    """Every dump that any of the readers makes of a folder."""
    for at, folders in kernel_dumps(root).items():
        with suppress(DumpError):
            yield read_kernels(folders, *at)
    for at, folder in saved_dumps(root).items():
        yield read_saves(folder, *at)
        yield read_saves(folder, *at, by_index=False)
    with suppress(DumpError):  # there is no `data`
        for at, folders in single_dumps(root).items():
            yield read_single(folders, *at)
    for folder in npy_dumps(root).values():
        yield read_npys(folder, {"x": "y"})


def check(root):
    with suppress(DumpError):
        kind_of(root).text.encode()
    for dump in dumps(root):
        calls = [call.name for call in dump.calls]
        assert len(set(calls)) == len(calls)
        for call in dump.calls:
            assert parse(call.name).number >= 0
            assert call.records
            assert len({(record.part, record.path) for record in call.records}) == len(call.records)
            for record in call.records:
                "".join((record.name, record.dtype, record.type, record.digest)).encode("utf-8")
                with pytest.raises(DumpError):
                    load_tensor(dump, record)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@given(st.lists(st.tuples(st.sampled_from(FOLDERS), names, contents), max_size=6))
def test_any_files(root, files):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for folder, name, content in files:
        put(f"{root}/{folder}/{name}", content)
    check(root)


@given(
    st.lists(st.lists(cells, max_size=14), max_size=5),
    st.permutations(
        ["Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot", "Data Type", "Shape", "Max Value"]
    ),
    st.binary(max_size=20),
)
def test_any_table(root, rows, head, mapping):
    folder = root / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "statistic.csv", "w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        csv.writer(file).writerows([head, *rows])
    (folder / "mapping.csv").write_bytes(mapping)
    check(root)


@given(st.lists(lines.map(json.dumps) | st.text(max_size=9), max_size=6))
def test_any_index(root, texts):
    folder = root / "step0" / "rank0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saves.jsonl").write_text("\n".join(texts), "utf-8", "replace")
    check(root)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.text(max_size=4), "count": st.integers(), "id": st.integers(), "type": st.text(max_size=3)},
            optional={
                "shape": st.lists(scalars, max_size=3),
                "Max": scalars,
                "value": scalars,
                "data_name": names,
                "md5": scalars,
            },
        ),
        max_size=8,
    )
)
def test_any_index_of_saves(root, expected):
    folder = root / "step0" / "rank0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saves.jsonl").write_text("\n".join(map(json.dumps, expected)))
    check(root)
