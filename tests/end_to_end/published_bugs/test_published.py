"""A sample of `benchmarks/published`: a published bug is named, and its fix in another order of sums is left alone."""

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from preloaded import python

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "published"


@pytest.fixture(scope="module")
def cases():
    spec = spec_from_file_location("published_case", BENCHMARK / "case.py")
    module = module_from_spec(spec)
    sys.modules["published_case"] = module
    spec.loader.exec_module(module)
    return module.load_all()


def test_every_case_has_a_source_and_a_truth(cases):
    assert len(cases) >= 50
    for case in cases:
        assert case.source, case.name
        assert case.truth.kinds, case.name
        assert case.truth.calls or case.truth.parameters, case.name
        assert case.framework in ("pytorch", "mindspore")


@pytest.mark.turns("published", 1)
@pytest.mark.parametrize(
    ("name", "first"),
    [
        pytest.param(
            "gemma_exact_gelu",
            "Functional.gelu.0.forward in blocks.0.mlp: argument differs",
            marks=pytest.mark.torch,
        ),
        pytest.param(
            "generic_init_overwrites", "parameters differ: 1 parameter differs: decay", marks=pytest.mark.mindspore
        ),
    ],
)
def test_a_published_bug_is_named(name, first, tmp_path, cases):
    (case,) = (case for case in cases if case.name == name)
    modules = ("torch", "torch._dynamo") if case.framework == "pytorch" else ("mindspore",)
    scores, other = tmp_path / "scores.json", tmp_path / "other.json"
    answer = {"outcome": "other call", "twin": "green", "twin_answer": {}}
    other.write_text(json.dumps({name: {"table": answer, "diff_analyze": answer}}))
    options = ["--only", name, "--keep", tmp_path / "museum", "--scores", scores, "--other", other]
    done = subprocess.run(
        [python(*modules), BENCHMARK / "run.py", *options], check=True, capture_output=True, text=True, timeout=300
    )
    assert "| other call, twin green |" in done.stdout
    score = json.loads(scores.read_text())[name]
    assert first in score["answer"]
    assert (score["failed"], score["named"], score["kind"], score["named_noisy"]) == ([], True, True, True)
    assert (score["twin"], score["twin_differs"]) == ("clean", True)


CALLS = {
    "Functional.linear.0.forward": "Module.second.Linear.forward.0",
    "Module.second.Linear.forward.0": None,
    "Tensor.sum.0.forward": None,
}
JUDGE = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import case, other
folder, wanted = Path(sys.argv[2]), case.load(case.CASES / "layer_replaced_after_optimizer.py")
step, row = sys.argv[3:]
print(json.dumps(other.judged(wanted, folder / step, folder / step, 0, [row])))
"""


@pytest.mark.parametrize(
    ("step", "row", "outcome", "strict"),
    [
        ("step1", "Functional.linear.0.forward.output.0", "named", False),
        ("step1", "Module.second.Linear.forward.0.output.0", "named", False),
        ("step1", "Module.second.Linear.forward.0.parameters.weight", "named", True),
        ("step0", "Module.second.Linear.forward.0.parameters.weight", "other call", False),
        ("step1", "Tensor.sum.0.forward.output.0", "other call", False),
    ],
)
def test_a_row_of_the_other_tool_names_a_parameter_or_the_cell_that_has_it(step, row, outcome, strict, tmp_path):
    folder = tmp_path / step / "rank0"
    folder.mkdir(parents=True)
    (folder / "construct.json").write_text(json.dumps(CALLS))
    data = {name: {"parameters": {"weight": {}}} if "Module" in name else {} for name in CALLS}
    (folder / "dump.json").write_text(json.dumps({"data": data}))
    command = [sys.executable, "-c", JUDGE, BENCHMARK, tmp_path, step, row]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (answer["outcome"], answer["strict"]) == (outcome, strict)
