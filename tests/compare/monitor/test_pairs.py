"""Targets of two forms, two frameworks, and cut names are paired; what fits twice is not."""

import pytest

from msprobe.compare.monitor.pairing import pair_targets
from msprobe.store.monitor.table import Target

CASES = [
    # kind, A, B, pairs of names
    (
        "actv",
        ["fc.input", "fc.output"],
        ["fc.input.0", "fc.output.0"],
        ["fc.input=fc.input.0", "fc.output=fc.output.0"],
    ),
    (
        "actv",
        ["fc.input_0", "fc.input_1"],
        ["fc.input.0", "fc.input.1"],
        ["fc.input_0=fc.input.0", "fc.input_1=fc.input.1"],
    ),
    (
        "actv_grad",
        ["fc.output", "fc.input"],
        ["fc.grad_output.0", "fc.grad_input.0"],
        ["fc.output=fc.grad_output.0", "fc.input=fc.grad_input.0"],
    ),
    ("exp_avg", ["fc.weight"], ["fc.weight.exp_avg"], ["fc.weight=fc.weight.exp_avg"]),
    ("exp_avg_sq", ["fc.weight"], ["fc.weight.exp_avg_sq"], ["fc.weight=fc.weight.exp_avg_sq"]),
    ("param_origin", ["0.weight"], ["layers.0.weight"], ["0.weight=layers.0.weight"]),
    ("param_origin", ["layers.0.weight"], ["0.weight"], ["layers.0.weight=0.weight"]),
    ("param_origin", ["0.weight"], ["encoder.0.weight", "decoder.0.weight"], []),
    ("param_origin", ["weight", "bias"], ["norm.weight", "norm.bias"], ["weight=norm.weight", "bias=norm.bias"]),
    (
        "param_origin",
        ["norm.gamma", "norm.beta"],
        ["norm.weight", "norm.bias"],
        ["norm.gamma=norm.weight", "norm.beta=norm.bias"],
    ),
    ("param_origin", ["emb.embedding_table"], ["emb.weight"], ["emb.embedding_table=emb.weight"]),
    ("grad_reduced", ["a.weight", "b.weight"], ["b.weight", "c.weight"], ["b.weight=b.weight"]),
    ("actv", ["0.fc.input"], ["layers.0.fc.input.0", "layers.1.fc.input.0"], ["0.fc.input=layers.0.fc.input.0"]),
]


@pytest.mark.parametrize(("kind", "a", "b", "pairs"), CASES)
def test_targets_are_paired(kind, a, b, pairs):
    found = pair_targets(kind, [Target(0, name) for name in a], [Target(0, name) for name in b])
    assert sorted(f"{a[one]}={b[other]}" for one, other in found.items()) == sorted(pairs)


def test_an_exact_name_comes_before_any_other():
    found = pair_targets("actv", [Target(0, "fc.input"), Target(0, "fc.input_0")], [Target(0, "fc.input_0")])
    assert found == {1: 0}


def test_model_chunks_are_kept_apart():
    assert pair_targets("param_origin", [Target(0, "w"), Target(1, "w")], [Target(1, "w"), Target(0, "w")]) == {
        0: 1,
        1: 0,
    }
