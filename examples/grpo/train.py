"""Reinforcement learning of a small language model in the manner of GRPO, recorded by `MsProbe`.

    python train.py [--config FILE] [--set FIELD=VALUE ...] [--fault NAME] [--steps N]

`--set` replaces a field of the section `msprobe_config`. Prints the mean reward of every step.
"""

import argparse

import mindspore as ms
import numpy as np
import task
import yaml
from losses import CLIP, KL, ActorLoss, CriticLoss, Trainer
from mindspore import Tensor
from networks import TEMPERATURE, Actor, Critic, Rollout, initialised

from msprobe.mindspore import MsProbe

FAULTS = {
    "generate-temperature": "generation forgets the temperature",
    "generate-stale": "the weights of generation are those of the beginning: no update reaches them",
    "critic-gelu": "the GELU of the critic's second block is the approximation by tanh",
    "reference-eps": "the first LayerNorm of the reference's second block has an epsilon of 1e-3, not 1e-5",
    "log-prob-mask": "the old log-probabilities are computed with the padding of the prompts in sight",
    "advantage-std": "advantages are divided by the variance, not by its root",
    "update-clip": "the clipped loss takes the greater gain of two, not the lesser",
    "critic-mask": "the critic's loss counts padding",
}
SEED, MINI_BATCH, LEARNING_RATE = 7, 8, 0.003


def tensors(*arrays):
    return [Tensor(array) for array in arrays]


class Grpo:
    """The networks and one step of their training; every stage between its `debugger_start` and `debugger_stop`."""

    def __init__(self, fault=""):
        self.fault = fault
        self.actor = initialised(Actor(), SEED)
        self.reference = initialised(Actor(epsilon=1e-3 if fault == "reference-eps" else 1e-5), SEED)
        self.critic = initialised(Critic(fault), SEED + 1)
        self.rollout = Rollout(fault)
        self.rollout.take_weights_of(self.actor)
        self.update_actor = Trainer(ActorLoss(self.actor, fault), LEARNING_RATE, has_aux=True)
        self.update_critic = Trainer(CriticLoss(self.critic, fault), LEARNING_RATE)

    def generate(self, prompt_ids, prompt_mask, step):
        """Responses [B, R], padded after their EOS, their mask, and the log-probabilities they were drawn with."""
        shape = (len(prompt_ids), task.LONGEST_RESPONSE)
        # drawn at once, so that a response that ends earlier leaves the others their numbers
        drawn = np.random.default_rng([SEED, step, 1]).random(shape)
        responses = np.full(shape, task.PAD, np.int32)
        mask, log_prob = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        MsProbe.debugger_start(self.rollout, "actor_generate_sequences")
        for t in range(task.LONGEST_RESPONSE):
            so_far = np.concatenate([prompt_ids, responses[:, :t]], 1), np.concatenate([prompt_mask, mask[:, :t]], 1)
            of_next = self.rollout(*tensors(*so_far)).asnumpy()
            chances = np.exp(of_next.astype(np.float64)).cumsum(1)
            token = (chances < drawn[:, t, None] * chances[:, -1:]).sum(1)
            going_on = np.ones(shape[0], bool) if t == 0 else (mask[:, t - 1] == 1) & (responses[:, t - 1] != task.EOS)
            responses[going_on, t], mask[going_on, t] = token[going_on], 1
            log_prob[going_on, t] = of_next[going_on, token[going_on]]
        MsProbe.debugger_stop("actor_generate_sequences")
        return responses, mask, log_prob

    def forward(self, model, stage, *given):
        MsProbe.debugger_start(model, stage)
        result = model(*tensors(*given)).asnumpy()
        MsProbe.debugger_stop(stage)
        return result

    def step(self, step):
        """One step of training; gives its mean reward."""
        prompts, prompt_mask = task.prompts(SEED, step)
        responses, mask, rollout_log_prob = self.generate(prompts, prompt_mask, step)
        rewards = task.rewards(prompts, responses, mask)
        MsProbe.save_data({"prompts": Tensor(prompts), "prompt_mask": Tensor(prompt_mask)})
        MsProbe.save_data({"prompt_lengths": Tensor(prompt_mask.sum(1, dtype=np.int32))})
        MsProbe.save_data({"responses": Tensor(responses), "response_mask": Tensor(mask)})
        MsProbe.save_data({"rollout_log_prob": Tensor(rollout_log_prob), "rewards": Tensor(rewards)})
        MsProbe.save_string_list("generated_text", [task.text(ids) for ids in responses])

        ids, seen = np.concatenate([prompts, responses], 1), np.concatenate([prompt_mask, mask], 1)
        ref_log_prob = self.forward(self.reference, "reference_compute_log_prob", ids, seen)
        values = self.forward(self.critic, "critic_compute_values", ids, seen)
        seen_by_old = np.concatenate([np.ones_like(prompt_mask), mask], 1) if self.fault == "log-prob-mask" else seen
        old_log_prob = self.forward(self.actor, "actor_compute_log_prob", ids, seen_by_old)
        advantages = task.advantages(rewards, values, mask, self.fault)
        MsProbe.save_data({"ref_log_prob": Tensor(ref_log_prob), "values": Tensor(values)})
        MsProbe.save_data({"old_log_prob": Tensor(old_log_prob), "advantages": Tensor(advantages)})

        self.update(ids, seen, old_log_prob, ref_log_prob, advantages, mask)
        MsProbe.debugger_start(self.update_critic.loss, "critic_update")
        for some in self.mini_batches():
            loss = self.update_critic(*tensors(ids[some], seen[some], rewards[some], mask[some]))
            MsProbe.save_data({"critic_loss": loss})
        MsProbe.debugger_stop("critic_update")
        if self.fault != "generate-stale":
            self.rollout.take_weights_of(self.actor)
        return rewards.mean()

    def update(self, *batch):
        MsProbe.debugger_start(self.update_actor.loss, "actor_update")
        for some in self.mini_batches():
            loss, kl_loss, log_prob = self.update_actor(*tensors(*(array[some] for array in batch)))
            MsProbe.save_data({"log_prob": log_prob, "kl_loss": kl_loss, "loss": loss})
        MsProbe.debugger_stop("actor_update")

    @staticmethod
    def mini_batches():
        """Every second sequence, then the others: each has half of every group."""
        size = task.PROMPTS * task.GROUP
        return [slice(first, size, size // MINI_BATCH) for first in range(size // MINI_BATCH)]


def train(config, fault="", steps=3):
    """Train, recorded as the section `config` says; prints the mean reward of every step. Gives what was trained."""
    training = Grpo(fault)
    MsProbe.config_init(config)
    MsProbe.save_configs(
        {
            "actor": {"learning_rate": LEARNING_RATE, "dtype": ms.float32},
            "rl": {"clip": CLIP, "kl": KL, "temperature": TEMPERATURE, "seed": SEED, "steps": steps},
        }
    )
    for step in range(steps):
        reward = training.step(step)
        MsProbe.step()
        print(f"step {step} reward {reward:.4f}", flush=True)
    return training


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="config.yaml", help="a YAML file with the section msprobe_config")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="may be repeated")
    parser.add_argument("--fault", choices=FAULTS, default="", help="the mistake to plant, default: none")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()

    with open(args.config) as file:
        config = yaml.safe_load(file)["msprobe_config"]
    config.update((field, yaml.safe_load(value)) for field, value in (given.split("=", 1) for given in args.set))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    # networks as small as these would wait for threads ten times as long as they compute
    ms.runtime.launch_blocking()
    ms.device_context.cpu.op_tuning.threads_num(1)
    train(config, args.fault, args.steps)


if __name__ == "__main__":
    main()
