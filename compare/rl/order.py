"""The order of an RL step, as data: the parts that read and compute keys, and the switches that collect them.

The parts and their keys are those of PPO (arXiv:1707.06347) and GRPO (arXiv:2402.03300) in the order in which
frameworks for MindSpore and PyTorch run them; the names of stages and switches are those of `MsProbe`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from msprobe.compare.judge.verdict import Grade
from msprobe.compare.key_data.pairs import Row
from msprobe.compare.locate.finding import Divergence

if TYPE_CHECKING:
    from msprobe.compare.advice.known_causes import Hint


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a step: a stage, which runs a model, or host code between stages, with an empty `stage`.

    `reads` and `makes` are keys, `makes` in the order in which they are computed. `after` is the host code between the
    result of the model and the keys; for host code, the code that computes them. `model` is the model whose weights a
    stage uses, `updates` the one that it updates, `switch` is the field of `msprobe_config` that collects it.
    """

    stage: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    after: str
    model: str = ""
    updates: str = ""
    switch: str = ""
    others: tuple[str, ...] = ()
    """Other names of a stage."""


_PROMPTS = ("prompts", "prompt_ids", "prompt_mask")
_PUT_TOGETHER = ("input_ids", "attention_mask", "position_ids")
_TOKENS = ("prompts", "prompt_mask", "responses", "response_mask", *_PUT_TOGETHER)
_GATHERED = (
    "how the log probabilities of the response tokens are computed from its logits (temperature, shift by one, mask)"
)

FLOW = (
    Part("", (), (*_PROMPTS, "prompt_length", "labels", "ground_truth"), "the data of the step: loader and tokenizer"),
    Part("actor_generate_sequences", _PROMPTS,
         ("responses", "response_ids", "sequences", "response_mask", "response_length", "generated_text",
          "rollout_log_prob", "generation_log_prob", "infer_log_prob"),
         "how tokens are sampled from its logits (temperature, top_k, top_p, seed), ended, truncated and padded",
         "actor", switch="actor_infer_dump",
         others=("generate", "generate_sequences", "generation", "rollout", "actor_rollout")),
    Part("", (*_PROMPTS, "responses", "response_mask"), _PUT_TOGETHER,
         "how prompts and responses are put together (padding, masks, positions)"),
    Part("reference_compute_log_prob", _TOKENS, ("ref_log_prob", "reference_log_prob"), _GATHERED,
         "reference", switch="reference_dump", others=("reference", "ref", "ref_log_prob", "compute_ref_log_prob")),
    Part("critic_compute_values", _TOKENS, ("values", "old_values"),
         "how the values of the response tokens are computed from its output (shift by one, mask)",
         "critic", switch="critic_train_dump", others=("compute_values", "values", "critic")),
    Part("actor_compute_log_prob", _TOKENS, ("old_log_prob", "old_entropy"), _GATHERED,
         "actor", switch="actor_train_dump", others=("log_prob", "compute_log_prob", "old_log_prob")),
    Part("", ("responses", "response_mask"), ("rewards", "reward_scores", "rm_scores", "scores", "token_level_scores"),
         "the reward functions, or the reward model, and their normalization"),
    Part("", ("ref_log_prob", "old_log_prob", "rewards", "token_level_scores"),
         ("kl", "kl_penalty", "token_level_rewards"), "the distance between actor and reference, and its coefficient"),
    Part("", ("rewards", "scores", "token_level_scores", "token_level_rewards", "kl", "values", "response_mask"),
         ("advantages", "returns"), "the estimate of advantages (gamma, lambda, groups, normalization, mask)"),
    Part("actor_update", (*_TOKENS, "old_log_prob", "ref_log_prob", "advantages"),
         ("log_prob", "entropy", "ratio", "kl_loss", "pg_loss", "policy_loss", "actor_loss", "loss", "grad_norm"),
         "how log probabilities, ratio, clipping, KL and loss are computed from its logits",
         "actor", "actor", "actor_train_dump", ("update", "train_actor", "update_actor")),
    Part("critic_update", (*_TOKENS, "values", "returns"), ("vpreds", "value_loss", "vf_loss", "critic_loss"),
         "how the value loss is computed from its output",
         "critic", "critic", "critic_train_dump", ("train_critic", "update_critic")),
)  # fmt: skip

UNKNOWN = len(FLOW)
"""The part of a key or stage that is not in the table."""

TOKEN_STAGE = "actor_generate_sequences"


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """Return the name of a key without differences of spelling: case, separators, the part before a slash, a plural's
    s."""
    words = re.split(r"[\W_]+", name.rpartition("/")[2].lower())
    return "_".join(word.removesuffix("s") for word in words if word)


def part_of_stage(stage: str) -> int:
    """Return the part of the flow of a stage, by its name; UNKNOWN if it is not in the table."""
    named = stage.lower()
    return next((at for at, part in enumerate(FLOW) if part.stage and named in (part.stage, *part.others)), UNKNOWN)


def part_of_key(key: str, keys: frozenset[str]) -> tuple[int, int]:
    """Return the part that computes a key, and the place among its keys; UNKNOWN if it is not in the table.

    `keys` are the plain names of all keys of the run: without an old_log_prob, log_prob is computed by the actor before
    the update.
    """
    name = plain(key)
    if name == "log_prob" and "old_log_prob" not in keys:
        name = "old_log_prob"
    return _MAKERS.get(name, (UNKNOWN, 0))


@lru_cache(maxsize=64)
def names(keys: tuple[str, ...]) -> frozenset[str]:
    """Return the keys of the table by their plain names."""
    return frozenset(map(plain, keys))


_MAKERS: dict[str, tuple[int, int]] = {}
for _at, _part in enumerate(FLOW):
    for _place, _made in enumerate(_part.makes):
        _MAKERS.setdefault(plain(_made), (_at, _place))


@lru_cache(maxsize=64)
def keys_made_with(name: str) -> frozenset[str]:
    """Return the plain names of the keys that the same host code computes; empty if a stage computes the key."""
    at, _ = _MAKERS.get(name, (UNKNOWN, 0))
    return names(FLOW[at].makes) if at != UNKNOWN and not FLOW[at].stage else frozenset()


Order: TypeAlias = tuple[int, int, int, int, str]
"""The order within a step: the part of the flow; the dump of a stage before the keys that it computes; the position
among these; values that were saved after a key; the name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A key or a stage in one step and rank.

    `part` is its number in FLOW. `differs`: something in it is not bitwise equal. `grade` is the most severe of its
    verdicts.

    For a key: `worst` is the tensor with that verdict, `first` the first that differs, `saved` the number of its first
    save in its process, -1 if unknown, `token` the first token of sequences that differs.

    For a stage: `finding` is the first wrong call, `hint` the known cause that it matches, `failed` the reason why its
    dumps could not be compared, `mode` their content; `weights_differ` if parameters do, `is_placed` if its place in
    the step is known.
    """

    kind: Literal["key", "stage"]
    name: str
    step: int
    rank: int
    part: int
    order: Order
    differs: bool
    grade: Grade
    worst: Row | None = None
    first: Row | None = None
    failed: str = ""
    finding: Divergence | None = None
    hint: "Hint | None" = None
    mode: str = ""
    weights_differ: bool = False
    is_placed: bool = True
    saved: int = -1
    token: int | None = None

    @property
    def is_beyond(self) -> bool:
        """Return whether it differs by more than its tolerance, or has no tolerance."""
        return self.grade in ("warning", "error") or (self.finding is not None and self.finding.grade != "pass")

    @property
    def place(self) -> tuple[int, int]:
        """Return step and rank."""
        return self.step, self.rank

    @property
    def model(self) -> str:
        """Return the model whose weights its part of the flow uses; empty if unknown, or none."""
        return FLOW[self.part].model if self.part != UNKNOWN else ""
