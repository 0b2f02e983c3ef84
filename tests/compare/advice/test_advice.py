"""The advisor's three lines: which row they speak of, and which kind of advice its name gets."""

import openpyxl
import pytest

from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.console import advice_on, watch, write_advice

# name -> a phrase that stands in the advice of its class and in no other
UPSTREAM = "Look at the call that made it"
FORWARD = "how it computes forward"
BACKWARD = "how the call computes backward"
FORWARD_FIRST = "Gradients are made from forward results"
STATISTICS = "track_running_stats"
PARAMETER = "how the optimizer changed it"
CLASSES = (UPSTREAM, FORWARD, BACKWARD, FORWARD_FIRST, STATISTICS, PARAMETER)
DETERMINISTIC = "deterministic mode"

BY_NAME = {
    "Mint.add.0.forward.input.0": UPSTREAM,
    "Mint.add.0.forward.kwargs.alpha": UPSTREAM,
    "Mint.add.0.forward.output.0": FORWARD,
    "Mint.add.0.backward.input.0": FORWARD_FIRST,
    "Mint.add.0.backward.output.1": BACKWARD,
    "Cell.net.fc1.Dense.forward.3.input.1.mask": UPSTREAM,
    "Cell.net.fc1.Dense.forward.3.output.0": FORWARD,
    "Cell.net.fc1.Dense.forward.0.parameters.weight": PARAMETER,
    "Cell.net.fc1.Dense.backward.0.input.0": FORWARD_FIRST,
    "Cell.net.fc1.Dense.backward.0.output.0": BACKWARD,
    "Cell.net.fc1.Dense.parameters_grad.weight": BACKWARD,
    "Module.forward.Linear.forward.0.output.0": FORWARD,
    "Functional.batch_norm.0.forward.input.1": STATISTICS,
    "Primitive.bn.BatchNorm.0.forward.input.1": STATISTICS,
    "Functional.batch_norm.0.forward.input.0": UPSTREAM,
    "Functional.batch_norm.0.forward.input.10": UPSTREAM,
    "Functional.batch_norm.0.forward.output.0": FORWARD,
}


@pytest.mark.parametrize("name", BY_NAME)
def test_the_advice_follows_from_the_name(name):
    message = advice_on(name)
    assert [phrase for phrase in CLASSES if phrase in message] == [BY_NAME[name]]
    assert DETERMINISTIC not in message


@pytest.mark.parametrize(
    "word", ["conv2d", "conv3d", "matmul", "nll_loss", "layer_norm", "lstm", "LayerNorm", "Conv2D"]
)
def test_calls_that_may_vary_from_run_to_run_are_told_apart(word):
    for direction in ("forward", "backward"):
        assert DETERMINISTIC in advice_on(f"Mint.{word}.0.{direction}.output.0")
        assert DETERMINISTIC not in advice_on(f"Mint.{word}.0.{direction}.input.0")
    assert DETERMINISTIC not in advice_on(f"Mint.add.0.forward.output.{word}")


def test_a_value_saved_by_name_has_no_direction():
    assert "save what goes into it too" in advice_on("loss.0.debug")


def first_bad(rows, heading="Result"):
    """Number and name of the first bad row of those that are written; rows are names and verdicts."""
    found = []
    assert list(watch(iter(rows), [Column("NPU Name", ""), Column(heading, "")], found)) == rows
    return found


@pytest.mark.parametrize("heading", ["Result", "Accuracy Reached or Not"])
@pytest.mark.parametrize("verdict", ["No", "Different", "Warning"])
def test_the_first_bad_row_is_the_one(verdict, heading):
    rows = [
        ("Mint.a.0.forward.input.0", "Yes"),
        ("Mint.a.0.forward.output.0", "pass"),
        ("Mint.b.0.forward.input.0", ""),
        ("Mint.b.0.forward.output.0", "None"),
        ("Mint.c.0.forward.output.0", "N/A"),
        ("Mint.d.0.forward.output.0", "Unmatched"),
        ("Mint.e.0.forward.output.0", verdict),
        ("Mint.f.0.forward.output.0", verdict),
    ]
    assert first_bad(rows, heading) == [(6, "Mint.e.0.forward.output.0")]


def test_three_lines_are_written(tmp_path):
    path = tmp_path / "advisor.txt"
    write_advice(path, first_bad([("Mint.add.0.forward.output.0", "Yes"), ("Mint.add.0.forward.input.0", "No")]))
    line, suspect, text = path.read_text().splitlines()
    assert (line, suspect) == ("Line: 1", "Suspect Nodes: Mint.add.0.forward.input.0")
    assert text.startswith("Expert Advice: An input of the call already differs")


def test_where_no_row_is_bad_the_lines_say_by_whose_rules(tmp_path):
    path = tmp_path / "advisor.txt"
    for rows in ([], [("Mint.add.0.forward.input.0", "Yes")]):
        write_advice(path, first_bad(rows))
        line, suspect, text = path.read_text().splitlines()
        assert (line, suspect) == ("Line: NA", "Suspect Nodes: NA")
        # 8.1's rules pass what the column Verdict calls an error: the text must not say that nothing differs.
        assert text.startswith("Expert Advice: No row is bad by msprobe 8.1's rules")
        assert text.endswith("is in the columns Verdict and Reason.")


def test_a_name_cannot_add_lines(tmp_path):
    path = tmp_path / "advisor.txt"
    write_advice(path, [(0, "a\nLine: 9\ud800")])
    assert path.read_text().splitlines()[:2] == ["Line: 0", "Suspect Nodes: a?Line: 9?"]
    assert len(path.read_text().splitlines()) == 3


# What msprobe 8.1.1 named beside these tables.
NAMED = {
    "MS_MS_same_mix_stat": None,
    "MS_MS_same_mix_tensor": None,
    "MS_MS_same_mix_md5": None,
    "MS_MS_perturbed_mix_stat": None,
    "MS_MS_perturbed_mix_tensor": None,
    "MS_MS_perturbed_mix_md5": (1, "Primitive.dense.Dense.0.forward.input.1"),
}


@pytest.mark.parametrize("folder", NAMED)
def test_the_row_is_the_one_that_the_other_tool_names(folder, samples):
    headings, *rows = openpyxl.load_workbook(
        samples / "8.1.1/compare" / folder / "compare_result.xlsx"
    ).active.iter_rows(values_only=True)
    heading = "Accuracy Reached or Not" if "Accuracy Reached or Not" in headings else "Result"
    found = first_bad([(row[0], row[headings.index(heading)]) for row in rows], heading)
    assert found == ([NAMED[folder]] if NAMED[folder] else [])
