"""GRPO divides advantages by the deviation of each group, which weights questions by their difficulty."""

import torch
from case import Truth
from on_pytorch import Gpt, tokens, vectors

SOURCE = "huggingface/trl#3135"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("structure differs",),
    calls=("Tensor.std.* @ ", "Tensor.__truediv__.* @ ", "Tensor.__add__.* @ "),
)


def train(run):
    policy = Gpt()
    optimizer = torch.optim.AdamW(policy.parameters(), 1e-2)
    for step in run.steps(policy):
        ids, rewards = tokens(step), vectors(step, 3, shape=(2, 2))  # two groups of two answers
        advantages = rewards - rewards.mean(1, keepdim=True)
        if run.buggy:
            advantages = advantages / (rewards.std(1, keepdim=True) + 1e-4)
        log_probs = torch.log_softmax(policy(ids[:, :-1]), -1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        ratio = torch.exp(log_probs - log_probs.detach())
        loss = -(torch.min(ratio, ratio.clamp(0.8, 1.2)) * advantages.view(-1, 1)).mean()
        loss.backward()
        run.update(optimizer, loss)
