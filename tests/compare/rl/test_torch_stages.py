"""Stages of a debugger of PyTorch, really collected: the fault that was planted is the answer, and the only one."""

import pytest

torch = pytest.importorskip("torch", reason="its models are what is collected here")

from msprobe.pytorch import PrecisionDebugger  # noqa: E402  # only where the framework is

pytestmark = pytest.mark.torch


class Policy(torch.nn.Module):
    def __init__(self, seed, eps=1e-5):
        super().__init__()
        torch.manual_seed(seed)
        self.body, self.norm, self.head = torch.nn.Linear(4, 8), torch.nn.LayerNorm(8, eps), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.body(x))))


def train(root, eps=1e-5, shift=0.0):
    """Two steps of sample, score, learn. All are called by one line, and the names sort otherwise."""
    debugger = PrecisionDebugger(dump_path=str(root), level="mix")
    actor, judge = Policy(1), Policy(2, eps)
    optimizer = torch.optim.SGD(actor.parameters(), 0.1)

    for step in range(2):
        x = torch.linspace(-1.0, 1.0 + step, 8).reshape(2, 4)
        scores = None
        for name, model in (("sample", actor), ("score", judge), ("learn", actor)):
            stage = debugger.stage(name)
            stage.start(model)
            with torch.set_grad_enabled(name == "learn"):
                out = model(x)
            if name == "learn":
                optimizer.zero_grad()
                (out - scores).pow(2).mean().backward()
            stage.stop()
            scores = out + shift if shift else out
        optimizer.step()
        debugger.step()
    debugger._retire()


@pytest.fixture
def two(roots):
    """`two(eps=0.1)`: the target with a fault, the golden without."""

    def make(**fault):
        for root, inputs in zip(roots, (fault, {}), strict=True):
            (root.path / "configurations.json").unlink()
            train(root.path, **inputs)

    return make


def test_equal_runs_are_equal_and_in_the_order_of_the_step(two, compare):
    two()
    code, lines, whole = compare()
    assert code == 0
    assert "order of the stages in a step: sample, score, learn" in lines
    assert [at["stage"] for at in whole["walk"]] == ["sample", "score", "learn"] * 2


def test_a_fault_in_one_stage_is_named_and_what_takes_its_result_begins_nothing(two, compare, summary):
    two(eps=0.1)
    _, lines, whole = compare()
    assert summary(lines)["first difference"] == "step 0, rank 0, stage score, call Functional.layer_norm.0.forward"
    assert summary(lines)["why"].endswith(": all other inputs of the call agrees")
    assert summary(lines)["first wrong call"].startswith(
        "Functional.layer_norm.0.forward in norm: argument differs: input.4 is 0.1, golden 1e-05 ("
    )
    assert [at["role"] for at in whole["walk"][:3]] == ["agrees", "begins", "received"]
    assert not [line for line in lines if line.startswith("another difference")]


def test_a_tensor_that_was_changed_between_two_stages_is_not_blamed_on_the_call_that_takes_it(two, compare, summary):
    two(shift=0.25)
    result = summary(compare()[1])
    assert result["first difference"] == "step 0, rank 0, stage learn, call Tensor.__sub__.0.forward"
    assert result["why"] == (
        "the difference starts in the inputs of the call, which come from outside the stage or from its code "
        "between two calls"
    )
