"""Checkpoints whose tables contradict themselves are refused in a line, whatever a lenient reader makes of them."""

import json
import zipfile

import pytest

from msprobe.base.errors import DumpError
from msprobe.compare.checkpoint.formats import read_safetensors
from msprobe.store.torch_files import examine_pt


def tensor(begin, end, **more):
    return {"dtype": "F32", "shape": [(end - begin) // 4], "data_offsets": [begin, end], **more}


def safetensors(path, header, size):
    text = header if isinstance(header, str) else json.dumps(header)
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + bytes(size))
    return path


TWICE = f'{{"w": {json.dumps(tensor(0, 8))}, "w": {json.dumps(tensor(8, 16))}}}'
REFUSED = {
    "overlapping": ({"a": tensor(0, 8), "b": tensor(4, 12)}, 12, "b overlaps a"),
    "the same bytes": ({"a": tensor(0, 8), "b": tensor(0, 8)}, 8, "b overlaps a"),
    "a gap": ({"a": tensor(0, 8), "b": tensor(12, 20)}, 20, "b leaves 4 bytes unused after a"),
    "a gap at the beginning": ({"a": tensor(4, 12)}, 12, "a leaves 4 bytes unused after the header"),
    "bytes behind": ({"a": tensor(0, 8)}, 12, "contains 4 bytes that do not belong to a tensor"),
    "a name twice": (TWICE, 16, "duplicate key 'w'"),
}


@pytest.mark.parametrize(("header", "size", "message"), REFUSED.values(), ids=REFUSED)
def test_entries_that_do_not_fill_the_file_are_refused(tmp_path, header, size, message):
    path = safetensors(tmp_path / "x.safetensors", header, size)
    with pytest.raises(DumpError) as refused:
        read_safetensors(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_entries_in_any_order_and_empty_ones_are_read(tmp_path):
    header = {"b": tensor(8, 16), "empty": tensor(8, 8), "a": tensor(0, 8), "__metadata__": {"format": "pt"}}
    found = read_safetensors(safetensors(tmp_path / "x.safetensors", header, 16))
    assert sorted(found.parameters) == ["a", "b", "empty"]


# What torch writes of a tensor of ten floats, in protocol 2.
PICKLE = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01ctorch\nFloatStorage\nq\x02"
    b"X\x01\x00\x00\x000q\x03X\x03\x00\x00\x00cpuq\x04K\ntq\x05QK\x00K\n\x85q\x06K\x01\x85q\x07\x89ccollections\n"
    b"OrderedDict\nq\x08)Rq\ttq\nRq\x0b."
)


def archive(path, records):
    with zipfile.ZipFile(path, "w") as made:
        for name, content in records:
            made.writestr(name, content)
    return path


def test_a_record_that_is_shorter_than_its_storage_is_refused(tmp_path):
    examine_pt(archive(tmp_path / "whole.pt", [("x/data.pkl", PICKLE), ("x/data/0", bytes(40))]))
    short = archive(tmp_path / "short.pt", [("x/data.pkl", PICKLE), ("x/data/0", bytes(20)), ("x/data/1", bytes(40))])
    with pytest.raises(DumpError, match="the record 'x/data/0' of its archive has 20 of 40 bytes"):
        examine_pt(short)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_record_that_stands_twice_is_refused(tmp_path):
    records = [("x/data.pkl", PICKLE), ("x/data/0", bytes(40)), ("x/data/0", bytes(40))]
    with pytest.raises(DumpError, match="its archive contains 'x/data/0' twice"):
        examine_pt(archive(tmp_path / "x.pt", records))


def test_records_that_share_bytes_are_refused(tmp_path):
    path = archive(tmp_path / "x.pt", [("x/data.pkl", PICKLE), ("x/data/0", bytes(40))])
    whole = path.read_bytes()
    # In the table at the end, the second record is said to begin where the first one does.
    at = whole.rindex(b"PK\x01\x02")
    path.write_bytes(whole[: at + 42] + bytes(4) + whole[at + 46 :])
    with pytest.raises(DumpError, match=r"overlaps|not a readable file"):
        examine_pt(path)
