"""The line `Try:` after the answer: defaults by installed signatures, causes where they fit and where they do not."""

import importlib
import inspect
import json

import numpy as np
import pytest
from three_calls import printed

from msprobe.cli import main
from msprobe.compare.advice.defaults import DEFAULTS
from msprobe.compare.advice.known_causes import CAUSES, Case, hint, hint_of
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.dispatch import compare_paths, report_of
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import (
    Argument,
    ArgumentKind,
    Basis,
    Between,
    Computed,
    Dataflow,
    Difference,
    Divergence,
    Missing,
    OtherCall,
    Parameters,
    RunInput,
    Status,
    Unclear,
    UpdateCause,
    Updated,
    UpdateDifference,
    UpdateJudgement,
    UpdateVerdict,
)
from msprobe.compare.request import Request
from msprobe.compare.run import compare
from msprobe.findings.catalogue import comparison as kinds

MS, PT, ACROSS = ("mindspore", "mindspore"), ("pytorch", "pytorch"), ("mindspore", "pytorch")


@pytest.mark.mindspore
@pytest.mark.torch
@pytest.mark.parametrize("row", DEFAULTS, ids=lambda row: f"{row.owner}.{row.argument}")
def test_the_defaults_are_those_of_the_installed_frameworks(row):
    """Of each row the value, the place among positional arguments, and the page of its documentation."""
    pytest.importorskip({"mindspore": "mindspore", "pytorch": "torch"}[row.framework], reason="its signatures are read")
    module, _, name = row.owner.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    parameters = dict(inspect.signature(found.__init__ if inspect.isclass(found) else found).parameters)
    parameters.pop("self", None)
    assert parameters[row.argument].default == row.value
    assert type(parameters[row.argument].default) is type(row.value)
    if row.position >= 0:
        assert list(parameters).index(row.argument) == row.position
    assert row.source.endswith(f"/{row.owner}.html")


def computed(name, amount=0.0, **more):
    reasons = (Reason(Why.RESIDUAL, amount=amount, name="a"),) if amount else ()
    return Divergence(name, "", kinds.COMPUTES, Computed(Difference("output.0", "error", reasons), **more), "error")


def argument(name, place, target, golden):
    difference = Difference(place, "error", (Reason(Why.VALUES, name=place, target=target, golden=golden),))
    return Divergence(name, "", kinds.ARGUMENT, Argument(difference, ArgumentKind.VALUE), "error")


def updated(*differences):
    return Divergence("x", "", kinds.PARAMETERS, Updated(UpdateJudgement(1, (), differences)), "error")


def verdict(basis):
    return UpdateVerdict("w", "w", Status.DIFFERS, basis, 12.0)


def setting(cause, agreeing=0, **more):
    return UpdateDifference(cause, ("w",), agreeing, **more)


def parameters(*named, total=0):
    return Divergence("x", "", kinds.PARAMETERS, Parameters(named, total or len(named), None), "error")


def tokens(number, size=10):
    difference = Difference("input.0", "error", (Reason(Why.INTEGERS, number=number, size=size),))
    return Divergence("x", "", kinds.RUN_INPUTS, RunInput(difference), "error")


LN, GELU, BN = "Functional.layer_norm.0.forward", "Functional.gelu.0.forward", "Functional.batch_norm.0.forward"
DROP = "Functional.dropout.0.forward"

WRITTEN_OUT = OtherCall("target", ("Mint.pow.0.forward", "Mint.tanh.0.forward"))

FITTING = [
    ("default", argument(LN, "input.eps", 1e-7, 1e-5), ACROSS),
    ("default", argument(LN, "input.4", 1e-7, 1e-5), ACROSS),
    ("default", argument(LN, "input.eps", 1e-7, 1e-5), MS),  # nn.LayerNorm and mint.nn.LayerNorm
    ("default", argument("Cell.n.LayerNorm.forward.0", "input.epsilon", 1e-7, 1e-12), ACROSS),
    ("default", argument("Mint.rms_norm.0.forward", "input.epsilon", 1e-6, 1e-5), ACROSS),
    ("layer_default", computed("Cell.n.LayerNorm.forward.0"), ACROSS),
    ("gelu", computed(GELU, 1e-4), PT),
    ("gelu", computed("Cell.act.GELU.forward.0"), ACROSS),
    ("gelu", argument(GELU, "input.approximate", "tanh", "none"), PT),
    ("gelu", Divergence(GELU, "", kinds.STRUCTURE, WRITTEN_OUT, "error"), MS),
    ("complement", argument(BN, "input.momentum", 0.9, 0.1), ACROSS),
    ("complement", argument(DROP, "input.p", 0.9, 0.1), ACROSS),
    ("running_statistics", parameters("bn.moving_mean", "bn.moving_variance"), ACROSS),
    ("bias_correction", updated(setting(UpdateCause.BIAS_CORRECTION, factor=3.0)), ACROSS),
    ("bias_correction", updated(setting(UpdateCause.EPS, possible=(UpdateCause.BIAS_CORRECTION,))), MS),
    ("bias_correction", updated(setting(UpdateCause.BIAS_CORRECTION, factor=0.3)), PT),
    ("learning_rate_0", updated(setting(UpdateCause.NOT_UPDATED)), PT),
    ("learning_rate_0", updated(setting(UpdateCause.LEARNING_RATE, 3, target=0.0, golden=1e-3)), MS),
    ("clipping", updated(setting(UpdateCause.CLIPPING, golden=1.0)), ACROSS),
    ("clipping", updated(setting(UpdateCause.LEARNING_RATE, possible=(UpdateCause.CLIPPING,), factor=2.0)), PT),
    ("optimizer_default", updated(setting(UpdateCause.EPS, target=1.0000001e-6, golden=1e-8)), ACROSS),
    ("optimizer_default", updated(setting(UpdateCause.WEIGHT_DECAY, target=0.0, golden=0.01)), ACROSS),
    ("random", computed(DROP), MS),
    ("random", computed("Mint.bernoulli.0.forward"), MS),
    ("sample_order", tokens(9), MS),
]


@pytest.mark.parametrize(("cause", "finding", "frameworks"), FITTING)
def test_a_cause_is_named_where_the_data_of_a_finding_fit(cause, finding, frameworks):
    found = hint_of(Case(finding, frameworks, 1, "tensor"))
    assert found is not None
    assert found.cause == cause
    assert found.source.startswith("https://")


BESIDE = [
    (argument(LN, "input.eps", 3e-4, 2e-4), ACROSS),  # the default of neither side
    (argument(LN, "input.eps", 1e-5, 1e-3), PT),  # PyTorch has one default: the other value was chosen
    (argument(LN, "input.normalized_shape", [8], [4]), ACROSS),
    (argument("Mint.add.0.forward", "input.alpha", 1e-7, 1e-5), ACROSS),
    (argument(BN, "input.momentum", 0.9, 0.2), ACROSS),
    (argument(BN, "input.momentum", 0.9, 0.1), PT),  # no side counts from the other end
    (argument("Mint.add.0.forward", "input.alpha", 0.9, 0.1), ACROSS),
    (computed(LN), ACROSS),  # the eps of a function is recorded: it agrees
    (computed("Cell.n.LayerNorm.forward.0"), MS),
    (computed("Cell.n.LayerNorm.forward.0", is_beyond_inputs=True), ACROSS),
    (computed(GELU, 0.02), PT),  # more than the forms of GELU differ by
    (computed("Mint.matmul.0.forward"), ACROSS),
    (argument(DROP, "input.p", 0.2, 0.1), MS),
    (parameters("a.weight", "bn.moving_mean"), ACROSS),
    (parameters("bn.running_mean"), PT),
    (updated(setting(UpdateCause.NOT_UPDATED, agreeing=5)), PT),  # others are updated: not the learning rate
    (updated(setting(UpdateCause.LEARNING_RATE, factor=2.0, target=2e-3, golden=1e-3)), PT),
    (updated(setting(UpdateCause.EPS, target=1e-4, golden=1e-3)), ACROSS),
    (updated(setting(UpdateCause.WEIGHT_DECAY, target=0.1, golden=0.05)), ACROSS),
    (tokens(1), MS),
    (Divergence("x", "", kinds.CODE, Between(Difference("input.0", "error"), "", Dataflow.UNKNOWN), "error"), MS),
    (Divergence(DROP, "", kinds.CODE, Between(Difference("input.0", "error"), "", Dataflow.UNKNOWN), "error"), MS),
]


@pytest.mark.parametrize(("finding", "frameworks"), BESIDE)
def test_no_cause_is_named_where_the_data_do_not_fit(finding, frameworks):
    assert hint_of(Case(finding, frameworks, 0, "tensor")) is None


def test_every_cause_has_a_case_where_it_fits():
    assert {cause for cause, *_ in FITTING} == set(CAUSES) - {"initial_weights", "more_data"}  # these are below


@pytest.mark.parametrize(
    ("total", "step", "is_seed"), [(6, 0, True), (6, None, True), (1, 0, False), (4, 0, False), (6, 2, False)]
)
def test_seeds_are_named_where_most_initial_weights_differ_before_any_update(total, step, is_seed):
    found = hint_of(Case(parameters("a.weight", total=total), MS, step, "tensor", initial=8))
    assert (found is not None and found.cause == "initial_weights") == is_seed


@pytest.mark.parametrize(
    ("evidence", "step", "mode", "fits"),
    [
        (Unclear(Missing.UNJUDGED_INPUTS), 0, "digest", True),
        (Unclear(Missing.UNJUDGED_INPUTS), 0, "tensor", False),
        (Unclear(Missing.INPUTS, side="golden"), 0, "statistics", False),  # data_mode left them out
        (Parameters(("a.weight",), 1, 3), 3, "tensor", True),
        (Parameters(("a.weight",), 1, 3), 3, "statistics", True),
        (Parameters(("a.bias",), 1, 0), 0, "statistics", False),  # it differs from the beginning on: that is all
        (Updated(UpdateJudgement(3, (), (setting(UpdateCause.UNKNOWN),))), 3, "statistics", True),
        (Updated(UpdateJudgement(3, (), (setting(UpdateCause.UNKNOWN),))), 3, "tensor", False),
        (Updated(UpdateJudgement(3, (verdict(Basis.DRIFT),))), 3, "tensor", True),
        (Updated(UpdateJudgement(3, (verdict(Basis.GRADIENTS),))), 3, "tensor", False),
    ],
)
def test_more_data_are_asked_for_where_they_would_decide(evidence, step, mode, fits):
    found = hint_of(Case(Divergence("x", "", kinds.UNKNOWN, evidence, "error"), MS, step, mode))
    assert (found is not None and found.cause == "more_data") == fits


@pytest.fixture
def norms(builder, tensor, value):
    """Two dumps of one layer_norm whose eps differ, of MindSpore and PyTorch."""

    def make(target=1e-7, golden=1e-5, framework="pytorch"):
        folders = []
        for side, of, eps, call in (
            ("t", "mindspore", target, LN),
            ("g", framework, golden, LN),
        ):
            x = np.array([1.0, 2.0, 4.0, 8.0], np.float32)
            y = ((x - x.mean()) / np.sqrt(x.var() + eps * 1e4)).astype(np.float32)
            build = builder(side, framework=of)
            build.call(call, [tensor(x, "leaf"), value([4])], [y], kwargs={"eps": value(eps)})
            folders.append(build.write())
        return folders

    return make


def report(norms, tmp_path):
    """The head of the page of both dumps."""
    request = Request(*norms(), output=tmp_path / "page", html=True)
    return report_of(compare_paths(request), request).head


def test_a_known_cause_is_evidence_and_in_every_form(norms, tmp_path, capsys):
    target, golden = norms()
    out = tmp_path / "out"
    assert main(["compare", str(target), str(golden), "-o", str(out), "--format", "json"]) == 1
    lines = printed(capsys)
    assert lines[-1].startswith(f"first wrong call: {LN} in ")
    (known,) = [line for line in lines if line.startswith("  evidence: known cause: ")]
    line = known.replace("  evidence: known cause: ", "Try: ")
    assert line == (
        "Try: pass eps explicitly on both sides: the default of mindspore.nn.LayerNorm is 1e-07, that of "
        "torch.nn.LayerNorm is 1e-05"
    )
    table = json.loads(next(out.glob("compare_result*.json")).read_text())
    assert table["try"]["cause"] == "default"
    assert f"Try: {table['try']['text']}" == line
    assert table["try"]["source"].endswith("/mindspore.nn.LayerNorm.html")
    assert str(report(norms, tmp_path).answer.advice[0].text) == line


def test_the_workbook_and_the_summary_of_many_have_the_line(norms, tmp_path, capsys):
    from openpyxl import load_workbook

    target, golden = norms()
    out = tmp_path / "out"
    assert main(["compare", str(target), str(golden), "-o", str(out)]) == 1
    sheet = load_workbook(next(out.glob("*.xlsx")))["summary"]
    rows = {row[0].value: row[1].value for row in sheet.iter_rows(max_col=2)}
    assert rows["Try"].startswith("pass eps explicitly on both sides")
    capsys.readouterr()


def test_an_answer_without_a_known_cause_ends_with_the_answer(run, tmp_path, capsys):
    target, golden = run("t", "step0/rank", wrong={"step0/rank": "Mint.sin.0.forward"}), run("g", "step0/rank")
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "out"), "--format", "json"]) == 1
    assert printed(capsys)[-1].startswith("first wrong call: ")
    table = json.loads(next((tmp_path / "out").rglob("compare_result*.json")).read_text())
    assert table["try"] is None


def test_initial_weights_of_two_seeds_are_recognized_in_dumps(builder, tensor):
    dumps = []
    for side, seed in (("t", 1), ("g", 2)):
        random, build = np.random.default_rng(seed), builder(side)
        x = tensor(1.0, "leaf")
        for n in range(3):
            weight = random.standard_normal((4, 4)).astype(np.float32)
            name = f"Cell.{n}.Dense.forward.0"
            build.call(name, [x], [weight.sum(0)], parameters={"weight": weight, "bias": np.zeros(4, np.float32)})
            x = tensor(weight.sum(0), f"call {name}.output.0")
        dumps.append(build.dump())
    comparison = compare(*dumps)
    found = hint(comparison, locate(comparison).first)
    assert found.cause == "initial_weights"
