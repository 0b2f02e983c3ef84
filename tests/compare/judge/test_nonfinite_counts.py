"""How many elements are NaN or infinite: by statistics that are NaN on both sides, the counts alone tell them apart."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest

from msprobe.compare.judge.cross_framework import combined
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.compare.tables.columns import columns
from msprobe.compare.tables.rows import rows
from msprobe.store.record import NonFinite, Record, Statistics

CALL = "Functional.softmax.0.forward"
NAN, INF = math.nan, math.inf


def described(values, dtype, *, counts=True, **more):
    """The record of a tensor as docs/en/reference/format.md has it, worked out by numpy."""
    array = np.array(values, np.float64)
    with np.errstate(invalid="ignore"):
        four = (array.max(), array.min(), array.mean(), np.sqrt((array * array).sum()))
    node = {"type": "Tensor", "dtype": dtype, "shape": list(array.shape)}
    node |= dict(zip(("Max", "Min", "Mean", "Norm"), map(float, four), strict=True))
    kinds = {"nan": np.isnan(array), "positive_inf": np.isposinf(array), "negative_inf": np.isneginf(array)}
    found = {f"{kind}_count": int(np.count_nonzero(which)) for kind, which in kinds.items()}
    return node | ({kind: count for kind, count in found.items() if count} if counts else {}) | more


@pytest.fixture
def compared(builder):
    """`compared(target, golden)` compares two dumps that hold one tensor each; `frameworks` says whose they are."""

    def make(target, golden, frameworks=("mindspore", "mindspore"), **more):
        dumps = []
        for side, values, framework, has_counts in zip(
            ("target", "golden"), (target, golden), frameworks, more.pop("counts", (True, True)), strict=True
        ):
            made = builder(side, framework=framework)
            made.extra["format_version"] = int(has_counts)
            dtype = "Float32" if framework == "mindspore" else "torch.float32"
            node = described(values, dtype, counts=has_counts, **more)
            made.data[CALL] = {"input_args": [node], "input_kwargs": {}, "output": [described([1.0], dtype)]}
            dumps.append(made.dump())
        return compare(*dumps)

    return make


FRAMEWORKS = [("mindspore", "mindspore"), ("pytorch", "pytorch"), ("mindspore", "pytorch"), ("pytorch", "mindspore")]
OTHERWISE = [
    ([NAN, NAN, NAN, 1.0], [NAN, NAN, 1.0, 1.0], "3 elements are NaN, golden 2."),
    ([NAN, 1.0, 1.0], [NAN, NAN, 1.0], "1 element is NaN, golden 2."),
    ([INF, INF, 1.0], [INF, 1.0, 1.0], "2 elements are inf, golden 1."),
    ([-INF, -INF, 1.0], [-INF, 1.0, 1.0], "2 elements are -inf, golden 1."),
    ([NAN, INF, 1.0], [NAN, 1.0, -INF], "1 element is inf, golden 0. 0 elements are -inf, golden 1."),
    ([INF, NAN, 1.0], [INF, 1.0, 1.0], "1 element is NaN, golden 0."),
]


@pytest.mark.parametrize("more", [{}, {"from": "leaf", "md5": ""}])
@pytest.mark.parametrize("frameworks", FRAMEWORKS)
@pytest.mark.parametrize(("target", "golden", "reason"), OTHERWISE)
def test_another_count_is_an_error(compared, target, golden, reason, frameworks, more):
    found = compared(target, golden, frameworks, **more)
    assert (found.judged(0).grade, found.reason(0)) == ("error", reason)
    assert found.judged(0).equal is False
    assert found.judged(1).grade == "pass"


@pytest.mark.parametrize("frameworks", FRAMEWORKS)
@pytest.mark.parametrize("values", [[NAN, NAN, 1.0], [INF, -INF, 1.0], [INF, 1.0, 2.0], [NAN, INF, -INF]])
def test_equal_counts_pass_wherever_the_elements_stand(compared, values, frameworks):
    found = compared(values, values[::-1], frameworks)
    assert found.counts == {"pass": 2}


@pytest.mark.parametrize("frameworks", FRAMEWORKS)
def test_of_all_tensors_of_three_elements_only_those_with_equal_elements_pass(builder, frameworks):
    """Order apart, there are 20 with elements of these four."""
    tensors = list(combinations_with_replacement([1.0, NAN, INF, -INF], 3))
    pairs = [(t, g) for t in tensors for g in tensors]
    dumps = []
    for at, framework in enumerate(frameworks):
        made = builder("target" if at == 0 else "golden", framework=framework)
        made.extra["format_version"] = 1
        nodes = [described(pair[at], "Float32" if framework == "mindspore" else "torch.float32") for pair in pairs]
        made.data[CALL] = {"input_args": nodes, "input_kwargs": {}, "output": []}
        dumps.append(made.dump())
    found = compare(*dumps)
    passed = [found.judged(row).grade == "pass" for row in range(len(pairs))]
    assert passed == [t is g for t, g in pairs]
    assert found.counts == {"pass": 20, "error": 380}


def test_a_tensor_that_was_not_saved_is_judged_by_its_counts(builder):
    dumps = []
    for side, values in (("target", [NAN, NAN, 1.0]), ("golden", [NAN, 1.0, 1.0])):
        made = builder(side, mode="tensor")
        made.extra["format_version"] = 1
        made.data[CALL] = {"input_args": [described(values, "Float32")], "input_kwargs": {}, "output": []}
        dumps.append(made.dump())
    found = compare(*dumps)
    assert found.mode == "tensor"
    assert found.reason(0) == "2 elements are NaN, golden 1. No tensor was saved on the target side."
    assert found.judged(0).grade == "error"


@pytest.mark.parametrize("frameworks", FRAMEWORKS)
@pytest.mark.parametrize("counts", [(True, False), (False, True), (False, False)])
def test_where_one_side_does_not_count_nothing_changes(compared, counts, frameworks):
    assert compared([NAN, NAN, 1.0], [NAN, 1.0, 1.0], frameworks, counts=counts).counts == {"pass": 2}
    found = compared([NAN, 1.0], [1.0, 1.0], frameworks, counts=counts)
    assert found.reason(0) == "NaN or infinity differs: the max is nan, golden 1.0."


def test_the_table_says_so_in_its_reason_and_has_no_other_column(compared):
    found = compared([NAN, NAN, NAN, 1.0], [NAN, NAN, 1.0, 1.0])
    titles = [column.title for column in columns("statistics", False)]
    row, _ = rows(found, locate(found), False)
    shown = dict(zip(titles, row, strict=True))
    assert (shown["Verdict"], shown["Reason"]) == ("error", "3 elements are NaN, golden 2.")
    assert shown["NPU max"] == shown["Bench max"] == "Nan", "8.1's cells hold what 8.1 would print"
    assert (shown["Result"], shown["Err_message"]) == ("", "")


def part(array):
    node = described(array, "Float32")
    kinds = [node.get(f"{kind}_count", 0) for kind in ("nan", "positive_inf", "negative_inf")]
    four = (node[key] for key in ("Max", "Min", "Mean", "Norm"))
    made = Statistics(*four, non_finite=NonFinite(*kinds) if any(kinds) else None)
    return Record("x", "parameters", ("w",), "tensor", "T", "Float32", np.shape(array), made)


@pytest.mark.parametrize(
    "parts",
    [
        ([1.0, 2.0], [NAN, 3.0]),
        ([NAN, INF], [3.0]),
        ([INF, 1.0], [NAN, -INF]),
        ([INF, 1.0], [-INF, -INF]),
        ([INF, 1.0], [2.0], [INF]),
    ],
)
def test_parts_make_up_a_whole_that_is_not_finite(parts):
    whole = part([value for values in parts for value in values]).statistics
    assert repr(combined(map(part, parts))) == repr(whole)


def test_of_a_part_that_does_not_count_the_whole_has_no_counts():
    silent = Record("x", "parameters", ("w",), "tensor", "T", "Float32", (2,), Statistics(NAN, NAN, NAN, NAN))
    assert combined([part([NAN, 1.0]), silent]).non_finite is None
