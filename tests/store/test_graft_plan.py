"""Plans of grafts: written and read again, and what is not one."""

import json

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.graft_plan import GoldenValue, GraftedCall, GraftedStep, GraftPlan, read_plan, write_plan

PLAN = GraftPlan(
    "/dumps/golden",
    {
        0: GraftedStep(
            {
                "Functional.linear.3.forward": GraftedCall(
                    "Functional.dense.3.forward",
                    {"output.0": GoldenValue("output.0"), "output.1": GoldenValue("output.1", is_resized=True)},
                )
            },
            {"fc.weight": GoldenValue("fc.weight", permute=(1, 0), reshape=(4, 8))},
        ),
        12: GraftedStep(),
    },
)


def test_a_plan_is_read_as_it_was_written(tmp_path):
    write_plan(tmp_path / "plan.json", PLAN)
    assert read_plan(tmp_path / "plan.json") == PLAN


def test_a_layout_is_a_permutation_and_then_a_shape():
    array = np.arange(6).reshape(2, 3)
    assert GoldenValue("x").laid_out(array).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert GoldenValue("x", permute=(1, 0)).laid_out(array).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert GoldenValue("x", permute=(1, 0), reshape=(6,)).laid_out(array).tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (GoldenValue("x"), (2, 3)),
        (GoldenValue("x", permute=(1, 0)), (3, 2)),
        (GoldenValue("x", permute=(1, 0), reshape=(1, 6)), (1, 6)),
        (GoldenValue("x", permute=(0, 0)), None),
        (GoldenValue("x", permute=(0, 1, 2)), None),
        (GoldenValue("x", reshape=(5,)), None),
    ],
)
def test_the_shape_of_a_layout_is_known_without_the_elements(value, shape):
    assert value.shape((2, 3)) == shape


def changed(member, value):
    """The JSON of the plan with another value at a dotted place of step 0."""
    contents = {
        **{"format": "msprobe-graft", "format_version": 1, "golden": "/dumps/golden"},
        "steps": {"0": {"calls": {"a": {"golden": "b", "values": {"output.0": {"golden": "output.0"}}}}}},
    }
    node = contents
    *above, last = member.split("/")
    for key in above:
        node = node[key]
    node[last] = value
    return json.dumps(contents)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "{",
            "[]",
            "{}",
            "\udc80",
            '{"format": "msprobe-graft"}',
            '{"format": "msprobe-graft", "format_version": 2}',
        ),
        changed("golden", 3),
        changed("steps", []),
        changed("steps/x", {}),
        changed("steps/0/calls", [1]),
        changed("steps/0/calls/a/golden", None),
        changed("steps/0/calls/a/values", None),
        changed("steps/0/calls/a/values/output.0", "output.0"),
        changed("steps/0/calls/a/values/output.0", {"golden": "output.0", "permute": [-1]}),
        changed("steps/0/calls/a/values/output.0", {"golden": "output.0", "reshape": [True]}),
        changed("steps/0/calls/a/values/output.0", {"golden": "output.0", "resized": 1}),
        changed("steps/0/parameters", {"w": {}}),
        "[" * 100_000,
    ],
)
def test_what_is_not_a_plan_is_an_error_with_the_file(text, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(text, errors="surrogatepass")
    with pytest.raises(DumpError, match=r"plan\.json.*msprobe"):
        read_plan(path)


def test_a_missing_plan_and_a_folder_are_errors(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DumpError, match="cannot be read"):
            read_plan(path)
