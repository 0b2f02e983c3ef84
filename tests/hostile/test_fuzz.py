"""Whatever a dump.json holds, `read` gives a Dump as `store/record.py` describes it, or a DumpError."""

import json
from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import DumpError
from msprobe.doctor import examine_folder
from msprobe.store.journal import call_line, header_line, missing_line, stack_line
from msprobe.store.reader import load_tensor, read
from msprobe.store.record import Call, Dump, Gradient, Part, Record, Statistics

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["mindspore.Tensor", "forward", "0", "../x.npy", "x.npy", "accumulated", "structure", "L1", "\ud800"]
    ),
)
KEYS = [
    "type", "dtype", "shape", "Max", "Min", "Mean", "Norm", "md5", "data_name", "value", "gradient", "from", "missing",
    "is_recompute", "input_args", "input_kwargs", "input", "output", "parameters", "tensor_stat_index", "group_ranks",
    "task", "level", "framework", "format_version", "run", "data", "rebuilt", "lost_lines", "name", "part", "cause",
    "0", "F.0.forward", "Cell.a.A.forward.0", "Cell.a.A.parameters_grad", "v.0.debug", "step", "rank",
]  # fmt: skip
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def is_number(value):
    return value is None or type(value) in (int, float, bool)


def check(dump):
    """The types that every consumer relies on."""
    assert type(dump) is Dump
    assert all(
        type(text) is str for text in (dump.where, dump.folder, dump.task, dump.level, dump.framework, dump.unfinished)
    )
    assert all(type(text) is str for text in dump.missing)
    assert all(index is None or type(index) is int for index in (dump.step, dump.rank))
    assert all(type(name) is str and (parent is None or type(parent) is str) for name, parent in dump.construct.items())
    for call in dump.calls:
        assert type(call) is Call
        assert type(call.name) is str
        assert call.parent is None or type(call.parent) is str
        assert all(type(text) is str for text in (*call.stack, *call.missing))
        assert type(call.is_recompute) is bool
        for record in call.records:
            check_record(record)
            record.name.encode("utf-8")
            if record.file:
                with pytest.raises(DumpError):
                    load_tensor(dump, record)


def check_record(record):
    assert type(record) is Record
    assert record.part in get_args(Part)
    assert record.kind in ("tensor", "value", "null")
    assert record.gradient in get_args(Gradient)
    texts = (record.name, record.type, record.dtype, record.digest, record.file, record.source, *record.path)
    assert all(type(text) is str for text in texts)
    assert record.shape is None or all(type(n) is int and n >= 0 for n in record.shape)
    if record.statistics is not None:
        assert type(record.statistics) is Statistics
        numbers = (record.statistics.max, record.statistics.min, record.statistics.mean, record.statistics.norm)
        assert all(is_number(number) for number in numbers)
        assert all(float(number) is not None for number in numbers if number is not None)


def try_to_read(folder):
    with suppress(DumpError):
        check(read(folder, structure=True))


def places(node, path=()):
    """The paths to every node of a tree."""
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def put(node, path, value):
    if not path:
        return value
    node[path[0]] = put(node[path[0]], path[1:], value)
    return node


@given(data=st.data(), what=st.sampled_from(["dump.json", "construct.json", "stack.json"]))
def test_any_value_in_any_place(dump, data, what):
    whole = (dump / what).read_text()
    try:
        text = json.loads(whole)
        for _ in range(data.draw(st.integers(1, 3))):
            text = put(text, data.draw(st.sampled_from(sorted(places(text), key=str))), data.draw(trees))
        (dump / what).write_text(json.dumps(text))
        (dump / "dump_tensor_data").rename(dump / "away")
        try_to_read(dump)
    finally:
        (dump / what).write_text(whole)
        (dump / "away").rename(dump / "dump_tensor_data")


@given(trees, trees, trees)
def test_any_json(dump, text, construct, stack):
    for name, tree in (("dump.json", text), ("construct.json", construct), ("stack.json", stack)):
        (dump / name).write_text(json.dumps(tree))
    for file in (dump / "dump_tensor_data").glob("*"):
        file.unlink()
    try_to_read(dump)


@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=5
    )
)
def test_any_bytes_in_any_place(dump, changes):
    whole = (dump / "dump.json").read_bytes()
    spoiled = bytearray(whole)
    for place, new, removed in changes:
        at = int(place * len(spoiled))
        spoiled[at : at + removed] = new
    (dump / "dump.json").write_bytes(spoiled)
    with suppress(DumpError):
        read(dump, structure=True)
    (dump / "dump.json").write_bytes(whole)


@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=3)), min_size=1, max_size=4)
)
def test_any_bytes_in_a_tensor(dump, changes):
    path = next((dump / "dump_tensor_data").iterdir())
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    for place, new in changes:
        at = int(place * len(spoiled))
        spoiled[at : at + len(new)] = new
    path.write_bytes(spoiled)
    read_dump = read(dump)
    with suppress(DumpError):
        load_tensor(read_dump, read_dump.calls[0].records[0])
    path.write_bytes(whole)


LINES = [
    header_line({"task": "statistics", "level": "mix"}, True),
    stack_line(0, ["f"]),
    call_line("F.0.forward", "Cell.a.A.forward.0", 0, json.dumps({"input_args": [{"type": "int", "value": 1}]})),
    call_line("F.0.forward", None, None, '{"output":[null]}'),
    call_line("F.0.backward", "Cell.a.A.backward.0", None, '{"output":[]}'),
    missing_line("F.0.forward", "output.1", "cause"),
]


@given(
    st.permutations(LINES),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=4), st.integers(0, 9)), max_size=4),
)
def test_any_bytes_in_a_journal(dump, lines, changes):
    for file in dump.glob("*.json"):
        file.unlink()
    spoiled = bytearray(b"".join(lines))
    for place, new, removed in changes:
        at = int(place * len(spoiled))
        spoiled[at : at + removed] = new
    (dump / "dump.journal").write_bytes(spoiled)
    finding = examine_folder(dump)
    assert finding.done in ("rebuilt", "not rebuilt", "unreadable", "empty")
    assert (dump / "dump.journal").exists() == (finding.done in ("not rebuilt", "unreadable"))
    if finding.done == "rebuilt":
        check(read(dump))
