"""Two paths in, the answer out."""

from collections.abc import Mapping
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.mapping.data_file import DataRule

from .find import Side, read_side
from .judge import JudgedParameter, judge
from .match import match
from .report import Answer


def compare_checkpoints(target: Path, golden: Path, rules: Mapping[str, DataRule] | None = None) -> Answer:
    """Compare the checkpoints at two paths, those of several ranks rank by rank; one parameter is in memory at a time.

    DumpError where a side holds no checkpoint that can be read, or the sides are cut into other numbers of ranks;
    MappingError where a rule names what is not there.
    """
    sides = read_side(target), read_side(golden)
    _same_ranks(*sides)
    judged: dict[str, JudgedParameter] = {}
    left_out: list[str] = []
    tied: list[str] = []
    for rank, checkpoint in sides[0].ranks.items():
        matched = match(checkpoint, sides[1].ranks[rank], rules)
        before = f"{rank}/" if rank else ""
        for pair in matched.pairs:
            # A golden without a partner may have a target's name all the same, where a rule paired that otherwise.
            name = before + pair.name
            judged[f"{name} (golden)" if name in judged else name] = judge(pair)
        left_out += [before + name for name in matched.left_out]
        tied += [before + name for name in matched.tied]
    if not judged:
        raise DumpError(f"{target} and {golden} hold no parameter; give checkpoints of a model")
    return Answer(str(target), str(golden), judged, left_out, tied)


def _same_ranks(target: Side, golden: Side) -> None:
    if set(target.ranks) == set(golden.ranks):
        return
    told = [f"{side.where} has {', '.join(filter(None, side.ranks)) or 'no ranks'}" for side in (target, golden)]
    raise DumpError(
        f"{told[0]}, {told[1]}: only checkpoints that are cut alike are compared rank by rank; merge each with its "
        "strategy files first (mindspore.unified_safetensors, or mindspore.transform_checkpoints) and compare those"
    )
