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


@pytest.mark.turns("published", 2)
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
    scores = tmp_path / "scores.json"
    options = ["--only", name, "--keep", tmp_path / "museum", "--scores", scores]
    subprocess.run([python(*modules), BENCHMARK / "run.py", *options], check=True, capture_output=True, timeout=300)
    score = json.loads(scores.read_text())[name]
    assert first in score["answer"]
    assert (score["failed"], score["named"], score["kind"], score["named_noisy"]) == ([], True, True, True)
    assert (score["twin"], score["twin_differs"]) == ("clean", True)
