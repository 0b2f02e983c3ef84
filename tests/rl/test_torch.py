"""The same flow with PyTorch: the same trees and names, and the training's bits."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="its models are what is trained here")

from msprobe.base.errors import UsageError  # noqa: E402  # only where the framework is
from msprobe.core import MsProbe  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

ON = {
    **{"msprobe": True, "key_data_dump": True, "actor_infer_dump": True, "actor_train_dump": True},
    **{"reference_dump": True, "token_range_start": 1, "token_range_end": 1, "step_start": 1, "step_end": 1},
    "stage_configs": {"actor_update": {"level": "mix"}},
}


class Policy(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.body, self.head = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def train():
    actor, reference = Policy(1), Policy(2)
    optimizer = torch.optim.SGD(actor.parameters(), 0.1)
    for step in range(3):
        x = torch.full((2, 3), float(step))
        MsProbe.debugger_start(actor, "actor_generate_sequences")
        with torch.no_grad():
            for token in range(3):
                actor(x + token)
        MsProbe.debugger_stop("actor_generate_sequences")
        MsProbe.debugger_start(reference, "reference_compute_log_prob")
        ref = torch.log_softmax(reference(x), -1).detach()
        MsProbe.debugger_stop("reference_compute_log_prob")
        MsProbe.save_data("ref_log_prob", ref)
        MsProbe.save_data("half", [ref.bfloat16(), ref > 0])
        MsProbe.save_data({"values": ref})

        MsProbe.debugger_start(actor, "actor_update")
        loss = (torch.log_softmax(actor(x), -1) - ref).pow(2).mean()
        MsProbe.debugger_stop("actor_update")
        MsProbe.debugger_start(actor, "actor_compute_log_prob")
        actor(x)
        MsProbe.debugger_stop("actor_compute_log_prob")
        optimizer.zero_grad()
        loss.backward()  # behind the stop of its stage, and behind the start of another one of the same model
        optimizer.step()
        MsProbe.step()
    return [parameter.detach().numpy().tobytes() for parameter in actor.parameters()]


def test_a_flow_with_pytorch_leaves_the_same_trees_and_every_bit_of_the_training(logged):
    bare = train()
    MsProbe.config_init(ON)
    assert train() == bare
    assert logged == []
    found = [
        p.relative_to("msprobe_dump") for p in Path("msprobe_dump").rglob("*") if p.is_file() and p.name != "run.jsonl"
    ]
    stages = ("actor_compute_log_prob", "actor_generate_sequences", "actor_update", "reference_compute_log_prob")
    layers = [f"{s}/step1/rank0/{file}.json" for s in stages for file in ("construct", "dump", "stack")]
    data = []
    for step in range(3):
        data += [f"data/ref_log_prob/step{step}/rank0/ref_log_prob_float32_{3 * step}.npy"]
        data += [f"data/half/step{step}/rank0/half.0_float32_{3 * step + 1}.npy"]
        data += [f"data/half/step{step}/rank0/half.1_bool_{3 * step + 2}.npy"]
        data += [f"data/values/step{step}/rank0/micro_step0/values.{end}" for end in ("json", "npy")]
    assert sorted(str(p) for p in found if p.name != "saves.jsonl") == sorted([*layers, *data])
    index = Path("msprobe_dump/data/half/step0/rank0/saves.jsonl").read_text().splitlines()
    assert [(r["type"], r["dtype"]) for r in map(json.loads, index)] == [
        ("torch.Tensor", "torch.bfloat16"),
        ("torch.Tensor", "torch.bool"),
    ]

    def names(stage):
        return list(json.loads(Path(f"msprobe_dump/{stage}/step1/rank0/dump.json").read_text())["data"])

    assert names("actor_generate_sequences") == ["Module.body.Linear.forward.0", "Module.head.Linear.forward.0"]
    gradients = {
        "Module.head.Linear.backward.0",
        "Module.head.Linear.parameters_grad",
        "Module.body.Linear.parameters_grad",
    }
    assert gradients <= set(names("actor_update"))
    assert not [name for name in names("actor_compute_log_prob") if "grad" in name or "backward" in name]


@pytest.mark.parametrize("gradients", ["own", "hooks"])
def test_a_backward_behind_another_stage_is_recorded_in_its_own(gradients, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "dump", "level": "L0", "gradients": gradients}))
    debugger = PrecisionDebugger(str(config))
    net, other = Policy(1), Policy(2)
    try:
        debugger.stage("update").start(net)
        loss = net(torch.ones(1, 3)).sum()
        debugger.stage("update").stop()
        debugger.stage("score").start([net, other])
        other(torch.ones(1, 3))
        loss.backward()
        debugger.stage("score").stop()
        debugger.step()
    finally:
        PrecisionDebugger._known.clear()
        PrecisionDebugger._latest = None
    names = {
        s: list(json.loads(Path(f"dump/{s}/step0/rank/dump.json").read_text())["data"]) for s in ("update", "score")
    }
    late = {"Module.head.Linear.backward.0", "Module.head.Linear.parameters_grad", "Module.body.Linear.parameters_grad"}
    assert late <= set(names["update"])
    assert not [name for name in names["score"] if "grad" in name or "backward" in name]


def test_models_of_two_frameworks_do_not_meet_in_one_flow():
    ms = pytest.importorskip("mindspore", reason="the other framework")
    MsProbe.config_init({**ON, "step_start": 0})
    MsProbe.debugger_start(Policy(1), "actor_update")
    MsProbe.debugger_stop("actor_update")
    with pytest.raises(
        UsageError, match="reference_compute_log_prob is of a different framework than those of other stages"
    ):
        MsProbe.debugger_start(ms.nn.ReLU(), "reference_compute_log_prob")
    np.testing.assert_equal(MsProbe.enabled, True)


def test_an_update_that_is_not_collected_leaves_nothing_in_the_stages_before_it():
    """A model that generates and is trained, as the actor is, where only its generation is collected."""
    net, x = torch.nn.Sequential(torch.nn.Linear(3, 2)), torch.ones(2, 3)
    MsProbe.config_init({"msprobe": True, "actor_infer_dump": True, "critic_train_dump": True})
    MsProbe.debugger_start(net, "actor_generate_sequences")
    with torch.no_grad():
        net(x)
    MsProbe.debugger_stop("actor_generate_sequences")
    net(x).sum().backward()
    MsProbe.debugger_start(net, "critic_update")
    loss = net(x).sum()
    MsProbe.debugger_stop("critic_update")
    loss.backward()
    MsProbe.step()
    forward, own = ["Module.0.Linear.forward.0"], ["Module.0.Linear.backward.0", "Module.0.Linear.parameters_grad"]
    for stage, expected in (("actor_generate_sequences", forward), ("critic_update", forward + own)):
        dump = json.loads(Path("msprobe_dump", stage, "step0/rank0/dump.json").read_text())
        assert sorted(dump["data"]) == sorted(expected)
