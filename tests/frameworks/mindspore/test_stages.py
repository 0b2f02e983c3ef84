"""Reinforcement learning: several configurations and models in one process, started stage after stage in each step."""

import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.frameworks.mindspore.autograd import HAS_NODES
from msprobe.mindspore import PrecisionDebugger

pytestmark = pytest.mark.mindspore


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


class Actor(nn.Cell):
    def __init__(self):
        super().__init__()
        self.policy = nn.Dense(3, 3)

    def construct(self, x):
        return ops.softmax(self.policy(x))


class Critic(nn.Cell):
    def __init__(self):
        super().__init__()
        self.value = nn.Dense(3, 1)

    def construct(self, x):
        return self.value(x)


def read(folder, step):
    return json.loads((folder / f"step{step}" / "rank" / "dump.json").read_text())["data"]


@pytest.mark.skipif(not HAS_NODES, reason="without autograd nodes nothing tells whose calls a backward passes")
def test_each_stage_has_its_own_folder_and_numbers(stages, tmp_path):
    actor, critic, x = Actor(), Critic(), Tensor(np.ones((2, 3), np.float32))
    weights = ms.ParameterTuple([*actor.trainable_params(), *critic.trainable_params()])
    loss = ms.value_and_grad(lambda: ops.log(actor(x)).sum() + critic(x).sum(), None, weights)
    for step in range(2):
        generate = stages("actor_generate_sequences", level="L0")
        generate.start(actor, token_range=[1, 1])
        for token in range(3):
            actor(x * (token + 1 + 10 * step))
        generate.stop()
        values = stages("critic_compute_values")
        values.start(critic)
        critic(x)
        values.stop()
        update = stages("actor_update")
        update.start({"actor": actor, "critic": critic})
        loss()
        update.stop()
        for debugger in (generate, values, update):
            debugger.step()
    for step in range(2):
        generated = read(tmp_path / "actor_generate_sequences", step)
        assert list(generated) == ["Cell.policy.Dense.forward.0"]
        assert generated["Cell.policy.Dense.forward.0"]["input_args"][0]["Max"] == 2.0 + 10 * step
        valued = read(tmp_path / "critic_compute_values", step)
        assert [n for n in valued if n.startswith("Cell")] == ["Cell.value.Dense.forward.0"]
        updated = read(tmp_path / "actor_update", step)
        cells = [n for n in updated if n.startswith("Cell") and "forward" in n]
        assert cells == ["Cell.actor.policy.Dense.forward.0", "Cell.critic.value.Dense.forward.0"]
        assert updated["Cell.critic.value.Dense.forward.0"]["at"] == {"model": 1}
        assert "Cell.actor.policy.Dense.parameters_grad" in updated
