"""A language whose every log-prob is known: the next token depends on the last two and on the first of the prompt.

Logits are `near[last] + far[second last] + style[first]`. Faults are planted in how a second look computes them, so
that what the check is given is exact but for what was planted.
"""

from dataclasses import dataclass, replace

import numpy as np

VOCABULARY = 40


@dataclass(frozen=True, eq=False)
class Language:
    near: np.ndarray
    far: np.ndarray
    style: np.ndarray


@dataclass(frozen=True, eq=False)
class Rollout:
    """Sequences of prompt and response, ragged; `log_probs` those of the response as generation gave them."""

    language: Language
    sequences: list
    prompts: np.ndarray
    log_probs: list

    @property
    def responses(self):
        return [s[p:] for s, p in zip(self.sequences, self.prompts, strict=True)]


def language(seed, sharp=1.5):
    rng = np.random.default_rng([seed, 1])
    return Language(*(rng.normal(0, sharp * part, (VOCABULARY, VOCABULARY)) for part in (1.0, 0.6, 0.5)))


def other_weights(one, seed, size):
    rng = np.random.default_rng([seed, 2])
    return Language(*(table + rng.normal(0, size, table.shape) for table in (one.near, one.far, one.style)))


def log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def logits(lang, last, second, first):
    return lang.near[last] + lang.far[second] + lang.style[first]


def settings(temperature=1.0, top_k=0, top_p=1.0, penalty=1.0):
    """What an engine does to logits (rows, tokens), given which tokens were there before; gives log-probs."""

    def processed(z, seen):
        if penalty != 1.0:
            z = np.where(seen, np.where(z > 0, z / penalty, z * penalty), z)
        z = log_softmax(z / temperature)
        if top_k:
            z = np.where(z >= np.sort(z)[:, -top_k][:, None], z, -np.inf)
        if top_p < 1:
            order = np.argsort(-z)
            kept = np.exp(np.take_along_axis(z, order, 1)).cumsum(1) - np.exp(np.take_along_axis(z, order, 1)) < top_p
            z = np.where(np.take_along_axis(kept, np.argsort(order), 1), z, -np.inf)
        return log_softmax(z)

    return processed


def generate(seed, count=48, longest=40, engine=None, sharp=1.5, lang=None):
    """Sample `count` responses of 1 to `longest` tokens behind prompts of 3 to 20."""
    engine = settings() if engine is None else engine
    lang = language(seed, sharp) if lang is None else lang
    rng = np.random.default_rng([seed, 3])
    prompts, lengths = rng.integers(3, 21, count), rng.integers(longest // 4, longest + 1, count)
    begun = [rng.integers(0, VOCABULARY, p) for p in prompts]
    last, second = (np.array([b[-k] for b in begun]) for k in (1, 2))
    first = np.array([b[0] for b in begun])
    seen = np.zeros((count, VOCABULARY), bool)
    for at, b in enumerate(begun):
        seen[at, b] = True
    tokens, values = [], []
    for _ in range(longest):
        z = engine(logits(lang, last, second, first), seen)
        token = (z + rng.gumbel(size=z.shape)).argmax(1)
        tokens.append(token)
        values.append(z[np.arange(count), token])
        seen[np.arange(count), token] = True
        last, second = token, last
    tokens, values = np.stack(tokens, 1), np.stack(values, 1)
    sequences = [np.concatenate((b, t[:n])) for b, t, n in zip(begun, tokens, lengths, strict=True)]
    return Rollout(lang, sequences, prompts, [v[:n] for v, n in zip(values, lengths, strict=True)])


def again(rollout, lang=None, *, step=0, change=None, ids=None):
    """Log-probs of the responses computed again, each logit row through `change(z, sample, place)`.

    `step` looks each token up in the distribution of a place so much later; `ids` are other sequences to read.
    """
    lang = rollout.language if lang is None else lang
    found = []
    for at, (s, p) in enumerate(zip(ids or rollout.sequences, rollout.prompts, strict=True)):
        place = np.arange(p, len(s)) + step
        z = logits(lang, s[place - 1], s[place - 2], np.full(len(place), s[0]))
        if change is not None:
            z = change(z, at, place - step - p)
        found.append(log_softmax(z)[np.arange(len(place)), s[p:]])
    return found


def to_bfloat16(x):
    """Rounded to the nearest (ties up), as float32."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)


def padded_attended(rollout, seed):
    """What attention to padding does: a share of the padding's own logits, less as the text grows."""
    pad = np.random.default_rng([seed, 4]).normal(0, 2, VOCABULARY)
    width = int(rollout.prompts.max())

    def change(z, sample, place):
        padding = width - rollout.prompts[sample]
        share = padding / (padding + rollout.prompts[sample] + place)
        return z + share[:, None] * pad

    return change


def cut_prompts(rollout, kept):
    """Sequences whose prompts lost their beginning, so that another token is the first."""
    cut = np.maximum(0, rollout.prompts - kept)
    sequences = [s[c:] for s, c in zip(rollout.sequences, cut, strict=True)]
    return again(replace(rollout, sequences=sequences, prompts=rollout.prompts - cut))
