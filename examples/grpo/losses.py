"""What is minimised: the clipped loss of the actor with its distance from the reference, and the loss of the critic.

Log-probabilities, advantages, values and masks are [b, R], for b sequences of a mini-batch.
"""

import mindspore as ms
from mindspore import nn, ops

CLIP, KL = 0.2, 0.04


def mean_over(values, mask):
    return (values * mask).sum() / mask.sum()


class ClippedSurrogate(nn.Cell):
    """-min(ratio A, clip(ratio) A): an update gains nothing by a ratio outside 1 - CLIP .. 1 + CLIP."""

    def __init__(self, fault=""):
        super().__init__()
        self.lesser = ops.maximum if fault == "update-clip" else ops.minimum

    def construct(self, log_prob, old_log_prob, advantages, mask):
        ratio = ops.exp(log_prob - old_log_prob)
        gain = self.lesser(ratio * advantages, ops.clamp(ratio, 1 - CLIP, 1 + CLIP) * advantages)
        return mean_over(-gain, mask)


class Distance(nn.Cell):
    """The estimate of KL(actor || reference) that is never negative: exp(d) - d - 1, d = reference - actor."""

    def construct(self, log_prob, ref_log_prob, mask):
        d = ref_log_prob - log_prob
        return mean_over(ops.exp(d) - d - 1, mask)


class ActorLoss(nn.Cell):
    """(loss, kl loss, log-probabilities) of a mini-batch."""

    def __init__(self, actor, fault=""):
        super().__init__()
        self.actor, self.surrogate, self.distance = actor, ClippedSurrogate(fault), Distance()

    def construct(self, ids, mask, old_log_prob, ref_log_prob, advantages, response_mask):
        log_prob = self.actor(ids, mask)
        kl = self.distance(log_prob, ref_log_prob, response_mask)
        return self.surrogate(log_prob, old_log_prob, advantages, response_mask) + KL * kl, kl, log_prob


class SquaredError(nn.Cell):
    """The mean over tokens of (value - reward)^2."""

    def __init__(self, fault=""):
        super().__init__()
        self.is_masked = fault != "critic-mask"

    def construct(self, values, rewards, mask):
        error = ops.square(values - rewards.reshape((-1, 1)))
        return mean_over(error, mask if self.is_masked else ops.ones_like(mask))


class CriticLoss(nn.Cell):
    def __init__(self, critic, fault=""):
        super().__init__()
        self.critic, self.error = critic, SquaredError(fault)

    def construct(self, ids, mask, rewards, response_mask):
        return self.error(self.critic(ids, mask), rewards, response_mask)


class Trainer:
    """Gradients of a loss, and a step of Adam along them."""

    def __init__(self, loss, learning_rate, has_aux=False):
        self.loss = loss
        self.optimizer = nn.AdamWeightDecay(loss.trainable_params(), learning_rate=learning_rate)
        self.gradient = ms.value_and_grad(loss, None, self.optimizer.parameters, has_aux=has_aux)

    def __call__(self, *batch):
        value, gradients = self.gradient(*batch)
        self.optimizer(gradients)
        return value
