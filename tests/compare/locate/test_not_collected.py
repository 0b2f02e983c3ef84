"""A null of which a dump says that its value could not be collected is no None: nothing passes because of it."""

import csv
import json

import pytest

from msprobe.cli import main
from msprobe.compare.core.reason import Cause
from msprobe.compare.judge.verdict import lost_rows
from msprobe.compare.locate import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare

EXP, SIN = "Mint.exp.0.forward", "Mint.sin.0.forward"
KERNEL = "Kernel.Default.network-Net.MatMul.0.forward"
NEITHER = "that could not be collected on either side"


def gaps(*parts, call=EXP):
    return {"missing": [{"name": call, "part": part, "cause": "RuntimeError: no data"} for part in parts]}


@pytest.fixture
def found(builder, tmp_path, capsys):
    """`found(fill)`: exit code, lines, rows and json of two dumps, each as `fill(side, number)` makes it."""

    def make(fill, **more):
        folders = []
        for number, name in enumerate(("target", "golden")):
            side = builder(name, **more)
            fill(side, number)
            folders.append(str(side.write()))
        arguments = ["compare", *folders, "-o", str(tmp_path / "out"), "--format"]
        code = main([*arguments, "json"])
        assert main([*arguments, "csv"]) == code
        with open(next((tmp_path / "out").rglob("*.csv")), newline="", encoding="utf-8") as file:
            rows = {row["NPU Name"]: (row["Verdict"], row["Reason"]) for row in csv.DictReader(file)}
        whole = json.loads(next((tmp_path / "out").glob("*.json")).read_text())
        return code, capsys.readouterr().out.splitlines(), rows, whole

    return make


def test_what_neither_side_could_read_is_not_equal(found):
    def fill(side, _):
        side.call(EXP, [1.0, None, None], [2.0])
        side.extra = gaps("input.1")

    code, lines, rows, whole = found(fill)
    assert code == 1
    assert lines[-1] == f"no difference in what could be judged: 3 pairs judged, 1 not: 1 {NEITHER}"
    assert rows[f"{EXP}.input.1"] == (
        "unjudged",
        "Could not be collected on either side; see `missing` in each dump.json.",
    )
    assert rows[f"{EXP}.input.2"] == ("pass", "")
    (cause,) = whole["unjudged"]
    assert (cause["cause"], cause["pairs"], cause["is_exempt"]) == ("lost_on_both_sides", 1, False)


def test_none_is_none(found):
    """Also in a dump that lacks something else: another part, another call, what stands for the whole step."""

    def fill(side, _):
        side.call(EXP, [1.0, None], [None]).call(SIN, [1.0, 3.0], [2.0])
        side.extra = {"missing": [*gaps("input.0", "input.10")["missing"], *gaps("input.1", call=SIN)["missing"]]}
        side.extra["missing"] += [{"name": "step", "part": "threads", "cause": "not recorded"}, "damage", {"name": 1}]

    code, lines, *_ = found(fill)
    assert (code, lines[-1]) == (0, "no difference: 6 pairs judged, 0 unjudged")


def test_a_slot_that_the_framework_did_not_write_is_no_value_that_was_lost(found):
    """The entry of a kernel names it as missing, and no cause: both sides were dumped that way."""

    def fill(side, _):
        side.call(KERNEL, [1.0, None], [2.0], missing=["input.1"])

    code, lines, *_ = found(fill, level="L2")
    assert (code, lines[-1]) == (0, "no difference: 3 pairs judged, 0 unjudged")


def test_a_file_of_a_kernel_that_was_broken_on_both_sides_is_lost(found):
    def fill(side, _):
        side.call(KERNEL, [1.0, None, None], [2.0], missing=["input.1", "input.2"])
        side.extra = gaps("input.2", call=KERNEL)

    code, _, rows, _ = found(fill, level="L2")
    assert code == 1
    assert {name: verdict for name, (verdict, _) in rows.items() if verdict != "pass"} == {
        f"{KERNEL}.input.2": "unjudged"
    }


def test_a_part_covers_what_is_inside_it_and_has_many_names(builder):
    side = builder("target")
    side.call(EXP, [], [None], kwargs={"axis": None, "out": None}, parameters={"w.a": None, "b": None})
    side.data[EXP]["input_args"] = [[None, {"a.b": None, "c": None}], None]
    side.gradients("Cell.fc.Dense.parameters_grad", weight=None, bias=None)
    side.data["x.0.debug"], side.data["y.0.debug"] = None, {"a": [None, None]}
    names = [(EXP, part) for part in ("input.0.1.a.b", "input.1", "kwargs.out", "parameters.w.a", "output")]
    names += [("Cell.fc.Dense.parameters_grad", "weight"), ("x.0.debug", ""), ("y.0.debug", "a.1")]
    side.extra = {"missing": [{"name": name, "part": part, "cause": "no data"} for name, part in names]}
    dump = side.dump()
    columns = dump.columns
    lost = {(call, columns.paths[columns.path[row]]) for row in lost_rows(dump) for call in [_call(columns, row)]}
    assert lost == {
        *((EXP, ("0", "1", "a.b")), (EXP, ("1",)), (EXP, ("out",)), (EXP, ("w.a",)), (EXP, ("0",))),
        *(("Cell.fc.Dense.parameters_grad", ("weight",)), ("x.0.debug", ()), ("y.0.debug", ("a", "1"))),
    }


def _call(columns, row):
    return next(n for at, n in enumerate(columns.names) if columns.starts[at] <= row < columns.starts[at + 1])


@pytest.mark.parametrize("lacking", [0, 1])
@pytest.mark.parametrize("other", [5.0, None])
def test_what_one_side_could_not_read_is_no_difference_and_no_proof(lacking, other, found):
    """Whatever the other side has there, it may have been the same, or not."""

    def fill(side, number):
        side.call(EXP, [1.0], [None if number == lacking else other]).call(SIN, [1.0], [2.0])
        side.extra = gaps("output.0") if number == lacking else {}

    code, lines, rows, _ = found(fill)
    assert code == 1
    assert lines[-1] == "no difference in what could be judged: 3 pairs judged, 1 not: 1 not collected on one side", (
        lines
    )
    side = ("target", "golden")[lacking]
    reason = f"Could not be collected on the {side} side; see `missing` in its dump.json."
    assert rows[f"{EXP}.output.0"] == ("unjudged", reason)


def test_a_gradient_that_could_not_be_read_is_not_one_that_nobody_needs(builder):
    """None against zeros is exempt; what could not be collected against zeros is open."""
    causes = []
    for missing in ({}, gaps("output.0", call="Mint.exp.0.backward")):
        dumps = []
        for name, gradient in (("target", None), ("golden", 0.0)):
            side = builder(f"{name}{len(causes)}").call(EXP, [1.0], [2.0])
            side.call("Mint.exp.0.backward", [1.0], [gradient])
            if gradient is not None:
                record = side.data["Mint.exp.0.backward"]["output"][0]
                record.update(dict.fromkeys(("Max", "Min", "Mean", "Norm"), 0.0))
            else:
                side.extra = missing
            dumps.append(side.dump())
        causes.append(compare(*dumps).unjudged)
    assert causes == [{Cause.UNNEEDED_GRADIENT: 1}, {Cause.NOT_COLLECTED: 1}]


def test_a_call_whose_given_neither_side_read_is_not_said_to_begin_a_difference(builder):
    dumps = []
    for name, result in (("target", 2.0), ("golden", 3.0)):
        side = builder(name).call(EXP, [1.0, None], [result])
        side.extra = gaps("input.1")
        dumps.append(side.dump())
    comparison = compare(*dumps)
    first = locate(comparison)
    assert first.first is not None
    assert f"these inputs could not be judged: {EXP}.input.1" in wording.reason(first.first)
