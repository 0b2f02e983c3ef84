"""The task: prompts of letters, the rule that rewards a response, and what numpy does around the networks."""

from itertools import pairwise

import numpy as np

LETTERS = "abcdefghijklmn"
EOS = PAD = len(LETTERS)  # as many tokenizers have it; the masks tell the two apart
VOCABULARY = len(LETTERS) + 1
LONGEST_PROMPT, LONGEST_RESPONSE = 4, 8
PROMPTS, GROUP = 4, 4  # prompts of a step, responses to each


def prompts(seed, step):
    """Tokens [B, LONGEST_PROMPT], padded on the left, and their mask; each prompt GROUP times, one after another."""
    draw = np.random.default_rng([seed, step])
    ids = draw.integers(0, len(LETTERS), (PROMPTS, LONGEST_PROMPT)).astype(np.int32)
    lengths = draw.integers(2, LONGEST_PROMPT + 1, (PROMPTS, 1))
    mask = (np.arange(LONGEST_PROMPT) >= LONGEST_PROMPT - lengths).astype(np.int32)
    return np.repeat(np.where(mask == 1, ids, PAD), GROUP, 0), np.repeat(mask, GROUP, 0)


def text(ids):
    return "".join(LETTERS[i] for i in ids if i < len(LETTERS))


def reward(prompt, response):
    """The share of letters that come later in the alphabet than the one before, and a half for a response that ends."""
    letters, ended = [i for i in response if i != EOS], EOS in response
    rising = sum(a < b for a, b in pairwise([prompt[-1], *letters]))
    return rising / max(len(letters), 1) + ended / 2


def rewards(prompt_ids, responses, mask):
    """[B] in float32."""
    each = zip(prompt_ids, responses, mask, strict=True)
    return np.array([reward(prompt, response[tokens == 1]) for prompt, response, tokens in each], np.float32)


def advantages(rewards, values, mask, fault=""):
    """[B, R]: reward less the critic's value, normalised over the tokens of the prompt's group; 0 where no token is.

    GRPO proper normalises the rewards alone and has no critic.
    """
    found = np.zeros_like(values)
    for first in range(0, len(rewards), GROUP):
        group = slice(first, first + GROUP)
        tokens = mask[group] == 1
        better = (rewards[group, None] - values[group])[tokens]
        spread = better.var() if fault == "advantage-std" else better.std()
        found[group][tokens] = (better - better.mean()) / (spread + 1e-6)
    return found
