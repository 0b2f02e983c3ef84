"""The page of two dumps: what stands in its chunks is what the table and the console of the same comparison say."""

import json
from pathlib import Path

import pytest
from pages import Page
from written_net import NAMES, SOURCE, forward, tensor, write_net

from msprobe.cli import main
from msprobe.compare.jobs import outcome
from msprobe.compare.units.calls import UnitCalls
from msprobe.compare.units.findings import Reach
from msprobe.report.file import against
from msprobe.store.reader import read

pytestmark = pytest.mark.part(2)

LETTER = {"pass": "p", "warning": "w", "error": "e", "unjudged": "u"}


@pytest.fixture
def compared(tmp_path, capsys):
    """The page and the JSON table of one comparison, its lines, and its exit code."""
    source = tmp_path / "net.py"
    source.write_text(SOURCE)
    target = write_net(tmp_path / "target", relu=3.75, source=str(source))
    golden = write_net(tmp_path / "golden", source=str(source))
    code = main(["compare", str(target), str(golden), "-o", str(tmp_path / "out"), "--format", "json", "--html"])
    (page,) = (tmp_path / "out").glob("compare_report_*.html")
    (table,) = (tmp_path / "out").rglob("compare_result_*.json")
    return Page(page), json.loads(table.read_text()), capsys.readouterr().out.splitlines(), code


def test_the_answer_is_that_of_the_console(compared, tmp_path):
    page, table, lines, code = compared
    answer = page.head["answer"]
    assert (code, answer["state"]) == (1, "differs")
    assert answer["line"] == lines[-1]
    assert page.head["kind"] == "compare"
    assert page.head["counts"] == table["counts"]
    first, named = answer["first"], table["first_wrong"][0]
    assert (first["place"]["name"], first["kind"]) == (NAMES[2], "computes differently")
    assert (first["reason"], first["place"]["cell"]) == (named["reason"], named["cell"])
    assert [first["place"][key] for key in ("unit", "call", "step", "rank")] == [0, 2, 0, 0]
    assert first["reaches_loss"] is True
    assert [one["place"]["name"] for one in answer.get("next", [])] == [one["name"] for one in table["next_beginnings"]]
    # Line 7 of the source, with three lines before it; it is the last one.
    assert first["place"]["source"] == {
        "file": str(tmp_path / "net.py"),
        "line": 7,
        "first": 4,
        "lines": SOURCE.splitlines()[3:7],
    }
    assert any(line.startswith("output.0: ") for line in first["evidence"])
    assert any("msprobe diagnose" in advice.get("command", "") for advice in answer["advice"])


def test_calls_stand_as_they_were_nested(compared):
    held, layout, state, _ = compared[0].unit()
    assert layout["names"] == NAMES
    # The gradients of parameters are inside the cell's backward; the top is -1.
    assert layout["parents"] == [1, -1, -1, -1, -1, -1, 7, -1, 7]
    assert layout["kinds"] == "amaaaaamg"
    assert layout["directions"] == "ffffbbbbb"
    assert layout["classes"] == ["", "Dense", "", "", "", "", "", "Dense", "Dense"]
    assert "micro" not in layout
    assert "golden" not in layout
    assert (held["step"], held["rank"], held["first"]) == (0, 0, 2)
    assert len(state["verdicts"]) == len(NAMES)


def test_verdicts_are_the_worst_of_each_call_in_the_table(compared):
    page, table, _, _ = compared
    _, layout, state, _ = page.unit()
    worst = {}
    for row in table["rows"]:
        call = next(name for name in sorted(layout["names"], key=len, reverse=True) if row["NPU Name"].startswith(name))
        worst[call] = max(worst.get(call, "p"), LETTER[row["Verdict"]], key="puwe".index)
    assert state["verdicts"] == "".join(worst[name] for name in layout["names"])
    assert state["verdicts"][2] == "e"


def test_the_distance_from_the_tolerance_is_by_its_formula(compared):
    _, _, state, _ = compared[0].unit()
    # relu: 3.75 for 3.0. Of float32 1e-5 + 1.3e-6 * 3 is allowed; the norm, 5.625 for 4.5, may be off by
    # 1e-5 * sqrt(4) + 1.3e-6 * 4.5, and the mean, 1.875 for 1.5, by 1e-5 + 1.3e-6 * 4.5 / 2.
    shares = [0.75 / (1e-5 + 3 * 1.3e-6), 1.125 / (2e-5 + 4.5 * 1.3e-6), 0.375 / (1e-5 + 2.25 * 1.3e-6)]
    assert state["excess"][2] == pytest.approx(max(shares), rel=5e-3)
    assert state["errors"][2] == pytest.approx(0.25, rel=5e-3)
    assert state["excess"][0] == 0
    assert state["errors"][0] == 0


def test_links_are_the_dataflow(compared):
    _, _, state, _ = compared[0].unit()
    links = {tuple(link) for link in state["links"]}
    assert (2, "input.0", 0, "output.0") in links
    assert (3, "input.0", 2, "output.0") in links
    # Backwards: what the mean passes on goes to the relu's backward, that to the linear's.
    assert (5, "input.0", 4, "output.0") in links
    assert (6, "input.0", 5, "output.0") in links
    assert not any(call == 0 for call, *_ in links), "a leaf and a parameter come from no call"


def test_records_are_the_rows_of_the_table(compared):
    page, table, _, _ = compared
    held, _, _, calls = page.unit()
    assert sorted(calls) == list(range(len(NAMES)))
    assert page.head["calls"] == page.head["detailed"] == len(NAMES)
    records = [record for number in sorted(calls) for record in calls[number]["records"]]
    assert len(records) == len(table["rows"])
    for record, row in zip(records, table["rows"], strict=True):
        # Rows of gradients of parameters are named after the call and the parameter alone.
        assert row["NPU Name"].endswith(record["place"].removeprefix("parameters_grad."))
        assert record["verdict"] == LETTER[row["Verdict"]]
        assert " ".join(record.get("reasons", [])) == row["Reason"]
        for side, name in (("target", "NPU"), ("golden", "Bench")):
            if row["NPU Tensor Shape"] == "[]" and "value" in record[side]:
                assert record[side]["value"] == "0"
                continue
            for statistic, heading in (("max", "max"), ("min", "min"), ("mean", "mean"), ("norm", "l2norm")):
                assert record[side]["statistics"][statistic] == pytest.approx(row[f"{name} {heading}"], rel=1e-8)
            assert record[side]["dtype"] == row[f"{name} Dtype"]
            assert str(record[side]["shape"]) == row[f"{name} Tensor Shape"]
        for title in ("Max diff", "Min diff", "Mean diff", "L2norm diff", "MaxRelativeErr", "Matched by"):
            assert record["measures"][title] == row[title]
        assert record["measures"].get("Begins", "") == row["Begins"]
    relu = calls[2]["records"][1]
    assert relu["limits"] == "1.3e-06*|golden| + 1e-05*min(1, max|golden|)"
    assert calls[2]["stack"][0].endswith("return ms.mint.relu(h)")
    assert "golden_stack" not in calls[2], "it is the same on both sides"
    assert held["counts"] == table["counts"]


def test_a_call_of_one_side_is_unmatched(tmp_path, capsys):
    more = {"Mint.exp.0.forward": {"input_args": [], "input_kwargs": {}, "output": []}}
    target = write_net(tmp_path / "t", extra=more)
    golden = write_net(tmp_path / "g")
    assert main(["report", str(target), str(golden), "-o", str(tmp_path / "page.html")]) == 1
    page = Page(tmp_path / "page.html")
    _, layout, state, _ = page.unit()
    assert layout["names"][-1] == "Mint.exp.0.forward"
    assert state["verdicts"][-1] == "n"
    assert page.head["answer"]["line"] == capsys.readouterr().out.splitlines()[-1]


def test_a_call_of_one_side_says_what_it_holds(tmp_path):
    more = {"Mint.mul.0.forward": forward([tensor(2.0), {"type": "float", "value": 0.25}], [tensor(0.5)])}
    target, golden = write_net(tmp_path / "t"), write_net(tmp_path / "g", extra=more)
    assert main(["report", str(target), str(golden), "-o", str(tmp_path / "page.html")]) == 1
    first = Page(tmp_path / "page.html").head["answer"]["first"]
    assert (first["place"]["name"], first["kind"]) == ("Mint.mul.0.forward", "structure differs")
    assert first["evidence"] == [
        "input.0 of the golden: Float32 [4], norm 3",
        "input.1 of the golden: 0.25",
        "output.0 of the golden: Float32 [4], norm 0.75",
    ]


def test_a_call_of_the_golden_alone_has_its_dataflow_and_marks(tmp_path):
    """The golden's last relu takes what its division gives, which is infinite."""
    infinite = tensor(7.0, low=1.0) | {"Max": float("inf"), "Mean": float("inf"), "Norm": float("inf")}
    divided = forward([tensor(2.0)], [infinite])
    taken = forward([infinite | {"from": "call Mint.div.0.forward.output.0"}], [tensor(6.0)])
    target = write_net(tmp_path / "t")
    golden = write_net(tmp_path / "g", extra={"Mint.div.0.forward": divided, "Mint.relu.1.forward": taken})
    assert main(["report", str(target), str(golden), "-o", str(tmp_path / "page.html")]) == 1
    _, layout, state, _ = Page(tmp_path / "page.html").unit()
    maker, user = map(layout["names"].index, ("Mint.div.0.forward", "Mint.relu.1.forward"))
    assert [user, "input.0", maker, "output.0"] in state["links"]
    assert "overflow" not in state
    assert {at: letter for at, letter in enumerate(state["golden_overflow"]) if letter != "."} == {
        maker: "c",
        user: "m",
    }


def test_a_report_writes_nothing_but_its_page(tmp_path, monkeypatch):
    """The tables that `compare` writes are not even made."""
    monkeypatch.setattr(outcome, "_write_report", None)
    target, golden = write_net(tmp_path / "t", relu=3.75), write_net(tmp_path / "g")
    assert main(["report", str(target), str(golden), "-o", str(tmp_path / "out" / "page.html")]) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["page.html"]


def test_a_call_that_is_counted_otherwise_is_named_by_both_sides(tmp_path):
    """Without the first of two reductions, the target's number 0 is the golden's number 1."""

    def reduced(number, shape):
        return {f"Distributed.all_reduce.{number}.forward": forward([tensor(1.0, shape)], [tensor(2.0, shape)])}

    target = write_net(tmp_path / "t", extra=reduced(0, (8,)))
    golden = write_net(tmp_path / "g", extra=reduced(0, (4,)) | reduced(1, (8,)))
    assert main(["report", str(target), str(golden), "-o", str(tmp_path / "page.html")]) == 1
    assert Page(tmp_path / "page.html").head["answer"]["first"]["reason"] == (
        "only the golden makes this call; the target continues with Distributed.all_reduce.0.forward "
        "(the golden's Distributed.all_reduce.1.forward)"
    )


@pytest.mark.parametrize(
    ("target", "golden", "title"),
    [
        ("/a/bad", "/b/good", "bad against good"),
        ("/a/bad/run", "/a/good/run", "bad/run against good/run"),
        ("/a/run", "/a/run", "run against run"),
    ],
)
def test_the_title_tells_the_sides_apart(target, golden, title):
    assert str(against(Path(target), Path(golden))) == title


def test_of_a_collective_one_looks_at_its_group_and_no_kernel(tmp_path):
    def run(name, result):
        more = {"Distributed.all_reduce.0.forward": forward([tensor(1.0)], [tensor(result)])}
        return str(write_net(tmp_path / name, extra=more))

    assert main(["report", run("t", 3.0), run("g", 2.0), "-o", str(tmp_path / "page.html")]) == 1
    answer = Page(tmp_path / "page.html").head["answer"]
    assert (answer["first"]["place"]["name"], answer["first"]["kind"]) == (
        "Distributed.all_reduce.0.forward",
        "computes differently",
    )
    assert answer["advice"][0]["text"].startswith("look at the group and the operation of the collective")


def test_an_argument_is_said_with_its_place_once(tmp_path):
    target, golden = (write_net(tmp_path / name) for name in "tg")
    file = target / "step0" / "rank0" / "dump.json"
    file.write_text(file.read_text().replace('{"type": "int", "value": 0}', '{"type": "int", "value": 1}'))
    assert main(["report", str(target), str(golden), "-o", str(tmp_path / "page.html")]) == 1
    first = Page(tmp_path / "page.html").head["answer"]["first"]
    assert (first["place"]["name"], first["kind"]) == (NAMES[3], "argument differs")
    assert first["evidence"] == ["input.1 is 1, golden 0."]


def test_equal_dumps_are_clean(tmp_path, capsys):
    sides = [write_net(tmp_path / name) for name in "tg"]
    assert main(["report", *map(str, sides), "-o", str(tmp_path / "page.html")]) == 0
    answer = Page(tmp_path / "page.html").head["answer"]
    assert answer["state"] == "clean"
    assert "first" not in answer
    assert answer["line"] == capsys.readouterr().out.splitlines()[-1]
    assert not list(tmp_path.glob("output")), "a report writes the page alone"


def test_other_names_in_the_golden_are_told(tmp_path):
    target = write_net(tmp_path / "t")
    golden = write_net(tmp_path / "g", rename=lambda name: name.replace("linear.0", "linear.7"))
    main(["report", str(target), str(golden), "-o", str(tmp_path / "page.html")])
    _, layout, _, _ = Page(tmp_path / "page.html").unit()
    assert layout["golden"][0] == "Mint.linear.7.forward"
    assert layout["golden"][2] == ""


@pytest.mark.parametrize(
    ("sides", "mode"),
    [
        (("8.1.1/dumps/ms_mix_stat", "8.1.1/dumps/ms_mix_tensor"), "statistics"),
        (("8.1.1/dumps/ms_mix_md5", "8.1.1/dumps/msp_mix_md5"), "digest"),
        (("twins/lstm_ms_bias_doubled", "twins/lstm_ms"), "statistics"),
        (("twins/lstm_ms", "twins/lstm_pt"), "statistics"),
        (("8.1.1/dumps/ms_mix_tensor", "8.1.1/dumps/msp_mix_tensor"), "tensor"),
        (("kernel_dump/cpu", "kernel_dump/cpu"), None),
    ],
    ids=lambda value: str(value[0] if isinstance(value, tuple) else value),
)
def test_samples_have_the_records_of_their_tables(samples, tmp_path, sides, mode, capsys):
    """Dumps of other tools and frameworks: as many records and verdicts as in the csv, and the same last line."""
    words = [str(samples / side) for side in sides]
    code = main(["compare", *words, "-o", str(tmp_path / "out"), "--format", "json", "--html"])
    line = capsys.readouterr().out.splitlines()[-1]
    (path,) = (tmp_path / "out").glob("compare_report_*.html")
    page = Page(path)
    tables = [json.loads(each.read_text()) for each in sorted((tmp_path / "out").rglob("*result*.json"))]
    rows = [row for table in tables for row in table["rows"]]
    assert page.head["answer"]["line"] == line
    assert (page.head["answer"]["state"] == "clean") is (code == 0)
    records = [
        record
        for number in range(len(page.head["units"]))
        for _, call in sorted(page.unit(number)[3].items())
        for record in call.get("records", [])
    ]
    assert page.head["detailed"] == page.head["calls"]
    assert len(records) == len(rows)
    assert all(
        record["verdict"] in {"pass": "p", "warning": "w", "error": "e", "unjudged": "uhn"}[row["Verdict"]]
        for record, row in zip(records, rows, strict=True)
    )
    for record, row in zip(records, rows, strict=True):
        measured = record.get("measures", {})
        assert measured == {title: row[title] for title in measured}
        shown = {title for title in ("Matched by", "Cosine", "Max diff", "Result") if row.get(title, "") != ""}
        assert shown <= set(measured), "what the table has is there"
    if mode is not None:
        assert tables[0]["mode"] == mode


def test_whether_a_difference_reaches_the_loss(tmp_path):
    calls = UnitCalls.of_dump(read(write_net(tmp_path / "net") / "step0" / "rank0"), "dump")
    links = [(2, "input.0", 0, "output.0"), (3, "input.0", 2, "output.0"), (5, "input.0", 4, "output.0")]
    linear, cell, relu, mean = 0, 1, 2, 3
    assert Reach(calls, links, frozenset([linear, relu, mean])).loss(linear) is True
    assert Reach(calls, links, frozenset([linear, relu, mean])).loss(cell) is True, "by the call inside it"
    assert Reach(calls, links, frozenset([linear, relu])).loss(linear) is False, "the loss agrees"
    assert Reach(calls, links, frozenset([linear, mean])).loss(linear) is None, "it differs, and the way is not known"
    assert Reach(calls, links, frozenset([mean, 5])).loss(5) is None, "a backward call comes behind the loss"
