"""`store/journal.py`: the grammar of the journal, both ways."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.store.journal import TORN, call_line, header_line, missing_line, read_journal, run_line, stack_line

HEADER = header_line({"task": "statistics", "level": "mix"}, True)


def journal(tmp_path, *lines, verify=False):
    (tmp_path / "dump.journal").write_bytes(b"".join(lines))
    return read_journal(tmp_path / "dump.journal", verify)


def test_lines_are_as_the_format_page_says():
    assert header_line({"task": "tensor"}, False) == b'H\t{"task":"tensor"}\t{"extra_info":false}\n'
    assert stack_line(3, ["File a, line 1, in f, \n x"]) == b'S\t3\t["File a, line 1, in f, \\n x"]\n'
    assert call_line("F.0.forward", "Cell.a.A.forward.0", 3, '{"output":[]}') == (
        b'C\t"F.0.forward"\t"Cell.a.A.forward.0"\t3\t{"output":[]}\n'
    )
    assert call_line("F.0.forward", None, None, None) == b'C\t"F.0.forward"\t\t\t\n'
    assert missing_line("F", "output", "disk full") == b'M\t{"name":"F","part":"output","cause":"disk full"}\n'


def test_numbers_of_numpy_are_written_as_numbers():
    line = header_line({"a": np.float32(1.5), "b": np.int64(-3), "c": np.bool_(True)}, True)
    assert line == b'H\t{"a":1.5,"b":-3,"c":true}\t{"extra_info":true}\n'


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="a set cannot be written to a journal"):
        header_line({"a": {1}}, True)


def test_an_entry_stands_in_its_line_as_it_was_given():
    line = call_line("F", None, None, '{"a":[NaN,Infinity,-Infinity,1e-300]}')
    assert line == b'C\t"F"\t\t\t{"a":[NaN,Infinity,-Infinity,1e-300]}\n'


def test_a_journal_reads_back(tmp_path):
    read = journal(
        tmp_path,
        HEADER,
        stack_line(0, ["f"]),
        call_line("A", "P", 0, '{"input_args":[]}'),
        call_line("B", None, None, None),
        call_line("A", None, None, '{"output":[]}'),
        missing_line("A", "output.1", "too deep"),
    )
    assert read.header == {"task": "statistics", "level": "mix"}
    assert read.extra_info
    assert read.stacks == {0: '["f"]'}
    assert read.stack_of == {"A": 0}
    assert read.parents == {"A": "P", "B": None}
    assert read.entries == {"A": ['{"input_args":[]}', '{"output":[]}']}
    assert [json.loads(item)["part"] for item in read.missing] == ["output.1"]
    assert (read.malformed, read.cut) == (0, False)


def test_the_run_is_described_by_later_lines_too(tmp_path):
    header = header_line({"task": "tensor", "run": {"step": 3, "grafted": {"values": 0}}}, True)
    read = journal(tmp_path, header, run_line({"grafted": {"values": 7}}), call_line("A", None, None, None))
    assert read.header == {"task": "tensor", "run": {"step": 3, "grafted": {"values": 7}}}
    assert run_line({"a": [1, "ü"]}) == b'R\t{"a":[1,"\\u00fc"]}\n'
    assert (read.malformed, list(read.parents)) == (0, ["A"])


def test_the_first_cell_that_a_line_names_encloses_the_call(tmp_path):
    lines = [call_line("A", parent, None, None) for parent in (None, "P", "Q")]
    assert journal(tmp_path, HEADER, *lines).parents == {"A": "P"}


def test_a_last_line_without_end_is_left_out(tmp_path):
    whole = call_line("A", None, None, '{"output":[]}')
    for keep in range(1, len(whole)):
        read = journal(tmp_path, HEADER, call_line("B", None, None, None), whole[:keep])
        assert list(read.parents) == ["B"]
        assert (read.malformed, read.cut) == (0, True)


@pytest.mark.parametrize(
    "line",
    [
        call_line("A", "P", 12, '{"output":[1,{"a":"}"}]}'),
        call_line("A", None, None, None),
        call_line("A", "P", 12, None),
        stack_line(12, ["f"]),
        missing_line("A", "p", "c"),
    ],
)
def test_a_torn_line_is_never_taken_for_a_whole(tmp_path, line):
    after = call_line("B", None, None, '{"output":[]}')
    for keep in range(1, len(line)):
        read = journal(tmp_path, HEADER, line[:keep], TORN, after)
        assert list(read.parents) == ["B"]
        assert (read.stacks, read.missing) == ({}, [])
        assert read.malformed == 1


def test_a_damaged_entry_is_found_when_asked_for(tmp_path):
    lines = (HEADER, b'C\t"A"\t\t\t{"output":[}\n', b'C\t"B"\t\t\t{"output":[]}\n')
    assert journal(tmp_path, *lines).malformed == 0
    read = journal(tmp_path, *lines, verify=True)
    assert (list(read.parents), read.malformed) == (["B"], 1)


DEBUG = header_line({"task": "tensor", "level": "debug"}, True)


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("entry", ['{"k":null}', '{"type":"int","value":2}', "[1,[2]]", '"!"', "12", "null", "NaN"])
def test_what_a_user_saved_may_be_any_value(tmp_path, entry, verify):
    line = call_line("x.0.debug", None, None, entry)
    read = journal(tmp_path, DEBUG, line, verify=verify)
    assert (read.entries, read.malformed) == ({"x.0.debug": [entry]}, 0)
    called = journal(tmp_path, HEADER, line, verify=verify)
    assert called.malformed == (0 if entry[0] == "{" else 1)


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("entry", ["[1,[2]]", '"!"', "12"])
def test_a_torn_line_of_any_value_is_never_taken_for_a_whole(tmp_path, entry, verify):
    line = call_line("x.0.debug", None, None, entry)
    for keep in range(1, len(line)):
        read = journal(tmp_path, DEBUG, line[:keep], TORN, line.replace(b"x", b"y"), verify=verify)
        assert (list(read.entries), read.malformed) == (["y.0.debug"], 1)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"X\t1\n",
        b"C\t\n",
        b"C\tA\t\t\t\n",
        b"C\t5\t\t\t\n",
        b'C\t"A"\t\tx\t\n',
        b'C\t"A"\t\t\t[]\n',
        b'S\tx\t["f"]\n',
        b"S\t1\t{}\n",
        b"M\t[]\n",
        b"R\t[]\n",
        b'H\t{"task":"again"}\t{}\n',
        b"\xff\xfe\n",
        b"M\t" + b"[" * 100_000 + b"\n",
    ],
)
def test_a_line_that_says_nothing_is_counted(tmp_path, line):
    read = journal(tmp_path, HEADER, line, call_line("B", None, None, None))
    assert list(read.parents) == ["B"]
    assert read.malformed == 1
    assert read.header["task"] == "statistics"


@given(st.text(st.characters()), st.one_of(st.none(), st.text(st.characters())))
def test_every_text_can_be_a_name(tmp_path_factory, name, parent):
    folder = tmp_path_factory.mktemp("journal")
    line = call_line(name, parent, None, json.dumps({"output": [name]}))
    assert line.count(b"\n") == 1
    assert line.isascii()
    read = journal(folder, HEADER, line, verify=True)
    assert read.parents == {name: parent}
    assert json.loads(read.entries[name][0]) == {"output": [name]}
    assert read.malformed == 0
