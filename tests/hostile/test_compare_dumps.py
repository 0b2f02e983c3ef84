"""A hostile dump.json from end to end: each pair has the right verdict, and no dump costs more than its size."""

import copy
import csv
import json
import time

import pytest

from msprobe.cli import main

pytestmark = pytest.mark.part(3)

NAME = "Functional.relu.0.forward"


def leaf(**changes):
    plain = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3]}
    return {**plain, "Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": 7.4, **changes}


def write(folder, data, construct=None, **top):
    folder.mkdir(parents=True)
    text = {"task": "statistics", "level": "mix", "framework": "mindspore", **top}
    # By hand, because a name may stand there twice.
    entries = ",".join(
        f"{json.dumps(name)}:{json.dumps(entry)}" for name, entry in (data.items() if isinstance(data, dict) else data)
    )
    (folder / "dump.json").write_text(f'{json.dumps(text)[:-1]},"data":{{{entries}}}}}')
    if construct is not None:
        (folder / "construct.json").write_text(json.dumps(construct))
    return folder


@pytest.fixture
def compare(tmp_path):
    """Compare two sets of entries; the exit code and the rows of the table."""

    def run(target, golden, *more, **construct):
        sides = [write(tmp_path / side, data, **construct) for side, data in (("target", target), ("golden", golden))]
        out = tmp_path / "out"
        code = main(["compare", "-tp", str(sides[0]), "-gp", str(sides[1]), "-o", str(out), "--format", "csv", *more])
        tables = list(out.glob("*.csv"))
        if code == 2 and not tables:  # refused; where nothing could be judged, the table says why
            return code, []
        csv.field_size_limit(10**7)
        with open(tables[0], newline="", encoding="utf-8") as file:
            return code, list(csv.DictReader(file))

    return run


def with_leaf(**changes):
    return {NAME: {"input_args": [leaf(**changes)]}}


HUGE = 10**300

STATISTICS = {
    "enormous": ({"Max": 10**400, "Min": -(10**400)}, {}),
    "texts": ({"Max": "5.0", "Norm": "7.4"}, {}),
    "objects": ({"Max": {"a": 1}, "Min": [0.0]}, {}),
    "booleans": ({"Max": True, "Min": False}, {}),
    "infinite": ({"Max": float("inf")}, {}),
    "not a number": ({"Norm": float("nan")}, {}),
    "of other signs": ({"Max": float("inf")}, {"Max": -float("inf")}),
    "the largest float": ({"Max": 1.7e308, "Norm": 1.7e308}, {"Max": -1.7e308}),
}


@pytest.mark.parametrize(("target", "golden"), STATISTICS.values(), ids=STATISTICS)
@pytest.mark.parametrize("turned", [False, True])
def test_odd_statistics_never_pass_against_plain_ones(compare, target, golden, turned):
    sides = [with_leaf(**target), with_leaf(**golden)]
    code, (row,) = compare(*reversed(sides) if turned else sides)
    assert code == 1
    assert row["Verdict"] == "error"
    assert row["Reason"]


@pytest.mark.parametrize("value", ["(1+2j)", [5.0], {"a": 1}, 10**400, ""], ids=lambda value: str(value)[:10])
@pytest.mark.parametrize("key", ["Max", "Min", "Mean", "Norm"])
def test_a_statistic_that_is_no_number_on_both_sides_is_not_judged(compare, key, value):
    """What stands there may differ, and nobody could say so."""
    code, (row,) = compare(with_leaf(**{key: value}), with_leaf(**{key: [value]}))
    assert (code, row["Verdict"]) == (2, "unjudged")
    assert row["Reason"] == "A statistic is not numeric on both sides."


@pytest.mark.parametrize("key", ["Max", "Min", "Mean", "Norm"])
def test_beside_a_statistic_that_is_no_number_the_others_are_compared(compare, key):
    value, other = "5.0", "Min" if key == "Max" else "Max"
    code, (row,) = compare(with_leaf(**{key: value}), with_leaf(**{key: value, other: 9.0}))
    assert (code, row["Verdict"]) == (1, "error")


def test_a_statistic_that_a_dtype_has_not_is_judged(compare):
    code, (row,) = compare(with_leaf(Mean=None, Norm=None), with_leaf(Mean=None, Norm=None))
    assert (code, row["Verdict"]) == (0, "pass")


@pytest.mark.parametrize("turned", [False, True])
def test_four_times_nothing_is_not_judged(compare, turned):
    sides = [with_leaf(Max=None, Min=None, Mean=None, Norm=None), with_leaf()]
    _, (row,) = compare(*reversed(sides) if turned else sides)
    assert row["Verdict"] == "unjudged"
    assert row["Reason"] == f"No statistics on the {'golden' if turned else 'target'} side."


SHAPES = {
    "texts": ["2", 3],
    "a text": "[2, 3]",
    "negative": [-2, -3],
    "booleans": [True, 6],
    "fractions": [2.0, 3.0],
    "2**70": [2**70],
    "a product that no float holds": [HUGE, HUGE],
    "a length that no float holds": [10**400],
    "many lengths": [2] * 5000,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_shape_that_no_array_has_is_no_shape(compare, shape):
    """Equal on both sides the statistics decide; against a real shape it is an error."""
    code, (row,) = compare(with_leaf(shape=shape), with_leaf(shape=shape, Max=9.0))
    assert (code, row["Verdict"], row["NPU Tensor Shape"]) == (1, "error", "None")
    assert row["Reason"].startswith("The max differs")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_shape_that_no_array_has_differs_from_a_real_one(compare, shape):
    code, (row,) = compare(with_leaf(shape=shape), with_leaf())
    assert (code, row["Verdict"]) == (1, "error")
    assert row["Reason"] == "Shapes differ: None, golden [2, 3]."


@pytest.mark.parametrize("digest", [5, ["ab"], {"a": 1}, None, True, ""])
def test_a_digest_of_another_type_is_none(compare, digest):
    data = {NAME: {"input_args": [leaf(md5="ab"), leaf(md5=digest, Max=4.0)]}}
    golden = {NAME: {"input_args": [leaf(md5="ab"), leaf(md5="cd")]}}
    code, rows = compare(data, golden)
    assert code == 1
    assert [row["Verdict"] for row in rows] == ["pass", "error"]
    assert rows[1]["NPU MD5"] == "N/A"
    assert rows[1]["Reason"].startswith("The max differs")


def test_of_two_entries_of_one_name_the_last_counts(compare):
    golden = with_leaf()
    code, rows = compare([(NAME, with_leaf(Max=9.0)[NAME]), (NAME, golden[NAME])], golden)
    assert (code, [row["Verdict"] for row in rows]) == (0, ["pass"])


def test_names_that_parse_as_several_kinds_are_each_one_call(compare):
    data = {
        "Cell.a.forward.0.backward.1.forward": {"input_args": [leaf()]},
        "Cell.a.parameters_grad.0.forward.0": {"input_args": [leaf()]},
        "Cell.a.A.parameters_grad": {"w": [leaf()], "": [leaf()]},
        "Cell.a.parameters_grad.0.debug": [leaf()],
        "Cell..forward.0": {"input_args": [leaf()]},
        ".0.forward": {"input_args": [leaf()]},
        "0.forward": {"input_args": [leaf()]},
        "Functional.relu.-1.forward": {"input_args": [leaf()]},
        "Functional.relu." + "9" * 400 + ".forward": {"input_args": [leaf()]},
        "": {"input_args": [leaf()]},
    }
    code, rows = compare(data, data)
    assert (code, [row["Verdict"] for row in rows]) == (0, ["pass"] * 11)
    assert [row["NPU Name"] for row in rows] == [row["Bench Name"] for row in rows]


@pytest.mark.parametrize(
    "names",
    [
        ["x"],
        ["a", "b", "a"],
        ["Cell.A.forward.0"],
    ],
)
def test_cells_in_a_circle_enclose_nothing(compare, names):
    calls = [f"Cell.{name}.X.forward.0" for name in names]
    construct = dict(zip(calls, calls[1:] + calls[:1], strict=True))
    data = {call: {"input_args": [leaf()], "output": [leaf()]} for call in calls}
    golden = copy.deepcopy(data)
    golden[calls[0]]["output"][0]["Max"] = 9.0
    code, rows = compare(data, golden, construct=construct)
    assert code == 1
    assert sum(row["Verdict"] == "error" for row in rows) == 1


def test_tensors_that_come_from_each_other_are_compared(compare):
    data = {
        f"F.{n}.forward": {
            "input_args": [leaf(**{"from": f"F.{1 - n}.forward.output.0", "Max": 1.0 + n})],
            "output": [leaf(**{"from": f"F.{n}.forward.output.0"})],
        }
        for n in range(2)
    }
    golden = copy.deepcopy(data)
    golden["F.0.forward"]["input_args"][0]["Max"] = 9.0
    code, rows = compare(data, golden)
    assert code == 1
    assert [row["Verdict"] for row in rows] == ["error", "pass", "pass", "pass"]


LONG = {
    "letters": "a" * 10**6,
    "dots": "." * 10**6,
    "digits": "1" * 10**6,
    "numbers": ".0" * 500_000,
    "cells": "forward.1." * 100_000,
    "signs": "-" + "1" * 10**6 + "x",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_texts_of_a_million_characters_cost_little(compare, text):
    data = {
        f"Cell.{text}.forward.0": {
            "input_args": [leaf(), {"type": "str", "value": text}],
            "input_kwargs": {text: leaf()},
        }
    }
    golden = copy.deepcopy(data)
    golden[f"Cell.{text}.forward.0"]["input_args"][0]["Max"] = 9.0
    start = time.process_time()
    code, rows = compare(data, golden)
    assert time.process_time() - start < 10
    assert (code, [row["Verdict"] for row in rows]) == (1, ["error", "pass", "pass"])


BROKEN = {
    "10^5 lists": '{"task":"tensor","data":{"F.0.forward":{"output":' + "[" * 100_000 + "]" * 100_000 + "}}}",
    "10^5 objects": '{"task":"tensor","data":{"F.0.forward":{"output":'
    + '{"a":' * 100_000
    + "1"
    + "}" * 100_000
    + "}}}",
    "10^5 lists beside": '{"task":"tensor","x":' + "[" * 100_000 + "]" * 100_000 + ',"data":{}}',
    "a number of 10^4 digits": '{"task":"tensor","data":{"F.0.forward":{"output":[' + "1" * 10_000 + "]}}}",
    "a string without end": '{"task":"tensor","data":{"F.0.forward":{"output":["' + "x" * 2_000_000,
    "half a megabyte of nothing": " " * 500_000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_is_no_dump_is_one_line(tmp_path, text, capsys):
    golden = write(tmp_path / "golden", with_leaf())
    target = write(tmp_path / "target", {})
    (target / "dump.json").write_text(text)
    start = time.process_time()
    assert main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "out")]) == 2
    assert time.process_time() - start < 10
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"msprobe compare: {target / 'dump.json'}: ")
    assert len(line) < 1000
    assert captured.out == ""


def test_two_dumps_without_calls_are_one_line(tmp_path, capsys):
    sides = [write(tmp_path / side, {}) for side in ("target", "golden")]
    assert main(["compare", "-tp", str(sides[0]), "-gp", str(sides[1]), "-o", str(tmp_path / "out")]) == 2
    *warnings, line = capsys.readouterr().err.splitlines()
    assert all("contains no calls; check `scope`" in warning for warning in warnings)
    assert (
        line
        == f"msprobe compare: {sides[0]}/dump.json and {sides[1]}/dump.json hold no calls; there is nothing to compare"
    )


@pytest.mark.parametrize("turned", [False, True])
def test_a_dump_without_calls_passes_nothing(compare, turned):
    sides = [{}, with_leaf()]
    code, (row,) = compare(*reversed(sides) if turned else sides)
    assert (code, row["Verdict"]) == (2, "unjudged")
    assert row["Reason"].startswith(f"Only on the {'target' if turned else 'golden'} side")


# Growth: four times as much must not take more than about four times as long; sixteen times would be quadratic.


def one_stem(count, side):
    """Calls of one stem with numbers without order, other ones on each side."""
    return {f"Functional.relu.{(n * 7919 + side) % 1_000_003}.forward": {"output": [leaf()]} for n in range(count)}


def nothing_in_common(count, side):
    return {f"Functional.{'ab'[side]}{n}.0.forward": {"output": [leaf()]} for n in range(count)}


def two_letters(count, side):
    """Two operations in an order that has no rhythm, another one on each side."""
    return {f"Functional.{'ab'[(n * n + n * side) % 7 % 2]}.{n}.forward": {"output": [leaf()]} for n in range(count)}


def backwards(count, side):
    numbers = range(count) if side else reversed(range(count))
    return {f"Functional.a{n}.0.forward": {"output": [leaf()]} for n in numbers}


def one_call(count, side):
    """One call with many results, of which the golden alone has most."""
    return {NAME: {"input_args": [leaf()], "output": [leaf()] * (count if side else 1)}}


def other_arguments(count, side):
    return {NAME: {"input_kwargs": {f"{'ab'[side]}{n}": leaf() for n in range(count)}}}


def cells_in_cells(count, side):
    return {f"Cell.c{n}.C.forward.0": {"output": [leaf(Max=5.0 + (side and n == 5))]} for n in range(count)}


GROWING = [(one_stem, 2000), (nothing_in_common, 1500), (two_letters, 1500), (backwards, 2000)]
GROWING += [(one_call, 150), (other_arguments, 60), (cells_in_cells, 1000)]


@pytest.mark.parametrize(("make", "count"), GROWING, ids=lambda value: getattr(value, "__name__", ""))
def test_time_grows_with_the_dump_and_not_with_its_square(tmp_path, make, count):
    took = []
    for size in (count, count, 4 * count):  # the first to warm up
        construct = {f"Cell.c{n}.C.forward.0": f"Cell.c{n + 1}.C.forward.0" for n in range(size)}
        place = tmp_path / str(len(took))
        sides = [write(place / str(side), make(size, side), construct) for side in (0, 1)]
        start = time.process_time()
        command = ["compare", "-tp", str(sides[0]), "-gp", str(sides[1]), "-o", str(place / "out"), "--format", "csv"]
        assert main(command) in (0, 1)
        took.append(time.process_time() - start)
    assert took[2] < 8 * took[1] + 0.2


@pytest.mark.parametrize("length", ["9" * 300, "9" * 5000])
def test_a_shape_of_a_kernel_that_no_array_has_is_no_shape(tmp_path, length):
    """The statistics still decide, of the one operator on each side."""
    head = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,"
    head += "Avg Value,Count"
    for side, top in (("target", 9), ("golden", 1)):
        folder = tmp_path / side / "rank_0" / "Net" / "0" / "0"
        folder.mkdir(parents=True)
        row = f'MatMul,Default_a,0,0,1,input,0,12,float32,"({length},{length})",{top},0,0.5,3'
        (folder / "statistic.csv").write_text(f"{head}\n{row}\n")
    out = tmp_path / "out"
    sides = ["-tp", str(tmp_path / "target"), "-gp", str(tmp_path / "golden")]
    assert main(["compare", *sides, "-o", str(out), "--format", "csv"]) == 1
    with open(next(out.rglob("*.csv")), newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["Verdict"], row["NPU Tensor Shape"]) == ("error", "None")
