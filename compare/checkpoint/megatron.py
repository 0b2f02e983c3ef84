"""Checkpoints of Megatron-LM and MindSpeed: the parts of the model of all ranks, combined under one naming.

```
{dir}/latest_checkpointed_iteration.txt                                   an iteration, or `release`
{dir}/iter_{iteration:07}/mp_rank_{tp:02}[_{pp:03}][_{ep:03}]/model_optim_rng.pt
```

The second number exists if there is more than one pipeline stage, the third with expert parallelism. Their numbers are
read from `args`, an object of the program that wrote them, of which only the attributes are read.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.log import logger
from msprobe.store.torch_files import Tree, load_tree

from .formats import Array, Checkpoint, Parameter, parameters

LATEST = "latest_checkpointed_iteration.txt"
_FILES = ("model_optim_rng.pt", "model_rng.pt")
_RANK = re.compile(r"mp_rank_(\d{2})(?:_(\d{3}))?(?:_(\d{3}))?")
_LAYER = re.compile(r"(\blayers\.)(\d+)(?=\.)")
_EXPERT = re.compile(r"(\blocal_experts\.|\bexperts\.linear_fc[12]\.(?:weight|bias))(\d+)(?=\.|$)")

_RENAMED = (
    ("self_attention.linear_qkv.layer_norm_", "input_layernorm."),
    ("language_model.", ""),
    ("encoder", "decoder"),
    (".input_norm.", ".input_layernorm."),
    ("query_key_value", "linear_qkv"),
    (".dense.", ".linear_proj."),
    ("post_attention_norm", "pre_mlp_layernorm"),
    ("dense_h_to_4h", "linear_fc1"),
    ("dense_4h_to_h", "linear_fc2"),
    ("mlp.local_experts", "mlp.experts.local_experts"),
    ("final_norm", "final_layernorm"),
    ("word_embeddings_for_head", "output_layer"),
)
"""The names of older versions and of the other implementations of one layer, in this order."""

# Parameters that tensor-parallel ranks split along axis 0 and axis 1; each rank has any other parameter completely.
_ROWS = ("linear_qkv", "linear_fc1", "word_embeddings.weight", "output_layer.weight")
_COLUMNS = ("linear_fc2.weight", "linear_proj.weight")


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank's file: its position among tensor, pipeline and expert parallel ranks."""

    path: Path
    tree: Tree
    tp: int
    pp: int
    ep: int


def iteration_of(folder: Path) -> Path | None:
    """Return the folder of the ranks in a Megatron layout, the newest if `folder` contains several; None for anything
    else.

    Raise a DumpError if the iteration in the layout does not exist.
    """
    if _has_ranks(folder):
        return folder
    latest = folder / LATEST
    if not latest.is_file():
        return None
    try:
        with open_input(latest) as opened:
            iteration = opened.read(64).decode("utf-8", "replace").strip()
    except OSError:
        iteration = ""
    chosen = folder / (f"iter_{int(iteration):07d}" if iteration.isdecimal() else "release")
    if not (iteration.isdecimal() or iteration == "release") or not chosen.is_dir():
        raise DumpError(
            f"{latest}: refers to {iteration!r}, which is missing; give the folder of an iteration, such as "
            "iter_0000100"
        )
    if not _has_ranks(chosen):
        raise DumpError(
            f"{chosen}: contains no folder mp_rank_00; checkpoints of torch.distributed (torch_dist) are not "
            "supported, convert them to the format torch"
        )
    return chosen


def _has_ranks(folder: Path) -> bool:
    return any(_RANK.fullmatch(path.name) for path in folder.glob("mp_rank_*"))


def read_megatron(folder: Path) -> Checkpoint:
    """Return the whole model of the ranks' folders below `folder`; raise a DumpError if a rank cannot be read or is
    missing."""
    ranks = _ranks(folder)
    if not ranks:
        raise DumpError(
            f"{folder}: its ranks contain none of {', '.join(_FILES)}; give a checkpoint in the torch format"
        )
    shards, stages, experts = (max(places) + 1 for places in zip(*((r.tp, r.pp, r.ep) for r in ranks), strict=True))
    if lacking := _lacking(ranks, shards, stages, experts):
        raise DumpError(f"{folder}: rank {lacking} is missing; copy all ranks of the checkpoint")
    states = [_states(rank) for rank in ranks]
    # A stage has the same number of layers as the first.
    layers = _most(_LAYER, (state[0] for rank, state in zip(ranks, states, strict=True) if rank.pp == 0))
    recorded = next((number for rank in ranks if (number := _size(rank.tree, "num_experts"))), 0)
    experts_per_rank = recorded // experts or _most(_EXPERT, (each for state in states for each in state))
    whole: dict[str, list[tuple[int, Parameter]]] = defaultdict(list)
    for rank, of_rank in zip(ranks, states, strict=True):
        for virtual, state in enumerate(of_rank):
            offset = (stages * virtual + rank.pp) * layers
            for name, found in state.items():
                name = _raised(_EXPERT, _raised(_LAYER, name, offset), rank.ep * experts_per_rank)
                whole[name].append((rank.tp, found))
    return Checkpoint(str(folder), "pytorch", {name: _merged(name, parts) for name, parts in whole.items()})


def _raised(number: "re.Pattern[str]", name: str, by: int) -> str:
    """Return a name with the number that its rank counts from 0 replaced by that of the whole model."""
    return number.sub(lambda m: f"{m[1]}{int(m[2]) + by}", name, count=1)


def _ranks(folder: Path) -> list[_Rank]:
    found = []
    for path in sorted(folder.iterdir()):
        place = _RANK.fullmatch(path.name)
        file = next((path / name for name in _FILES if (path / name).is_file()), None)
        if place is None or file is None:
            continue
        tree = load_tree(file)
        sizes = {key: _size(tree, key) for key in ("pipeline_model_parallel_size", "expert_model_parallel_size")}
        rest = [int(number) for number in place.groups()[1:] if number is not None]
        if len(rest) == 1 and sizes["pipeline_model_parallel_size"] == 1 < (sizes["expert_model_parallel_size"] or 0):
            rest.insert(0, 0)  # one stage only: the number is the expert parallel rank's
        pp, ep = (*rest, 0, 0)[:2]
        found.append(_Rank(file, tree, int(place[1]), pp, ep))
    return found


def _size(tree: Tree, key: str) -> int | None:
    """Return a size in `args`."""
    args = tree.get("args")
    value = args.get(key) if isinstance(args, Mapping) else None
    return value if type(value) is int else None


def _lacking(ranks: list[_Rank], shards: int, stages: int, experts: int) -> str:
    there = {(rank.tp, rank.pp, rank.ep) for rank in ranks}
    shards = max(shards, *(_size(rank.tree, "tensor_model_parallel_size") or 0 for rank in ranks))
    stages = max(stages, *(_size(rank.tree, "pipeline_model_parallel_size") or 0 for rank in ranks))
    needed = product(range(shards), range(stages), range(experts))
    return next(("tp {}, pp {}, ep {}".format(*place) for place in needed if place not in there), "")


def _states(rank: _Rank) -> list[dict[str, Parameter]]:
    """Return the model's parameters on one rank by normal names: one state, or one for each virtual pipeline stage."""
    keys = ["model"] if "model" in rank.tree else []
    while f"model{len(keys)}" in rank.tree and "model" not in rank.tree:
        keys.append(f"model{len(keys)}")
    states = [parameters(rank.tree[key]) for key in keys if isinstance(rank.tree[key], Mapping)]
    if not states:
        raise DumpError(f"{rank.path}: has no entry `model` or `model0`; give a checkpoint of Megatron-LM or MindSpeed")
    return [{normal(name): found for name, found in state.items()} for state in states]


def normal(name: str) -> str:
    """Return a parameter's name as Megatron core has it."""
    for old, new in _RENAMED:
        name = name.replace(old, new)
    return name


def _most(number: "re.Pattern[str]", states: Iterator[dict[str, Parameter]]) -> int:
    return max((int(m[2]) + 1 for state in states for name in state if (m := number.search(name))), default=0)


def _merged(name: str, parts: list[tuple[int, Parameter]]) -> Parameter:
    """Return one parameter from the parts of the tensor-parallel ranks; a rank may have copies."""
    of_rank: dict[int, Parameter] = {}
    copies: list[tuple[int, Parameter]] = []
    for tp, part in parts:
        if of_rank.setdefault(tp, part) is not part:
            copies.append((tp, part))
    shards = [of_rank[tp] for tp in sorted(of_rank)]
    first = shards[0]
    axis = 0 if any(part in name for part in _ROWS) else 1 if any(part in name for part in _COLUMNS) else None
    if axis is None or len(shards) == 1 or len(first.shape) <= axis:
        others = [*shards[1:], *(copy for _, copy in copies)]
        return Parameter(name, first.dtype, first.shape, lambda: _checked(name, first, others))
    shape = list(first.shape)
    shape[axis] = sum(shard.shape[axis] if len(shard.shape) > axis else 0 for shard in shards)

    def load() -> Array:
        for tp, copy in copies:
            _checked(name, of_rank[tp], [copy])
        try:
            return np.concatenate([shard.load() for shard in shards], axis)
        except ValueError as err:
            raise DumpError(
                f"{name}: the parts of its ranks do not fit together ({err}); copy all ranks again"
            ) from err

    return Parameter(name, first.dtype, tuple(shape), load)


def _checked(name: str, first: Parameter, copies: list[Parameter]) -> Array:
    """Return the first of the copies of one parameter; a warning is logged if they differ."""
    array = first.load()
    for copy in copies:
        other: Any = copy.load()
        if array.shape != other.shape or not np.allclose(array, other, equal_nan=True):
            logger.warning("%s: differs among ranks that should be equal; the first is compared", name)
            break
    return array
