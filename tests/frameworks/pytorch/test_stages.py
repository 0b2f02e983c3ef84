"""Reinforcement learning: several configurations and models in one process, started stage after stage in each step."""

import json

import pytest
import torch
from torch import nn

from msprobe.base.errors import UsageError
from msprobe.pytorch import PrecisionDebugger

pytestmark = pytest.mark.torch


@pytest.fixture
def stages(tmp_path):
    """Constructs, from a file of its own, a stage's debugger: as each worker does each time, with equal settings."""

    def debugger(stage, **settings):
        config = tmp_path / f"{stage}.json"
        config.write_text(json.dumps({"dump_path": str(tmp_path / stage), "level": "mix", **settings}))
        return PrecisionDebugger(config_path=str(config))

    yield debugger
    for each in list(PrecisionDebugger._known.values()):
        each._end_step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = nn.Linear(3, 3)

    def forward(self, x):
        return torch.softmax(self.policy(x), -1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(3, 1)

    def forward(self, x):
        return self.value(x)


def read(folder, step):
    return json.loads((folder / f"step{step}" / "rank" / "dump.json").read_text())["data"]


def test_each_stage_has_its_own_folder_and_numbers(stages, tmp_path):
    actor, critic, x = Actor(), Critic(), torch.ones(2, 3)
    for step in range(2):
        generate = stages("actor_generate_sequences", level="L0", step=[0, 1])
        generate.start(actor, token_range=[1, 1])
        with torch.no_grad():
            for token in range(3):
                actor(x * (token + 1 + 10 * step))
        generate.stop()
        values = stages("critic_compute_values")
        values.start(critic)
        values_of = critic(x)
        values.stop()
        update = stages("actor_update")
        update.start({"actor": actor, "critic": critic})
        (actor(x).log().sum() + critic(x).sum() + values_of.detach().sum()).backward()
        update.stop()
        for debugger in (generate, values, update):
            debugger.step()
    for step in range(2):
        generated = read(tmp_path / "actor_generate_sequences", step)
        assert list(generated) == ["Module.policy.Linear.forward.0"]
        assert generated["Module.policy.Linear.forward.0"]["input_args"][0]["Max"] == 2.0 + 10 * step
        valued = read(tmp_path / "critic_compute_values", step)
        assert list(valued) == ["Functional.linear.0.forward", "Module.value.Linear.forward.0"]
        updated = read(tmp_path / "actor_update", step)
        modules = [n for n in updated if n.startswith("Module") and "forward" in n]
        assert modules == ["Module.actor.policy.Linear.forward.0", "Module.critic.value.Linear.forward.0"]
        assert updated["Module.critic.value.Linear.forward.0"]["at"] == {"model": 1}
        assert "Module.actor.policy.Linear.parameters_grad" in updated


def test_a_stage_ends_before_the_next_begins(stages):
    first, second = stages("one"), stages("two")
    first.start(Actor())
    with pytest.raises(UsageError, match="already started; call its stop"):
        second.start(Critic())
    first.stop()
    second.start(Critic())
    second.stop()


def test_a_gradient_that_comes_while_another_stage_is_open_goes_where_its_call_is(stages, tmp_path):
    first, second, actor, critic = stages("one"), stages("two"), Actor(), Critic()
    x = torch.ones(1, 3, requires_grad=True)
    first.start(actor)
    out = actor(x)
    first.stop()
    second.start(critic)
    critic(out).sum().backward()
    second.stop()
    first.step()
    second.step()
    one, two = read(tmp_path / "one", 0), read(tmp_path / "two", 0)
    assert "Functional.linear.0.backward" in one
    assert "Module.policy.Linear.backward.0" in one
    assert [n for n in two if "backward" in n] == [
        *("Tensor.sum.0.backward", "Functional.linear.0.backward", "Module.value.Linear.backward.0")
    ]


def test_equal_settings_are_one_debugger_and_one_folder_takes_no_other(stages, tmp_path):
    first = stages("one")
    assert stages("one") is first
    other = PrecisionDebugger(dump_path=str(tmp_path / "one"), level="L0")
    model = torch.nn.Sequential(torch.nn.ReLU())
    other.start(model)
    model(torch.ones(2))
    other.stop()
    other.step()
    assert sorted(path.name for path in tmp_path.glob("one*/step0")) == ["step0"]
    assert (tmp_path / "one_2/step0/rank/dump.json").is_file()
    other.service.config.dump_path = other.service.config.dump_path
    assert other.service.config.dump_path == str(tmp_path / "one_2"), "as code that puts back what it found"
    assert other.monitor(torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)) is None
