"""`--ignore`, `--atol` and `--rtol`: what they excuse, what they never excuse, and that all of it is counted."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from three_calls import printed

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.compare.core.reason import Cause, Why
from msprobe.compare.core.user_limits import Tolerance, UserLimits, matching
from msprobe.compare.entry import compare as compare_from_python
from msprobe.compare.entry import compare_distributed
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import Between, Dataflow
from msprobe.compare.locate.user_limits import with_user_limits
from msprobe.compare.measure.tensors import greatest_share
from msprobe.compare.request import CompareOptions
from msprobe.compare.run import compare
from msprobe.findings.catalogue import comparison as kinds
from msprobe.options.parser import parsed

DROP, SIN, TAN = "Functional.dropout.0.forward", "Mint.sin.0.forward", "Mint.tan.0.forward"


@pytest.fixture
def chain(builder, tensor, value):
    """`chain("target", drop=0.1)`: dropout in a cell, then sin and tan of its result; what is off by how much."""

    def make(side, *, drop=0.0, sin=0.0, tan=0.0, mode="statistics", folder=None, p=0.5, extra=False, dtype="Float32"):
        build = builder(side, mode=mode)
        if folder is not None:
            build.folder = build.folder.parent.parent / folder
        build.call(DROP, [tensor(1.0, "leaf")], [2.0 + drop], kwargs={"p": value(p)}, parent="Cell.drop.Drop.forward.0")
        build.call("Cell.drop.Drop.forward.0", [tensor(1.0, "leaf")], [tensor(2.0 + drop, f"call {DROP}.output.0")])
        build.call(SIN, [tensor(2.0 + drop, f"call {DROP}.output.0")], [tensor(3.0 + sin, dtype=dtype)])
        build.call(TAN, [tensor(3.0 + sin, f"call {SIN}.output.0", dtype)], [4.0 + tan])
        if extra:
            build.call("Mint.relu.0.forward", [tensor(1.0, "leaf")], [5.0])
        return build.write()

    return make


@pytest.fixture
def answer(tmp_path, capsys):
    """`answer(target, golden, *options)`: exit code, lines, and the table as JSON."""

    def make(target, golden, *options):
        out = tmp_path / "out"
        code = main(["compare", str(target), str(golden), "-o", str(out), "--format", "json", *options])
        tables = sorted(out.rglob("compare_result*.json"))
        table = json.loads(tables[-1].read_text()) if tables else {}
        return SimpleNamespace(code=code, lines=printed(capsys), table=table, out=out)

    return make


def reasons(table, place):
    return next(row["Reason"] for row in table["rows"] if row["NPU Name"] == place)


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_an_ignored_difference_is_no_finding_and_is_counted_in_the_answer(chain, answer, mode):
    found = answer(chain("t", tan=0.5, mode=mode), chain("g", mode=mode), "--ignore", "Mint.tan")
    assert found.code == 0
    assert found.lines[-1].startswith("no difference but what your limits excuse: ")
    assert found.lines[-1].endswith("; 1 pairs ignored, 0 passed by your tolerance")
    limits = "your limits: 1 pairs ignored, 0 passed by your tolerance (--ignore Mint.tan)"
    assert any(limits in line for line in found.lines)
    assert reasons(found.table, f"{TAN}.output.0") == "Ignored by --ignore Mint.tan."
    own = found.table["user_limits"]
    assert (own["ignore"], own["ignored"], own["tolerated"], own["unused"]) == (["Mint.tan"], 1, 0, [])
    causes = {row["cause"]: row["pairs"] for row in found.table["unjudged"]}
    assert causes["ignored"] == 1


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_a_difference_that_spreads_from_an_ignored_call_is_found_where_it_spreads(chain, answer, mode):
    target, golden = chain("t", drop=0.5, sin=0.5, tan=0.5, mode=mode), chain("g", mode=mode)
    assert answer(target, golden).table["first_wrong"][0]["name"] == DROP
    found = answer(target, golden, "--ignore", "Functional.dropout", "--ignore", "Cell.drop")
    first = found.table["first_wrong"][0]
    assert found.code == 1
    assert first["name"] == SIN
    assert first["evidence"]["dataflow"] == Dataflow.EXCUSED.value
    assert first["evidence"]["names"] == [DROP]


def test_the_finding_names_the_ignored_call_that_a_difference_comes_from(chain):
    from msprobe.store.reader import read

    dumps = [read(chain("t", drop=0.5, sin=0.5)), read(chain("g"))]
    found = with_user_limits(compare(*dumps), UserLimits(("*.dropout.*", "Cell.drop")))
    first = locate(found).first
    assert (first.name, first.kind) == (SIN, kinds.CODE)
    assert isinstance(first.evidence, Between)
    assert (first.evidence.dataflow, first.evidence.names) == (Dataflow.EXCUSED, (DROP,))


def test_the_name_of_a_cell_stands_for_the_calls_inside_it(chain, answer):
    found = answer(chain("t", drop=0.5), chain("g"), "--ignore", "Cell.drop", "--ignore", f"{SIN}.input.0")
    assert found.code == 0
    assert found.table["user_limits"]["ignored"] == 3  # the call, the cell, and the input


def test_a_name_of_one_record_leaves_the_others(chain, answer):
    found = answer(chain("t", tan=0.5, p=0.25), chain("g"), "--ignore", f"{TAN}.output.0")
    assert found.code == 1
    assert found.table["first_wrong"][0]["name"] == DROP
    assert found.table["user_limits"]["ignored"] == 1


def test_a_call_of_one_side_can_be_ignored_and_is_counted(chain, answer):
    target, golden = chain("t", extra=True), chain("g")
    assert answer(target, golden).code == 1
    found = answer(target, golden, "--ignore", "Mint.relu")
    assert found.code == 0
    assert found.table["user_limits"]["ignored_calls"] == 1
    assert found.lines[-1].endswith("1 ignored calls on one side only")


def test_where_everything_is_ignored_the_answer_has_the_number(chain, answer):
    found = answer(chain("t", drop=0.5, sin=0.5, tan=0.5, p=0.1), chain("g"), "--ignore", "*")
    assert found.table["counts"]["error"] == 0
    assert found.table["user_limits"]["ignored"] == 7  # an argument, four outputs, two inputs
    assert found.lines[-1] == (
        "no difference but what your limits excuse: 2 pairs judged, 7 unjudged; "
        "7 pairs ignored, 0 passed by your tolerance"
    )


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--atol", "0.011"], 0),
        (["--atol", "0.009"], 1),
        (["--rtol", "0.0026"], 0),  # 0.01 of values from 4 to 4.75
        (["--rtol", "0.002"], 1),
        (["--atol", "0.005", "--rtol", "0.0013"], 0),
        (["--atol", "Mint.tan=0.011"], 0),
        (["--atol", "Mint.sin=0.011"], 1),
        (["--atol", "0.011", "--atol", "Mint.tan=0.001"], 1),  # the last that matches counts
        (["--atol", "Mint.tan=0.001", "--atol", "0.011"], 0),
    ],
)
def test_a_tolerance_passes_what_is_within_it_and_nothing_else(chain, answer, mode, options, code):
    found = answer(chain("t", tan=0.01, mode=mode), chain("g", mode=mode), *options)
    assert found.code == code
    assert found.table["user_limits"]["tolerated"] == (code == 0)
    assert found.table["counts"]["error"] + found.table["counts"]["warning"] == code
    if not code:
        assert reasons(found.table, f"{TAN}.output.0").startswith("Within the user's limit ")
        assert found.lines[-1].endswith("; 0 pairs ignored, 1 passed by your tolerance")


def test_a_tolerance_passes_no_argument_no_dtype_and_no_shape(chain, answer, builder):
    found = answer(chain("t", p=0.25, mode="tensor"), chain("g", mode="tensor"), "--atol", "100", "--rtol", "100")
    assert found.code == 1
    assert found.table["first_wrong"][0]["name"] == DROP
    other = answer(chain("t2", mode="tensor", dtype="Float16"), chain("g2", mode="tensor"), "--atol", "100")
    assert other.code == 1
    assert other.table["user_limits"]["tolerated"] == 0
    sides = []
    for side, size in (("t3", 3), ("g3", 4)):
        build = builder(side, mode="tensor")
        build.call(SIN, [1.0], [np.zeros(size, np.float32)])
        sides.append(build.write())
    assert answer(*sides, "--atol", "100").code == 1


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_a_tolerance_passes_no_value_that_is_not_finite(builder, answer, mode):
    sides = []
    for side, last in (("t", np.nan), ("g", 1.0)):
        build = builder(side, mode=mode)
        build.call(SIN, [1.0], [np.array([0.5, last], np.float32)])
        sides.append(build.write())
    assert answer(*sides, "--atol", "1e30", "--rtol", "1e30").code == 1


def test_a_difference_that_a_tolerance_excuses_is_found_where_it_spreads_beyond_it(chain, answer):
    found = answer(chain("t", drop=0.01, sin=0.5), chain("g"), "--atol", "0.011")
    assert found.code == 1
    assert found.table["first_wrong"][0]["name"] == SIN


def test_the_share_of_a_tolerance_is_numpys():
    random = np.random.default_rng(0)
    golden = random.standard_normal(5000)
    target = golden + random.standard_normal(5000) * 1e-3
    for absolute, relative in ((1e-3, 0.0), (0.0, 1e-3), (1e-3, 1e-2)):
        expected = (np.abs(target - golden) / (absolute + relative * np.abs(golden))).max()
        assert greatest_share(target, golden, absolute, relative) == pytest.approx(expected, rel=1e-12)
    with np.errstate(all="ignore"):
        odd = np.array([np.nan, np.inf, 1.0], np.float32)
        assert greatest_share(odd, odd, 0.0, 0.0) == 0.0
        assert greatest_share(odd, np.array([0.0, np.inf, 1.0], np.float32), 1.0, 1.0) == np.inf
    assert greatest_share(np.zeros(0), np.zeros(0), 0.0, 0.0) == 0.0


def test_of_several_ranks_all_that_is_excused_is_summed_up(chain, tmp_path, capsys):
    for side, off in (("t", 0.5), ("g", 0.0)):
        for rank in (0, 1):
            chain(side, tan=off, folder=f"step0/rank{rank}")
    out = tmp_path / "out"
    assert main(["compare", str(tmp_path / "t"), str(tmp_path / "g"), "-o", str(out), "--ignore", "*.tan.*"]) == 0
    lines = printed(capsys)
    assert "your limits: 2 pairs ignored, 0 passed by your tolerance (--ignore '*.tan.*')" in lines
    assert lines[-1].endswith("; 2 pairs ignored, 0 passed by your tolerance")
    summary = json.loads(next(out.glob("compare_summary_*.json")).read_text())
    assert summary["user_limits"] == {"ignored": 2, "tolerated": 0, "ignored_calls": 0}


def test_a_name_that_matches_nothing_is_reported(chain, answer, caplog):
    found = answer(chain("t"), chain("g"), "--ignore", "Mint.cos")
    assert found.code == 0
    assert found.table["user_limits"]["unused"] == ["Mint.cos"]
    assert "Mint.cos of --ignore, --atol or --rtol matches no call and no record" in caplog.text


def test_python_and_compare_json_take_the_same_limits(chain, tmp_path, answer, capsys):
    target, golden = chain("t", tan=0.01, drop=0.0, p=0.25), chain("g")
    paths = {"npu_path": str(target / "dump.json"), "bench_path": str(golden / "dump.json")}
    own = {"ignore": [f"{DROP}.input.p"], "atol": {"Mint.tan": 0.011}}
    (from_python,) = compare_from_python(paths, tmp_path / "a", auto_analyze=False, **own)
    (from_file,) = compare_from_python({**paths, **own}, tmp_path / "b", auto_analyze=False)
    (from_tree,) = compare_distributed(target.parent, golden.parent, tmp_path / "c", **own)
    for outcome in (from_python, from_file, from_tree):
        assert outcome.is_clean
        assert (outcome.excused.ignored, outcome.excused.tolerated) == (1, 1)
        assert outcome.unjudged[Cause.IGNORED] == 1
    file = tmp_path / "compare.json"
    file.write_text(json.dumps({**paths, **own}))
    assert main(["compare", "-i", str(file), "-o", str(tmp_path / "d")]) == 0
    assert main(["compare", "-i", str(file), "-o", str(tmp_path / "d"), "--atol", "0"]) == 1, "the later row is used"
    capsys.readouterr()


@pytest.mark.parametrize(
    "options",
    [
        ["--atol", "much"],
        ["--atol", "-1"],
        ["--rtol", "nan"],
        ["--rtol", "Mint.tan="],
        ["--atol", "=1e-3"],
        ["--ignore", "."],
        ["--ignore", "x", "--first-only"],
    ],
)
def test_limits_that_are_invalid_are_refused(chain, tmp_path, options, capsys):
    assert main(["compare", str(chain("t")), str(chain("g")), "-o", str(tmp_path / "out"), *options]) == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.parametrize("own", [{"ignore": 3}, {"atol": True}, {"rtol": "0.1"}, {"atol": {3: 0.1}}, {"ignore": [1]}])
def test_python_refuses_limits_of_another_kind(chain, tmp_path, own):
    paths = {"npu_path": str(chain("t")), "bench_path": str(chain("g"))}
    with pytest.raises(UsageError, match=next(iter(own))):
        compare_from_python(paths, tmp_path / "out", **own)


def test_a_name_is_a_pattern_for_the_whole_name_or_its_first_parts():
    record = "Functional.dropout.0.forward.output.0"
    fitting = ("Functional", "Functional.dropout", "*.dropout", "Functional.d*", record, "*", "Functional.dropout.[01]")
    others = ("Functional.drop", "dropout", "functional.dropout", "Functional.dropout.1", "output.0")
    assert matching((*fitting, *others), record) == set(fitting)


def test_limits_are_given_again_by_the_command_that_a_report_shows():
    words = ["--ignore", "*.tan", "--ignore", "Cell.a b", "--atol", "1e-3", "--atol", "Mint.tan=0.5", "--rtol", "0.25"]
    given = parsed("msprobe compare", CompareOptions, words).user_limits
    assert given == UserLimits(
        ("*.tan", "Cell.a b"), (Tolerance("*", 1e-3), Tolerance("Mint.tan", 0.5)), (Tolerance("*", 0.25),)
    )
    assert parsed("msprobe compare", CompareOptions, given.command()).user_limits == given


def test_a_report_shows_what_was_excused(chain, tmp_path, capsys):
    from msprobe.compare.dispatch import compare_paths, report_of
    from msprobe.compare.request import Request

    own = UserLimits(("Mint.tan",))
    request = Request(Path(chain("t", tan=0.5)), Path(chain("g")), tmp_path / "out", html=True, user_limits=own)
    head = report_of(compare_paths(request), request).head
    assert "--ignore Mint.tan" in head.command
    assert any("your limits: 1 pairs ignored" in str(note) for note in head.answer.notes)
    assert Why.IGNORED.value == "ignored"


LIMITS = [["--ignore", "Mint.tan"], ["--atol", "0.011"], ["--rtol", "Mint.tan=0.0026"], ["--atol", "0.009"]]


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
@pytest.mark.parametrize("options", LIMITS, ids=" ".join)
@pytest.mark.parametrize("verb", ["report", "diagnose"])
def test_other_commands_take_the_same_limits_and_give_the_same_answer(
    chain, answer, tmp_path, capsys, verb, options, mode
):
    target, golden = chain("t", tan=0.01, mode=mode), chain("g", mode=mode)
    compared = answer(target, golden, *options)
    assert compared.code == (options == LIMITS[-1])
    where = ["-o", str(tmp_path / "page.html")] if verb == "report" else []
    assert main([verb, str(target), str(golden), *where, *options]) == compared.code
    lines = [line.strip() for line in printed(capsys)]
    assert compared.lines[-1] in lines
    excused = next(part for line in compared.lines for part in line.split("; ") if "your limits: " in part)
    excused = excused[excused.index("your limits: ") :]
    assert any(excused in line for line in lines)


def test_a_diagnosis_has_the_numbers_that_the_limits_excuse(chain, capsys):
    target, golden = chain("t", tan=0.01), chain("g")
    assert main(["diagnose", str(target), str(golden), "--ignore", "Mint.tan", "--format", "json"]) == 0
    (looked,) = json.loads(capsys.readouterr().out)["details"]["looked"]
    assert looked["user_limits"] == {"ignored": 1, "tolerated": 0, "ignored_calls": 0}


def test_a_report_advises_a_diagnosis_with_the_same_limits(chain, tmp_path):
    from msprobe.compare.dispatch import compare_paths, report_of
    from msprobe.compare.request import Request

    own = UserLimits(("Mint.t*n",))
    request = Request(
        Path(chain("t", sin=0.5, tan=0.5)), Path(chain("g")), tmp_path / "out", html=True, user_limits=own
    )
    advice = report_of(compare_paths(request), request).head.answer.advice
    (command,) = [one.command for one in advice if one.command.startswith("msprobe diagnose")]
    assert "--ignore 'Mint.t*n'" in command


@pytest.mark.parametrize("options", [["--ignore", "x"], ["--atol", "1"], ["--rtol", "1"]])
def test_limits_without_a_golden_are_refused(chain, tmp_path, options, capsys):
    assert main(["report", str(chain("t")), "-o", str(tmp_path / "page.html"), *options]) == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["report", "diagnose"])
def test_other_commands_refuse_limits_that_are_invalid(chain, tmp_path, verb, capsys):
    assert main([verb, str(chain("t")), str(chain("g")), "--atol", "much"]) == 2
    assert "--atol" in capsys.readouterr().err
