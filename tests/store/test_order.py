"""The order of calls whose lines came in another one: `O` lines of the journal, and `Writer.order`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import UsageError
from msprobe.store.journal import call_line, header_line, order_line, read_journal
from msprobe.store.writer import Writer

HEADER = {"task": "statistics", "level": "L0", "framework": "mindspore"}
CALLS = ("Cell.a.A.forward.0", "Cell.b.B.forward.0", "Cell.b.B.backward.0", "Cell.a.A.backward.0")


def dumped(folder, lines):
    """The names in dump.json and in construct.json after lines: a call's name, or a list that is an order."""
    writer = Writer(folder, HEADER)
    for line in lines:
        if isinstance(line, str):
            writer.call(line, None, None, '{"output":[]}')
        else:
            writer.order(line)
    writer.close()
    construct = json.loads((folder / "construct.json").read_text())
    return list(json.loads((folder / "dump.json").read_text())["data"]), list(construct)


def test_a_line_is_as_the_format_page_says(tmp_path):
    assert order_line(["A", 'B"\u00e9']) == b'O\t["A","B\\"\\u00e9"]\n'
    (tmp_path / "dump.journal").write_bytes(header_line(HEADER, True) + order_line(["A", "B"]) + order_line([]))
    assert read_journal(tmp_path / "dump.journal").orders == [["A", "B"], []]


@pytest.mark.parametrize("line", [b'O\t{"A":1}\n', b'O\t["A",1]\n', b"O\t[\n", b"O\n", b'O\t["A"]\t1\n'])
def test_what_is_no_list_of_names_is_skipped_and_counted(line, tmp_path):
    (tmp_path / "dump.journal").write_bytes(header_line(HEADER, True) + line + call_line("A", None, None, None))
    read = read_journal(tmp_path / "dump.journal")
    assert (read.orders, read.malformed, list(read.parents)) == ([], 1, ["A"])


def test_named_calls_take_their_places_in_the_order_that_is_given(tmp_path):
    """Calls that are not named keep theirs; names that no call has are passed over."""
    came = [
        "Cell.b.B.backward.0",
        "Cell.a.A.forward.0",
        "Cell.x.X.forward.0",
        "Cell.a.A.backward.0",
        "Cell.b.B.forward.0",
    ]
    expected = [*CALLS[:2], "Cell.x.X.forward.0", *CALLS[2:]]
    assert dumped(tmp_path / "d", [*came, [CALLS[0], "Cell.never.N.forward.0", *CALLS[1:]]]) == (expected, expected)


def test_a_later_order_goes_on_from_an_earlier_one(tmp_path):
    assert dumped(tmp_path / "d", ["C", "B", "A", ["A", "B"], ["C", "A"]])[0] == ["C", "A", "B"]


def test_a_name_given_twice_counts_once(tmp_path):
    assert dumped(tmp_path / "d", ["B", "A", ["A", "B", "A"]])[0] == ["A", "B"]


@given(st.permutations([f"Cell.c.C.forward.{n}" for n in range(6)]), st.data())
def test_every_order_of_some_leaves_the_others_in_their_places(tmp_path_factory, came, data):
    some = data.draw(st.permutations(data.draw(st.lists(st.sampled_from(came), unique=True))))
    (made, _) = dumped(tmp_path_factory.mktemp("o") / "d", [*came, some])
    assert [name for name in made if name in some] == some
    assert all(a == b for a, b in zip(came, made, strict=True) if a not in some)


def test_an_order_behind_the_end_is_refused(tmp_path):
    writer = Writer(tmp_path / "d", HEADER)
    writer.close()
    with pytest.raises(UsageError, match="the dump is closed"):
        writer.order(["A"])
