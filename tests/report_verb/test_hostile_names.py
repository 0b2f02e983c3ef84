"""Names that a page or a terminal would run, lone surrogates, and values of any kind: all of it is data."""

import json
import re

import pytest
from pages import ELEMENT, Page
from written_net import NAMES, forward, tensor, write_net

from msprobe.base.names import parse
from msprobe.cli import main
from msprobe.compare.units.layout import micro_steps
from msprobe.report.embed import encoded, packed, plain, unpacked

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- msprobe report data -->",
    "\"quotes\" 'and' `ticks` & entities &lt;",
    "\u202egnp.exe\u202c \u2066bidi\u2069",
    "\x00\x1b[31m\x07 control",
    "\u2028 \u2029 \ufeff",
    "=cmd|'/c calc'!A1",
    "\U0001f600 \u5f20\u91cf",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_survives_the_round_trip_and_runs_nothing(name, tmp_path):
    call = f"Mint.{name}.0.forward"
    more = {call: forward([tensor(1.0), {"type": "str", "value": name}], [tensor(2.0)])}
    target = write_net(tmp_path / "t", extra=more, source=f"{name}.py")
    golden = write_net(tmp_path / "g")
    main(["report", str(target), str(golden), "-o", str(tmp_path / "page.html")])
    page = Page(tmp_path / "page.html")
    _, layout, _, calls = page.unit()
    assert layout["names"][-1] == call
    assert calls[len(NAMES)]["records"][1]["target"]["value"] == repr(name)
    assert calls[0]["stack"][0].startswith(f"File {name}.py, line 6")
    # Outside of the elements with data, which are base64, nothing of it stands in the page.
    rest = ELEMENT.sub(b"", page.raw).decode()
    assert "alert(1)" not in rest


def test_a_chunk_is_ascii_without_what_ends_an_element():
    names = [*HOSTILE, "\ud800 lone \udfff"]  # the reader of dumps has no such names; a value may still be one
    chunk = encoded(names)
    assert re.fullmatch(rb"[A-Za-z0-9+/=]+", chunk)
    assert unpacked(chunk) == names


def test_numbers_that_are_not_finite_are_texts():
    assert plain([1.5, float("nan"), float("inf"), -float("inf"), None, True]) == [
        1.5, "NaN", "Infinity", "-Infinity", None, True,
    ]  # fmt: skip
    assert json.loads(json.dumps(unpacked(packed(b'{"a": [1, "NaN"]}')))) == {"a": [1, "NaN"]}


def test_values_of_records_are_told_with_their_digits(tmp_path):
    odd = tensor(float("nan"), low=float("-inf"), mean=float("inf"), norm=1.0)
    exact = tensor(0.1234567890123, norm=1 / 3) | {"dtype": "Float64"}
    values = [{"type": "int", "value": 1 << 60}, {"type": "float", "value": 0.1}, None, {"type": "bool", "value": True}]
    more = {"Mint.odd.0.forward": forward([odd, exact, *values], [])}
    path = write_net(tmp_path / "t", extra=more)
    assert main(["report", str(path), "-o", str(tmp_path / "page.html"), "--as", "dump"]) == 0
    found = [record["target"] for record in Page(tmp_path / "page.html").unit()[3][len(NAMES)]["records"]]
    assert found[0]["statistics"] == {"max": "NaN", "min": "-Infinity", "mean": "Infinity", "norm": 1.0}
    exact = found[1]["statistics"]
    assert (exact["max"], exact["norm"]) == (0.1234567890123, 1 / 3), "of float64 every digit"
    assert [each["value"] for each in found[2:]] == [str(1 << 60), "0.1", "None", "True"]
    assert found[5]["dtype"] == "bool"


def test_micro_steps_begin_with_a_forward_module_behind_a_backward_one():
    names = ["Cell.a.A.forward.0", "Mint.x.0.forward", "Cell.a.A.backward.0", "Mint.y.0.forward", "Cell.a.A.forward.1"]
    names += ["Mint.z.0.forward", "Cell.a.A.backward.1", "Cell.b.B.backward.0"]
    parents = [-1, 0, -1, -1, -1, 4, -1, 6]
    kinds = "mamamamm"
    assert micro_steps([parse(name) for name in names], parents, kinds) == (0, 0, 0, 0, 1, 1, 1, 1)
    assert micro_steps([parse(name) for name in names[:4]], parents[:4], kinds[:4]) == ()
