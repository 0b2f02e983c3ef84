"""Compare the log-probs of generation with those that training computed again, and name the likely cause.

  msprobe rollout_check rollout.npz [--generated KEY --recomputed KEY --mask KEY --tokens KEY ...]
  msprobe rollout_check --generated A.npy --recomputed B.npy --mask M.npy
  msprobe rollout_check RUN [--generated rollout_log_prob --recomputed old_log_prob --mask response_mask ...]

RUN is a folder that holds `data`, as MsProbe, SingleSave and save write it; steps, ranks and micro steps are joined.
What is not named is looked for under its usual names; an empty name ('') leaves it out.
The answer is on standard output; tables by sample and by position go to the folder of -o.

Exit code 0: both sides are the same to float32. 1: they differ, rounding to 16 bits included, or something could not be
judged. 2: the command was wrong, or what it names cannot be read or is no log-prob.
"""

import argparse
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.log import visible
from msprobe.base.verdicts import last_line

_OPTIONS = {
    "generated": "log-probs of generation, default `generated`, else `rollout_log_prob`",
    "recomputed": "log-probs of training, default `recomputed`, else `old_log_prob`",
    "tokens": "token ids of both sides, default `tokens`, else `responses`",
    "generated_tokens": "those of one side",
    "recomputed_tokens": "those of the other",
    "mask": "1 where an element is of a response, of both sides, default `mask`, else `response_mask`",
    "generated_mask": "that of one side",
    "recomputed_mask": "that of the other",
    "lengths": "response tokens of each sample, for packed arrays and for matrices without a mask",
    "prompt_lengths": "prompt tokens of each sample",
    "steps": "training step of each sample, where it is not that of a run",
}

MAY_BE_EMPTY = tuple(f"--{name}" for name in _OPTIONS)
"""Options for which an empty name means that there is no such array."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("source", nargs="?", metavar="FILE.npz|RUN", help="what holds the arrays, or a run's key data")
    for name, text in _OPTIONS.items():
        parser.add_argument(f"--{name}", metavar="NAME", help=text)
    parser.add_argument("-o", "--output", metavar="FOLDER", default="./rollout_check", help="default: ./rollout_check")
    parser.add_argument("--format", choices=("xlsx", "csv", "json"), default="xlsx", help="of the tables; default xlsx")
    parser.add_argument(
        "--top", type=int, default=5, metavar="N", help="name at most N of the worst samples, default 5"
    )


def run(args: argparse.Namespace) -> int:
    """Read, compare, write the tables, print the answer."""
    if args.top < 0:
        raise UsageError("--top must not be negative")
    if args.source is None and not (args.generated and args.recomputed):
        raise UsageError("give an npz file, the folder of a run, or --generated A.npy --recomputed B.npy")
    from .alignment import align  # here: the help of the command is there before numpy is
    from .diagnosis import diagnose
    from .entry import write
    from .read import USUAL, read

    names = {option: getattr(args, option) for option in USUAL}
    for both in ("tokens", "mask"):
        for option in (f"generated_{both}", f"recomputed_{both}"):
            names[option] = getattr(args, both) if names[option] is None else names[option]
    sides = read(Path(args.source) if args.source else None, names)
    result = diagnose(align(sides.generated, sides.recomputed, sides.prompts, sides.steps), sides.lost)
    written = write(result, Path(args.output), args.format)
    for line in result.lines(args.top):
        print(visible(line))
    print(visible(f"written: {', '.join(map(str, written))}"))
    verdicts = result.verdicts
    if verdicts.unjudged:
        print(visible(last_line(f"{verdicts.judged} samples judged", verdicts)))
    return verdicts.exit_code
