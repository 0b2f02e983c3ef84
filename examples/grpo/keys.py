"""Lay the key data of two runs side by side, a line for every key, in the order of the flow.

    python keys.py TARGET GOLDEN

The sheets, with a row for every tensor, are in out/keys.
"""

import sys
from pathlib import Path

from openpyxl import load_workbook

from msprobe.core import SingleComparator

FLOW = (
    *("prompts", "prompt_mask", "prompt_lengths", "responses", "response_mask", "generated_text"),
    *("rollout_log_prob", "rewards", "ref_log_prob", "values", "old_log_prob", "advantages"),
    *("log_prob", "kl_loss", "loss", "critic_loss"),
)


def first_step(sheet):
    """The first step in which a key differs; None where it never does. The rows of a sheet are sorted by step."""
    heading, *rows = load_workbook(sheet).active.values
    same, step = heading.index("相同元素百分比(%)"), heading.index("step")
    return next((row[step] for row in rows if row[same] != 100), None)


target, golden = sys.argv[1:]
sheets = {Path(path).stem: path for path in SingleComparator.compare(target, golden, output_path="out/keys")}
steps = {key: first_step(sheets[key]) for key in FLOW}
for key, step in steps.items():
    print(f"{key:20}{'the same' if step is None else f'differs from step {step} on'}")
differing = {key: step for key, step in steps.items() if step is not None}
if differing:
    key = min(differing, key=differing.get)  # of several keys in one step, the one that the flow makes first
    print(f"first: {key} in step {differing[key]}")
