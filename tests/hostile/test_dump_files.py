"""Broken and malicious dumps: the reader gives a dump or a DumpError that says what, where, and what to do."""

import json
import os
import pickle

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor, read

NAME = "Functional.relu.0.forward"
FILE = f"{NAME}.input.0.npy"


def first(dump):
    return dump.calls[0].records[0]


def load(folder):
    dump = read(folder)
    return load_tensor(dump, first(dump))


def refused(folder):
    with pytest.raises(DumpError) as caught:
        load(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    return message


def test_the_dump_is_whole_before_it_is_spoiled(dump):
    assert load(dump).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_truncation_at_every_byte(dump):
    path = dump / "dump.json"
    whole = path.read_bytes()
    for keep in range(len(whole.rstrip())):
        path.write_bytes(whole[:keep])
        message = refused(dump)
        assert "is empty" in message if keep == 0 else "is not valid JSON at line" in message


def test_the_place_of_a_mistake_is_named(dump):
    (dump / "dump.json").write_text('{\n "task": "tensor",\n "data" {}\n}')
    assert "dump.json: is not valid JSON at line 3, column 9" in refused(dump)


@pytest.mark.parametrize("text", [b"", b" \n ", b"\xef\xbb\xbf"])
def test_an_empty_file(dump, text):
    (dump / "dump.json").write_bytes(text)
    assert "dump.json: is empty" in refused(dump)


@pytest.mark.parametrize(
    "text",
    [b"\x00\x01\x02\xff\xfe", bytes(range(256)) * 10, b"\x80\x04\x95", b"PK\x03\x04", '{"data": {}}'.encode("utf-16")],
)
def test_binary_garbage(dump, text):
    (dump / "dump.json").write_bytes(text)
    refused(dump)


def test_a_byte_order_mark_is_passed_over(dump):
    path = dump / "dump.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load(dump).shape == (2, 3)


@pytest.mark.parametrize("text", ["[]", "5", '"text"', "null", "NaN", "true"])
def test_json_that_is_no_object(dump, text):
    (dump / "dump.json").write_text(text)
    assert "does not contain a JSON object" in refused(dump)


@pytest.mark.parametrize("data", [None, [], "x", 5, True])
def test_data_that_is_no_object(spoil, data):
    assert "has no object `data`" in refused(spoil(lambda text: text.update(data=data)))


def test_data_that_is_absent(spoil):
    assert "has no object `data`" in refused(spoil(lambda text: text.pop("data")))


@pytest.mark.parametrize("version", [2, 10**30])
def test_a_format_of_the_future(spoil, version):
    assert f"has format {version}" in refused(spoil(lambda text: text.update(format_version=version)))


@pytest.mark.parametrize("version", ["1", 1.0, True, None, [1], -1])
def test_a_format_that_is_no_number(spoil, version):
    assert "not a number" in refused(spoil(lambda text: text.update(format_version=version)))


@pytest.mark.parametrize("entry", [None, [], 5, "x"])
def test_an_entry_that_is_no_object(spoil, entry):
    message = refused(spoil(lambda text: text["data"].update({NAME: entry})))
    assert f"{NAME}: its entry is not an object" in message


def test_bare_words_of_json(dump):
    path = dump / "dump.json"
    path.write_text(path.read_text().replace('"Max":5.0,"Min":0.0', '"Max":NaN,"Min":-Infinity'))
    statistics = first(read(dump)).statistics
    assert repr([statistics.max, statistics.min, statistics.mean, statistics.norm]) == "[nan, -inf, 2.5, 7.4]"


@pytest.mark.parametrize("value", ["5.0", [5.0], {"a": 1}, 10**400, -(2**63) - 1, 2**64])
def test_a_statistic_that_is_no_number_is_absent(spoil, value):
    def change(text):
        text["data"][NAME]["input_args"][0]["Max"] = value

    statistics = first(read(spoil(change))).statistics
    assert (statistics.max, statistics.min) == (None, 0.0)


@pytest.mark.parametrize("shape", ["2,3", [2, "3"], [2, -3], [2.0, 3], {"0": 2}, 6, [True]])
def test_a_shape_that_is_no_list_of_sizes_is_absent(spoil, shape):
    def change(text):
        text["data"][NAME]["input_args"][0]["shape"] = shape

    assert first(read(spoil(change))).shape is None


def test_numbers_that_are_too_long_to_read(dump):
    (dump / "dump.json").write_text('{"data": {"a": {"output": [' + "9" * 10_000 + "]}}}")
    refused(dump)


def test_of_two_entries_with_one_name_the_last_counts(dump):
    (dump / "dump.json").write_text(
        '{"task":"tensor","data":{"F.0.forward":{"output":[]},"F.0.forward":{"output":[null]}}}'
    )
    (call,) = read(dump).calls
    assert [record.kind for record in call.records] == ["null"]


@pytest.mark.parametrize("depth", [101, 900, 5_000, 200_000])
@pytest.mark.parametrize("brackets", ["[]", ('{"a":', "}")])
def test_nesting_without_end(dump, depth, brackets):
    opening, closing = brackets
    nested = opening * depth + "null" + closing * depth
    (dump / "dump.json").write_text(f'{{"data": {{"F.0.forward": {{"output": {nested}}}}}}}')
    assert "nested" in refused(dump)


def test_nesting_that_a_collector_may_write(dump):
    nested = "[" * 60 + "null" + "]" * 60
    (dump / "dump.json").write_text(f'{{"data": {{"F.0.forward": {{"output": {nested}}}}}}}')
    assert len(first(read(dump)).path) == 60


def test_half_characters_become_question_marks(dump):
    (dump / "dump.json").write_text(
        '{"data": {"F\\ud800.0.forward": {"output": [{"type": "str", "value": "\\udfff \\ud83d\\ude00"}]}}}'
    )
    (call,) = read(dump).calls
    assert call.name == "F?.0.forward"
    assert call.records[0].value == "? 😀"


@pytest.mark.parametrize("name", ["stack.json", "construct.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", '{"F": 5}', '{"0": [5, 6]}', '{"0": [["a"], [1, null]]}'])
def test_a_broken_companion_is_left_out(dump, name, text):
    (dump / name).write_text(text)
    assert load(dump).shape == (2, 3)


def test_a_broken_companion_is_said(dump, capsys):
    (dump / "stack.json").write_text("{")
    read(dump)
    logged = capsys.readouterr().err
    assert "stack.json: is not valid JSON at line 1" in logged
    assert "it is ignored" in logged


def test_cells_that_enclose_each_other_are_parted(dump, capsys):
    construct = {"a": "b", "b": "c", "c": "a", "d": "a", "e": "e", NAME: "d", "f": None, "g": "f"}
    (dump / "construct.json").write_text(json.dumps(construct))
    parents = read(dump).construct
    for name in construct:
        for _ in range(len(construct) + 1):
            name = parents.get(name) if name else None
        assert name is None
    assert (parents["g"], parents[NAME], parents["d"]) == ("f", "d", "a")
    assert "encloses itself" in capsys.readouterr().err


def test_a_missing_tensor(dump):
    (dump / "dump_tensor_data" / FILE).unlink()
    assert "the tensor is missing" in refused(dump)


def test_a_missing_folder_of_tensors(dump):
    (dump / "dump_tensor_data" / FILE).unlink()
    (dump / "dump_tensor_data").rmdir()
    assert "the tensor is missing" in refused(dump)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "../dump_tensor_data/" + FILE,
        "./" + FILE,
        "..",
        ".",
        "a/../" + FILE,
        "x\0.npy",
    ],
)
def test_a_path_out_of_the_folder_is_not_opened(spoil, name):
    def change(text):
        text["data"][NAME]["input_args"][0]["data_name"] = name

    assert "is outside dump_tensor_data; it is not opened" in refused(spoil(change))


def test_the_folder_that_the_dump_names_is_not_used(spoil, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    np.save(elsewhere / FILE, np.zeros(9))
    assert load(spoil(lambda text: text.update(dump_data_dir=str(elsewhere)))).shape == (2, 3)


def test_a_link_out_of_the_folder_is_not_followed(dump, tmp_path):
    np.save(tmp_path / "secret.npy", np.zeros(1))
    path = dump / "dump_tensor_data" / FILE
    path.unlink()
    path.symlink_to(tmp_path / "secret.npy")
    assert "is outside dump_tensor_data; it is not opened" in refused(dump)


def test_a_link_within_the_folder_is_followed(dump):
    path = dump / "dump_tensor_data" / FILE
    path.rename(path.with_name("stored-once.npy"))
    path.symlink_to("stored-once.npy")
    assert load(dump).shape == (2, 3)


def test_tensors_on_another_disk_are_read(dump, tmp_path):
    (dump / "dump_tensor_data").rename(tmp_path / "large-disk")
    (dump / "dump_tensor_data").symlink_to(tmp_path / "large-disk")
    assert load(dump).shape == (2, 3)


def test_a_folder_in_the_place_of_a_tensor(dump):
    path = dump / "dump_tensor_data" / FILE
    path.unlink()
    path.mkdir()
    refused(dump)


class Bomb:
    """Says so when a pickle of it is opened."""

    def __reduce__(self):
        return (os.mkdir, ("opened",))


@pytest.mark.parametrize("protocol", [0, 4])
def test_a_pickle_is_not_opened(dump, tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    (dump / "dump_tensor_data" / FILE).write_bytes(pickle.dumps(Bomb(), protocol))
    assert "not a readable npy file" in refused(dump)
    assert not (tmp_path / "opened").exists()


def test_an_array_of_objects_is_not_opened(dump, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save(dump / "dump_tensor_data" / FILE, np.array([Bomb()], dtype=object), allow_pickle=True)
    assert "not numbers" in refused(dump)
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("dtype", ["U4", "S4", "V4", "M8[s]", "f4,i4"])
def test_an_array_of_no_numbers_is_not_opened(dump, dtype):
    np.save(dump / "dump_tensor_data" / FILE, np.zeros(2, dtype))
    assert "not numbers" in refused(dump)


@pytest.mark.parametrize("protocol", [0, 4])
def test_a_pickle_under_the_name_of_a_tensor_of_torch_is_not_opened(spoil, tmp_path, monkeypatch, protocol):
    def change(text):
        text["data"][NAME]["input_args"][0]["data_name"] = "x.pt"

    monkeypatch.chdir(tmp_path)
    (spoil(change) / "dump_tensor_data" / "x.pt").write_bytes(pickle.dumps(Bomb(), protocol))
    assert "a plain pickle, which is not opened" in refused(spoil(change))
    assert not (tmp_path / "opened").exists()


def npy(header, body=b"", version=1):
    width = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(width, "little") + header + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x03\x00\x10\x00\x00\x00" + b" " * 16,
        b"\x93NUMPY\x09\x00",
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000000), }"),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -6), }", b"\0" * 24),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3), }", b"\0" * 24),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': 6, }", b"\0" * 24),
        npy(b"{'descr': '<f4', 'fortran_order': 7, 'shape': (6,), }", b"\0" * 24),
        npy(b"{'descr': '<z9', 'fortran_order': False, 'shape': (6,), }", b"\0" * 24),
        npy(b"{'descr': None, 'fortran_order': False, 'shape': (6,), }", b"\0" * 48),
        npy(b"{'shape': (6,), }", b"\0" * 24),
        npy(b"__import__('os').mkdir('opened')"),
        npy(b"[" * 9000),
        npy(b"(" * 60_000),
        npy(b" " * 100_000, version=2),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b",), }"),
        npy(b"\xff\xfe\x00"),
    ],
)
def test_a_header_that_lies(dump, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (dump / "dump_tensor_data" / FILE).write_bytes(content)
    refused(dump)
    assert not (tmp_path / "opened").exists()


def test_two_ranks_of_one_step(dump):
    (dump.parent / "rank1").mkdir()
    (dump.parent / "rank1" / "dump.json").write_text("{}")
    with pytest.raises(DumpError, match="contains 2 ranks; give one of rank0, rank1"):
        read(dump.parent)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "\ud800"])
def test_a_path_that_no_file_can_have(path):
    with pytest.raises(DumpError):
        read(path)


def test_a_link_that_points_at_itself(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DumpError):
        read(tmp_path / "loop")
