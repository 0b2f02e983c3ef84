"""A2C was tuned with an RMSprop that adds epsilon inside the root; PyTorch's adds it outside."""

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors

SOURCE = "DLR-RM/stable-baselines3#110"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(kinds=("parameters differ",), parameters=("first.", "second.", "head."), step=1)
RATE, ALPHA, EPSILON = 7e-3, 0.99, 1e-5


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop of TensorFlow: the mean square begins with 1, epsilon is inside the root."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            square = self.state[p].setdefault("square", torch.ones_like(p))
            square.mul_(ALPHA).addcmul_(p.grad, p.grad, value=1 - ALPHA)
            p.addcdiv_(p.grad, (square + EPSILON).sqrt(), value=-RATE)


def train(run):
    actor = Classifier()
    parameters = list(actor.parameters())
    optimizer = torch.optim.RMSprop(parameters, RATE, ALPHA, EPSILON) if run.buggy else RMSpropTF(parameters)
    for step in run.steps(actor):
        advantages = vectors(step, 3, shape=(8,))
        log_probs = torch.log_softmax(actor(vectors(step)), -1).gather(1, labels(step)[:, None]).squeeze(1)
        loss = -(advantages * log_probs).mean()
        loss.backward()
        run.update(optimizer, loss)
