"""The part of `msprobe config_check` that compares two checkpoints, parameter by parameter.

The answer is a JSON object with l2, cos, numel, shape and the verdict of each parameter; the worst are on standard
output. Exit code 0: every parameter is on both sides and passes. 1: something differs, or stands on one side only.
"""

import argparse
from pathlib import Path

from msprobe.base.files import refuse_existing
from msprobe.base.log import visible
from msprobe.compare.core.standard import DTYPE
from msprobe.mapping.user_files import read_data

from .compare import ANOTHER, compare_checkpoints, write

ANSWER = "./ckpt_similarity.json"


def run(args: argparse.Namespace) -> int:
    """Compare the two of `args.compare`, write the answer, print the worst."""
    output = Path(args.output or ANSWER)
    refuse_existing(output, ANOTHER)
    rules = read_data(Path(args.data_mapping)) if args.data_mapping else None
    target, golden = map(Path, args.compare)
    result = compare_checkpoints(target, golden, rules, args.standard or DTYPE)
    write(result, output)
    for line in result.lines(args.top):
        print(visible(line))
    print(visible(f"every parameter: {output}"))
    return 0 if result.is_clean else 1
