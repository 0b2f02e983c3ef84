"""The part of `msprobe config-check` that compares two checkpoints, parameter by parameter.

The answer is a JSON object with l2, cos, numel, shape and the verdict of each parameter; the worst are on standard
output. Exit code 0: every parameter is on both sides and passes. 1: something differs, or stands on one side only.
"""

from pathlib import Path

from msprobe.base.files import refuse_existing
from msprobe.base.log import visible
from msprobe.compare.core.standard import DTYPE
from msprobe.mapping.user_files import read_data

from .compare import ANOTHER, compare_checkpoints, write

ANSWER = "./ckpt_similarity.json"


def run(target: Path, golden: Path, *, output: str, data_mapping: str, standard: str, top: int) -> int:
    """Compare two checkpoints, write the answer, print the worst; returns the exit code."""
    answer = Path(output or ANSWER)
    refuse_existing(answer, ANOTHER)
    rules = read_data(Path(data_mapping)) if data_mapping else None
    result = compare_checkpoints(target, golden, rules, standard or DTYPE)
    write(result, answer)
    for line in result.lines(top):
        print(visible(line))
    print(visible(f"every parameter: {answer}"))
    return 0 if result.is_clean else 1
