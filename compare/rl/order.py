"""The order of an RL step: its stages, the keys that each part reads and makes, and the items of the walk.

The order in which the stages of a step were collected, as far as their dumps tell.

A dump says as which of its step's stages it was begun (`run.stage`). One that does not, of an older version or of
debuggers that know nothing of each other, has no clock in it, and times of files do not outlive a copy. What tells
then are call stacks: those of two stages part in the code that runs the step, and the line that stands first there
runs first.

The order of an RL step, as data: which part of it reads and makes which keys, and which switch collects it.

The parts and their keys are those of PPO (arXiv:1707.06347) and GRPO (arXiv:2402.03300) in the order in which the
frameworks on top of MindSpore and PyTorch run them; the names of stages and switches are those of `MsProbe`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from msprobe.base.errors import MsprobeError
from msprobe.compare.jobs.plan import side
from msprobe.compare.judge.verdict import Grade
from msprobe.compare.locate.finding import Finding
from msprobe.store.layout import STACK
from msprobe.store.reader import json_object_or_empty, read_head
from msprobe.store.rl_roots import FlowRoot
from msprobe.store.stacks_and_construct import stacks, user_line

Order: TypeAlias = tuple[int, int, int, int, str]
"""Within a step: the part of the flow; a stage's dump before the keys that it makes; the place among these; what was
saved behind a key; the name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A key or a stage in one step and rank.

    `part` is its number in `parts.FLOW`. `differs`: something in it is not equal to the bit. `grade` is the worst of
    its verdicts, where `unjudged` is worse than `pass` and better than `warning`. `reason` says why, `first` where the
    first difference is. A stage has the first wrong call in `finding`, and in `mode` what its dumps hold;
    `weights_differ` where parameters do. `saved` is the number of a key's first save in its process, -1 where that is
    not known; `is_placed`: a stage whose place in the step is known; `token` the first token of sequences that differs.
    """

    kind: Literal["key", "stage"]
    name: str
    step: int
    rank: int
    part: int
    order: Order
    differs: bool
    grade: Grade
    reason: str = ""
    first: str = ""
    finding: Finding | None = None
    mode: str = ""
    weights_differ: bool = False
    is_placed: bool = True
    saved: int = -1
    token: int | None = None

    @property
    def is_beyond(self) -> bool:
        """Whether it differs beyond its tolerance, or in a way that has none."""
        return self.grade in ("warning", "error") or (self.finding is not None and self.finding.grade != "pass")


_WORSE: dict[Grade, int] = {"pass": 0, "unjudged": 1, "warning": 2, "error": 3}


def worse(grade: Grade) -> int:
    """How bad a grade is."""
    return _WORSE[grade]


T = TypeVar("T")
Frames = Sequence[str]
Dumps = Mapping[tuple[int, int], Path]
"""The dumps of a stage by rank and step."""

_FRAME = re.compile(r"^File (?P<file>.+?), line (?P<line>\d+), in (?P<function>[^\s,]+)", re.DOTALL)
_STEPS = 2  # so many are asked: in its first one a debugger does not know yet that it will have stages


@dataclass(frozen=True, slots=True)
class Told:
    """Stages in the order in which a step runs them, and what told it: all their dumps, or the lines that call them."""

    names: tuple[str, ...]
    by: Literal["dumps", "lines"]


def collected_order(names: Sequence[str], *roots: FlowRoot) -> Told | None:
    """The order in which a step runs these stages; None where no root tells, or two tell different ones."""
    told = [order for root in roots if (order := _order(names, root)) is not None]
    if len({order.names for order in told}) != 1:
        return None
    return min(told, key=lambda order: order.by != "dumps")


def _order(names: Sequence[str], root: FlowRoot) -> Told | None:
    paths = [root.stages[name] for name in names if name in root.stages]
    if len(names) < 2 or len(paths) < len(names):
        return None
    dumps = [_dumps(path) for path in paths]
    if order := _sorted(names, dumps, _begun_before):
        return Told(order, "dumps")
    if order := _sorted(names, [_first_call(each) for each in dumps], _called_before):
        return Told(order, "lines")
    return None


def _sorted(names: Sequence[str], known: Sequence[T], before: Callable[[T, T], int]) -> tuple[str, ...]:
    """The names by what is known of each; empty where it does not tell of every two which is first."""
    behind = dict.fromkeys(names, 0)
    for (one, of_one), (other, of_other) in combinations(zip(names, known, strict=True), 2):
        sign = before(of_one, of_other)
        if not sign:
            return ()
        behind[other if sign < 0 else one] += 1
    if len(set(behind.values())) < len(names):  # a circle
        return ()
    return tuple(sorted(names, key=behind.__getitem__))


def _begun_before(one: Dumps, other: Dumps) -> int:
    """-1 or 1, which of two stages is begun first in a step that has both; 0 where their dumps do not tell."""
    for place in islice(sorted(one.keys() & other.keys()), _STEPS):
        ours, theirs = _turn(one[place]), _turn(other[place])
        if ours is not None and theirs is not None:
            return (ours > theirs) - (ours < theirs)
    return 0


def _called_before(one: Frames, other: Frames) -> int:
    """-1 or 1, which of two calls is made first; 0 where their stacks do not tell. Frames stand innermost first."""
    above: tuple[str, ...] = ()
    for ours, theirs in zip(reversed(one), reversed(other), strict=False):
        if ours == theirs:
            above = (ours,)
            continue
        places = [_FRAME.match(frame) for frame in (ours, theirs)]
        # Two functions of one name may stand in a file; called from one line of the framework's, they are two models.
        if None in places or not user_line((ours,)) or (above and not user_line(above)):
            return 0
        (file, line, function), (that_file, that_line, that_function) = (p.groups() for p in places if p)
        if (file, function) != (that_file, that_function) or line == that_line:
            return 0
        return -1 if int(line) < int(that_line) else 1
    return 0


def _turn(file: Path) -> int | None:
    """As which of its step's stages a dump was begun, from 0; None where it does not say."""
    turn = read_head(file).run.get("stage")
    return turn if type(turn) is int else None


def _first_call(dumps: Dumps) -> Frames:
    """The stack of the first call of a stage's first step; empty where there is none."""
    if not dumps:
        return ()
    try:
        found = stacks(json_object_or_empty(dumps[min(dumps)].parent / STACK))
    except (MsprobeError, OSError, ValueError):  # whoever compares it says what is wrong with it
        return ()
    return next((frames for frames in found.values() if frames), ())


def _dumps(stage: Path) -> Dumps:
    """None where a stage cannot be looked into."""
    try:
        places = side(stage).places
    except MsprobeError:  # whoever compares it says why
        return {}
    return {(place.rank or 0, place.step or 0): source.paths[0] for place, source in places.items()}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a step: a stage, which runs a model, or host code between stages, where `stage` is empty.

    `reads` and `makes` are keys, `makes` in the order in which they come to be. `after` is the host code between what
    the model returns and the keys; of host code it says what makes them. `model` is whose weights a stage uses,
    `updates` whose it changes, `switch` is the field of `msprobe_config` that collects it.
    """

    stage: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    after: str
    model: str = ""
    updates: str = ""
    switch: str = ""
    others: tuple[str, ...] = ()
    """Other names that a stage goes by."""


_PROMPTS = ("prompts", "prompt_ids", "prompt_mask")
_PUT_TOGETHER = ("input_ids", "attention_mask", "position_ids")
_TOKENS = ("prompts", "prompt_mask", "responses", "response_mask", *_PUT_TOGETHER)
_GATHERED = "the log probabilities of the responses' tokens are taken from its logits (temperature, shift by one, mask)"

FLOW = (
    Part("", (), (*_PROMPTS, "prompt_length", "labels", "ground_truth"), "the data of the step: loader and tokenizer"),
    Part(
        "actor_generate_sequences",
        _PROMPTS,
        ("responses", "response_ids", "sequences", "response_mask", "response_length", "generated_text",
         "rollout_log_prob", "generation_log_prob", "infer_log_prob"),
        "tokens are sampled from its logits (temperature, top_k, top_p, seed), ended, cut and padded",
        "actor",
        switch="actor_infer_dump",
        others=("generate", "generate_sequences", "generation", "rollout", "actor_rollout"),
    ),
    Part("", (*_PROMPTS, "responses", "response_mask"), _PUT_TOGETHER,
         "how prompts and responses are put together (padding, masks, positions)"),
    Part(
        "reference_compute_log_prob",
        _TOKENS,
        ("ref_log_prob", "reference_log_prob"),
        _GATHERED,
        "reference",
        switch="reference_dump",
        others=("reference", "ref", "ref_log_prob", "compute_ref_log_prob"),
    ),
    Part(
        "critic_compute_values",
        _TOKENS,
        ("values", "old_values"),
        "the values of the responses' tokens are taken from its output (shift by one, mask)",
        "critic",
        switch="critic_train_dump",
        others=("compute_values", "values", "critic"),
    ),
    Part(
        "actor_compute_log_prob",
        _TOKENS,
        ("old_log_prob", "old_entropy"),
        _GATHERED,
        "actor",
        switch="actor_train_dump",
        others=("log_prob", "compute_log_prob", "old_log_prob"),
    ),
    Part("", ("responses", "response_mask"), ("rewards", "reward_scores", "rm_scores", "scores", "token_level_scores"),
         "the reward functions, or the reward model, and their normalisation"),
    Part("", ("ref_log_prob", "old_log_prob", "rewards", "token_level_scores"), ("kl", "kl_penalty",
         "token_level_rewards"), "the distance between actor and reference, and its coefficient"),
    Part("", ("rewards", "scores", "token_level_scores", "token_level_rewards", "kl", "values", "response_mask"),
         ("advantages", "returns"), "the estimate of advantages (gamma, lambda, groups, normalisation, mask)"),
    Part(
        "actor_update",
        (*_TOKENS, "old_log_prob", "ref_log_prob", "advantages"),
        ("log_prob", "entropy", "ratio", "kl_loss", "pg_loss", "policy_loss", "actor_loss", "loss", "grad_norm"),
        "log probabilities, ratio, clipping, KL and loss are computed from its logits",
        "actor",
        "actor",
        "actor_train_dump",
        ("update", "train_actor", "update_actor"),
    ),
    Part(
        "critic_update",
        (*_TOKENS, "values", "returns"),
        ("vpreds", "value_loss", "vf_loss", "critic_loss"),
        "the loss of the values is computed from its output",
        "critic",
        "critic",
        "critic_train_dump",
        ("train_critic", "update_critic"),
    ),
)  # fmt: skip

UNKNOWN = len(FLOW)
"""The part of a key or stage that the table does not have."""

TOKEN_STAGE = "actor_generate_sequences"


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A key's name without what spellings differ in: case, separators, what stands before a slash, a plural's s."""
    words = re.split(r"[\W_]+", name.rpartition("/")[2].lower())
    return "_".join(word.removesuffix("s") for word in words if word)


def part_of_stage(stage: str) -> int:
    """Which part of the flow a stage is, by its name; UNKNOWN for one that the table does not have."""
    named = stage.lower()
    return next((at for at, part in enumerate(FLOW) if part.stage and named in (part.stage, *part.others)), UNKNOWN)


def part_of_key(key: str, keys: frozenset[str]) -> tuple[int, int]:
    """Which part makes a key, and as its how-manieth; UNKNOWN for one that the table does not have.

    `keys` are the plain names of all keys of the run: where there is no old_log_prob beside it, log_prob is what the
    actor computes before the update.
    """
    name = plain(key)
    if name == "log_prob" and "old_log_prob" not in keys:
        name = "old_log_prob"
    return _MAKERS.get(name, (UNKNOWN, 0))


@lru_cache(maxsize=64)
def names(keys: tuple[str, ...]) -> frozenset[str]:
    """Keys of the table by their plain names."""
    return frozenset(map(plain, keys))


_MAKERS: dict[str, tuple[int, int]] = {}
for _at, _part in enumerate(FLOW):
    for _place, _made in enumerate(_part.makes):
        _MAKERS.setdefault(plain(_made), (_at, _place))


@lru_cache(maxsize=64)
def beside(name: str) -> frozenset[str]:
    """The plain names of the keys that the host code makes which makes a key; none where a stage makes it."""
    at, _ = _MAKERS.get(name, (UNKNOWN, 0))
    return names(FLOW[at].makes) if at != UNKNOWN and not FLOW[at].stage else frozenset()
