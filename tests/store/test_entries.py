"""`store/reader.py`: a dump.json is read in pieces, and gives what the parsed whole would give."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import DumpError
from msprobe.store import reader
from msprobe.store.reader import NotPlainError, json_object, read, stream

# Surrogates too: a text may have half a character.
keys = st.text(max_size=4) | st.sampled_from(["data", "F.0.forward", "\ud83d\ude00", "\udc00", '"', "\\", "{", ","])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=8), keys)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
layouts = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, "\t", " \r\n"]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", "\t:\n")]),
        "ensure_ascii": st.booleans(),
    }
)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "dump.json"


def streamed(file):
    taken = []
    others = stream(file, lambda name, entry: taken.append((name, entry)))
    return others, taken


@pytest.fixture(params=[1, 7, 64, reader._PIECE])
def piece(request, monkeypatch):
    """So many bytes are read at once."""
    monkeypatch.setattr(reader, "_PIECE", request.param)


@given(before=st.dictionaries(keys, trees, max_size=3), data=st.dictionaries(keys, trees, max_size=4),
       after=st.dictionaries(keys, trees, max_size=3), layout=layouts, mark=st.booleans())  # fmt: skip
def test_pieces_give_what_the_whole_gives(file, piece, before, data, after, layout, mark):
    members = {key: value for key, value in {**before, "": 0, **after}.items() if key != "data"}
    members = {key: members[key] for key in before if key != "data"} | {"data": data} | members
    text = json.dumps(members, **layout)
    file.write_bytes(
        b"\xef\xbb\xbf" * mark + text.encode("utf-8", "replace" if not layout["ensure_ascii"] else "strict")
    )
    whole = json_object(file)
    others, taken = streamed(file)
    # By their texts: a NaN is equal to no other.
    assert repr(dict(taken)) == repr(whole.pop("data"))
    assert repr(others) == repr(whole)


changes = st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=3), st.integers(0, 3))


@given(changes=st.lists(changes, min_size=1, max_size=3))
def test_a_broken_file_is_never_taken_for_another(file, piece, changes):
    text = bytearray(
        json.dumps({"a": 1.5, "data": {"F": {"x": [1, -0.25e-7, "t\u00e9"]}, "G": None}, "b": [True]}).encode()
    )
    for place, new, removed in changes:
        at = int(place * len(text))
        text[at : at + removed] = new
    file.write_bytes(text)
    try:
        others, taken = streamed(file)
    except NotPlainError:
        return
    whole = json.loads(text.decode("utf-8-sig"))
    if len(dict(taken)) == len(taken):
        assert repr({**others, "data": dict(taken)}) == repr({**others, **whole})
        assert others.keys() | {"data"} == whole.keys()


@pytest.mark.parametrize(
    "number", ["1", "-1", "1.5", "-0.0", "1e5", "1E+5", "2.5e-300", "123456789012345678901", "NaN", "-Infinity"]
)
def test_a_number_that_is_cut_by_a_piece_is_one_number(file, monkeypatch, number):
    monkeypatch.setattr(reader, "_PIECE", 1)
    file.write_text(f'{{"x":{number},"data":{{"F":{number}, "G" : {number}\n}}}}')
    others, taken = streamed(file)
    whole = json.loads(number)
    assert repr((others, taken)) == repr(({"x": whole}, [("F", whole), ("G", whole)]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "[]",
        "5",
        "{}",
        '{"task": "tensor"}',
        '{"data": []}',
        '{"data": {}} {}',
        '{"data": {}',
        '{"data": {"F": 1}, }',
        '{"data": {"F": 1,}}',
        '{"data": {"F" 1}}',
        '{"data": {"F": 01}}',
        '{"data": {"F": 1.}}',
        '{"data": {F: 1}}',
        '{"data": {5: 1}}',
        '{"data": {"F": "\n"}}',
        '{"data": {}, "data": {}}',
        '{"data": {"F": ' + "9" * 5000 + "}}",
        '{"data": {"F": ' + "[" * 100_000 + "}}",
    ],
)
def test_what_is_not_plain_is_left_to_the_reader_of_the_whole(file, piece, text):
    file.write_text(text)
    with pytest.raises(NotPlainError):
        streamed(file)


@pytest.mark.parametrize("content", [b'{"data": {"\xff": 1}}', '{"data": {}}'.encode("utf-16"), b'{"data": {}}\xc3'])
def test_what_is_no_utf_8_is_left_to_the_reader_of_the_whole(file, piece, content):
    file.write_bytes(content)
    with pytest.raises(NotPlainError):
        streamed(file)


def test_a_file_that_is_not_there_is_left_to_the_reader_of_the_whole(file):
    with pytest.raises(NotPlainError):
        streamed(file)


LEAF = {"type": "int", "value": 1}


def plain(**more):
    return {"task": "statistics", "data": {f"F.{at}.forward": {"output": [LEAF]} for at in range(9)}, **more}


@pytest.mark.parametrize("first", ["data", "task"])
def test_a_plain_dump_is_read_in_pieces_wherever_its_data_stands(file, monkeypatch, first):
    text = plain()
    file.write_text(json.dumps({first: text[first], **text}))
    monkeypatch.setattr(reader, "json_object", lambda file: pytest.fail("the whole was parsed"))
    assert [call.name for call in read(file).calls] == [f"F.{at}.forward" for at in range(9)]


def test_of_two_entries_with_one_name_the_last_counts_at_the_place_of_the_first(file):
    text = json.dumps(plain())
    file.write_text(text.replace("F.7.forward", "F.2.forward").replace("F.8.forward", "F.0.forward"))
    calls = read(file).calls
    assert [call.name for call in calls] == [f"F.{at}.forward" for at in range(7)]
    file.write_text('{"data": {"F": {"output": [1]}, "G": {}, "F": {"output": [2, 3]}}}')
    assert [[record.value for record in call.records] for call in read(file).calls] == [[2, 3], []]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"data": {"F": 5}, "x": }', "is broken at line 1, column 25"),
        ('{"data": {"F": 5}, "format_version": 2}', "has format 2"),
        ('{"data": {"F": 5}, "task": "structure"}', "task `structure`"),
        ('{"data": {"F": 5}}', "F: its entry is no object"),
    ],
)
def test_a_mistake_of_the_file_is_told_before_one_of_an_entry(file, text, message):
    file.write_text(text)
    with pytest.raises(DumpError, match=message):
        read(file)


def test_memory_does_not_grow_with_the_file(file, monkeypatch):
    monkeypatch.setattr(reader, "_PIECE", 1 << 14)
    entry = json.dumps({"output": [{"type": "T", "Max": 1.0, "shape": [2]}] * 10})
    with file.open("w") as out:
        out.write('{"data": {"first": {}')
        out.writelines(f', "F.{at}.forward": {entry}' for at in range(4000))
        out.write("}}")
    count = 0

    def take(name, entry):
        nonlocal count
        count += len(entry.get("output", ()))

    tracemalloc.start()
    try:
        stream(file, take)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 40_000
    assert file.stat().st_size > 1_500_000
    assert peak < 200_000
