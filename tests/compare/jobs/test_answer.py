"""R1: what the last line says is what the exit code says, for every kind of finding and any number of dumps."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.cli import main
from msprobe.compare.core.reason import Cause
from msprobe.compare.dispatch import verdicts_of
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.find import Located
from msprobe.compare.locate.finding import Computed, Difference, Divergence
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.kinds import kinds_in

CALL = "Mint.exp.{}.forward"


def finding(kind, grade):
    return Divergence(CALL.format(0), "net", kind, Computed(Difference("output.0", grade)), grade)


findings = st.lists(st.builds(finding, st.sampled_from(kinds_in(kinds)), st.sampled_from(GRADES)), max_size=2)
counts = st.fixed_dictionaries({}, optional={grade: st.integers(0, 3) for grade in GRADES})
causes = st.dictionaries(st.sampled_from(Cause), st.integers(1, 3), max_size=2)
outcomes = st.lists(
    st.builds(
        Outcome,
        label=st.text("abc", max_size=1),
        mode=st.just("statistics"),
        counts=counts,
        all_pass=st.booleans(),
        findings=findings.map(tuple),
        unjudged=causes,
        step=st.integers(0, 2),
        failed=st.sampled_from(["", "cannot be read"]),
    ),
    min_size=1,
    max_size=3,
)


@given(outcomes)
def test_a_first_wrong_call_and_exit_code_0_exclude_each_other(every):
    """With lines for the console of each dump, as a comparison makes them."""
    result = RequestResult(tuple(every))
    last, code = str(result.last), verdicts_of(result).exit_code
    names = last.startswith(("first wrong call", "not compared"))
    assert names == any(one.findings for one in every)
    if names:
        assert not result.is_clean
        assert code == (1 if result.judged else 2) or not result.judged
    if code == 0:
        assert last.startswith("no difference")
        assert not last.startswith("no difference in what could be judged")


@pytest.mark.parametrize(("kind", "grade", "passes"), [*product(kinds_in(kinds), GRADES, [True, False])])
def test_no_kind_of_finding_has_exit_code_0(kind, grade, passes):
    outcome = Outcome(counts={"pass": 3}, all_pass=passes, findings=(finding(kind, grade),))
    assert not outcome.is_clean
    assert verdicts_of(RequestResult((outcome,))).exit_code == 1
    assert str(outcome.last).startswith("first wrong call: ")


def test_without_a_finding_the_pairs_decide():
    assert Outcome(counts={"pass": 3}, all_pass=True).is_clean
    assert not Outcome(counts={"pass": 3}).is_clean
    assert Located().first is None


@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_what_begins_beyond_rounding_is_no_exit_code_0_although_it_is_within_tolerance(builder, tmp_path, capsys, form):
    """All else is equal to the bit, and nothing takes the result: 1e-5 is no rounding of one call."""
    folders = []
    for side, error in (("target", 1e-5), ("golden", 0.0)):
        build = builder(side)
        for number in range(3):
            x = np.linspace(0.1, 1, 16, dtype=np.float32) + number
            build.call(CALL.format(number), [x], [np.exp(-x) * np.float32(1 + error * (number == 1))])
        folders.append(build.write())
    code = main(["compare", *map(str, folders), "-o", str(tmp_path / "out"), "--format", form])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"first wrong call: {CALL.format(1)} in ")
    assert code == 1
    if form == "xlsx":
        from openpyxl import load_workbook

        (table,) = (tmp_path / "out").glob("*.xlsx")
        rows = dict(row[:2] for row in load_workbook(table)["summary"].values)
        assert rows["exit code"].startswith("1: ")
