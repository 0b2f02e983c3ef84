"""Episodes that end by the time limit are treated as terminal: their next value is not bootstrapped."""

import torch
from case import Truth
from on_pytorch import Classifier, vectors
from torch.nn import functional as F
from training import integers

SOURCE = "DLR-RM/stable-baselines3#633"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("argument differs", "structure differs"),
    calls=("Tensor.__rsub__.0.forward @ ", "Tensor.__add__.0.forward @ ", "Tensor.__mul__.* @ "),
)


def train(run):
    critic = Classifier(classes=1)
    optimizer = torch.optim.Adam(critic.parameters(), 1e-2)
    for step in run.steps(critic):
        observations, following, rewards = vectors(step), vectors(step, 1), vectors(step, 2, shape=(8,))
        ended = torch.from_numpy(integers(step, 3, shape=8, below=3))
        terminated, truncated = (ended == 1).float(), (ended == 2).float()
        with torch.no_grad():
            done = terminated + truncated if run.buggy else terminated
            targets = rewards + 0.99 * (1 - done) * critic(following).squeeze(-1)
        loss = F.mse_loss(critic(observations).squeeze(-1), targets)
        loss.backward()
        run.update(optimizer, loss)
