"""The names of a finding as the patterns of the next dump; `tests/monitor/test_advice.py` collects with them."""

from types import SimpleNamespace

import pytest

from msprobe.compare.monitor.next_dump import next_dump
from msprobe.findings.catalogue import monitor as stages


@pytest.mark.parametrize(
    ("modules", "patterns"),
    [
        ([], []),
        (["module"], []),
        (["_orig_mod.module"], []),
        (["o"], [".o."]),
        (["module.o"], [".o."]),
        (["_orig_mod.layers.1.o"], ["layers.1.o."]),
        (["blocks.1._orig_mod"], [".blocks.1."]),
        (["blocks.1._orig_mod.o"], [".blocks.1._orig_mod.o.", ".blocks.1.o."]),
        (["self_attn.out_proj", "self_attn"], [".self_attn.out_proj.", ".self_attn."]),
        (["0", "module.0"], [".0."]),
        (["norm"], ["norm."]),
        (["embeddings.word"], ["embeddings.word."]),
    ],
)
def test_names_become_patterns_of_both_frameworks(modules, patterns):
    finding = SimpleNamespace(step=3, stage=stages.UNREDUCED, cause=None, ranks=(0,), modules=tuple(modules))
    made = next_dump(finding, 1)
    assert made[made["task"]]["list"] == patterns
    assert made["task"] == ("tensor" if patterns else "statistics")
