"""The eight causes, planted for real: each plant runs both engines and gives what each of them recorded."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import mindspore as ms
import numpy as np
from generation import FAULTLESS, PLAIN, Faults, Rollout, Sampling, generate
from language import END, LONGEST, PAD, WORDS, prompts
from model import Weights, loaded, updates
from training import Mistakes, recomputed

RATE = 3e-4
"""Of the policy-gradient updates that make weights stale."""


@dataclass(frozen=True)
class Pair:
    """Both sides, row by row; tokens are those of the responses as each side has them."""

    generated: list[np.ndarray]
    recomputed: list[np.ndarray]
    generated_tokens: list[np.ndarray]
    recomputed_tokens: list[np.ndarray]
    prompt_lengths: np.ndarray
    tokens_given: bool = True
    steps: np.ndarray | None = None

    @property
    def largest_gap(self) -> float:
        """Over all tokens that both sides have."""
        both = zip(self.generated, self.recomputed, strict=True)
        return max(float(np.abs(a[: len(b)] - b[: len(a)]).max()) for a, b in both if min(len(a), len(b)))


def _pair(rollout: Rollout, recomputed: list[np.ndarray], trained_on: Rollout | None = None, **more) -> Pair:
    return Pair(
        rollout.log_probs,
        recomputed,
        rollout.responses,
        (trained_on or rollout).responses,
        np.array([len(prompt) for prompt in rollout.prompts]),
        **more,
    )


class World:
    """Weights and prompts, and what all plants share: one clean rollout and the weights of later updates."""

    def __init__(self, weights: Weights, seed: int, rows: int = 64):
        self.weights, self.seed, self.rows = weights, seed, rows

    def rng(self, number: int = 0) -> np.random.Generator:
        """Chance that depends on the seed and on nothing else."""
        return np.random.default_rng([self.seed, number])

    def generate(self, sampling: Sampling = PLAIN, faults: Faults = FAULTLESS, **more) -> Rollout:
        """A rollout of this world's prompts."""
        return generate(self.weights, prompts(self.rng(), self.rows), self.rng(1), sampling, faults, **more)

    @cached_property
    def clean(self) -> Rollout:
        """Nothing wrong, no settings."""
        return self.generate()

    @cached_property
    def model(self):
        """The model of the training."""
        return loaded(self.weights)

    def later(self, numbers: list[int]) -> dict[int, dict[str, np.ndarray]]:
        """The weights after so many policy-gradient updates on rollouts of now, a reward for common words."""
        rollout, rng = self.clean, self.rng(2)
        reward = np.array([np.mean(row < WORDS[12]) for row in rollout.responses])
        advantage = (reward - reward.mean()) / (reward.std() + 1e-6)

        def batches():
            for _ in range(max(numbers)):
                tokens, count = np.full((24, LONGEST), PAD, np.int32), np.zeros((24, LONGEST - 1), np.float32)
                for line, row in enumerate(rng.choice(self.rows, 24, replace=False)):
                    prompt, response = rollout.prompts[row], rollout.responses[row]
                    whole = np.concatenate([prompt, response])
                    tokens[line, : len(whole)] = whole
                    count[line, len(prompt) - 1 : len(whole) - 1] = advantage[row]
                yield tokens, count

        return updates(self.weights, batches(), RATE, set(numbers))


def stale(world: World, strengths: list) -> dict[str, Pair]:
    """The engine's weights are those of some updates ago."""
    after = world.later(strengths)
    return {str(n): _pair(world.clean, recomputed(loaded(after[n]), world.clean)) for n in strengths}


def temperature(world: World, strength: float) -> Pair:
    """The engine records after its temperature."""
    rollout = world.generate(Sampling(temperature=strength))
    return _pair(rollout, recomputed(world.model, rollout))


def shift(world: World, strength: str) -> Pair:
    """Labels or the response are a place off."""
    mistakes = {"labels": Mistakes(labels=1), "late": Mistakes(slice=1), "early": Mistakes(slice=-1)}
    return _pair(world.clean, recomputed(world.model, world.clean, mistakes=mistakes[strength]))


def mask(world: World, strength: str) -> Pair:
    """Something is attended to or counted that must not be."""
    if strength == "crossed":
        return _pair(world.clean, recomputed(world.model, world.clean, "packed", Mistakes(crosses=True)))
    faults = Faults(attends_padding=strength == "attended", counts_padding=strength == "counted")
    rollout = world.generate(faults=faults)
    return _pair(rollout, recomputed(world.model, rollout))


def eps(world: World, strength: float) -> Pair:
    """The engine's norms have another eps."""
    rollout = world.generate(eps=strength)
    return _pair(rollout, recomputed(world.model, rollout))


def tokenizer(world: World, strength: str, tokens_given: bool = True) -> Pair:
    """An id means another token to the training."""
    table = np.arange(WORDS.stop, dtype=np.int32)
    if strength == "all":
        table[WORDS.start :] = np.roll(table[WORDS.start :], 1)
    else:
        count = np.bincount(np.concatenate(world.clean.responses), minlength=len(table))
        count[END] = 0
        frequent = int(count.argmax())
        table[END if strength == "end" else frequent] = WORDS.stop - 1
    read = replace(
        world.clean,
        prompts=[table[row] for row in world.clean.prompts],
        responses=[table[row] for row in world.clean.responses],
    )
    return _pair(world.clean, recomputed(world.model, read), read, tokens_given=tokens_given)


def dtype(world: World, strength: str) -> Pair:
    """The training rounds."""
    name, _, only = strength.partition(" ")
    model = loaded(world.weights, dtype=getattr(ms, name), activations=not only)
    return _pair(world.clean, recomputed(model, world.clean))


def truncation(world: World, strength: str) -> Pair:
    """The training has less of the prompts or of the responses."""
    rollout, (which, number) = world.clean, strength.split()
    if which == "prompt":
        cut = replace(rollout, prompts=[row[-int(number) :] for row in rollout.prompts])
    else:
        cut = replace(rollout, responses=[row[: int(number)] for row in rollout.responses])
    return _pair(rollout, recomputed(world.model, cut), cut)


def _each(plant: Callable[..., Pair], **more) -> Callable[[World, list], dict[str, Pair]]:
    return lambda world, strengths: {str(strength): plant(world, strength, **more) for strength in strengths}


PLANTS: dict[str, Callable[[World, list], dict[str, Pair]]] = {
    "stale weights": stale,
    "temperature": _each(temperature),
    "shift by one": _each(shift),
    "padding mask": _each(mask),
    "eps": _each(eps),
    "tokenizer id": _each(tokenizer),
    "tokenizer id, tokens not given": _each(tokenizer, tokens_given=False),
    "dtype": _each(dtype),
    "truncation": _each(truncation),
}


def clean_pairs(world: World, layouts: list[str]) -> dict[str, Pair]:
    """Nothing is wrong; the training lays out its batches in each of these ways."""
    pairs = {each: _pair(world.clean, recomputed(world.model, world.clean, each)) for each in layouts}
    raw = world.generate(Sampling(temperature=0.7, top_p=0.9, raw=True))
    pairs["recorded before temperature"] = _pair(raw, recomputed(world.model, raw))
    return pairs
