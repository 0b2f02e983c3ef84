"""Every function of the table that runs here is run on both sides, with generated arguments, and gives the same."""

import importlib
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

pytest.importorskip("mindspore", reason="both sides are run")
pytest.importorskip("torch", reason="both sides are run")

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # the examples stand beside each other and beside what runs them
executed = importlib.import_module("executed")
EXAMPLES = [e for f in sorted(HERE.glob("examples_*.py")) for e in importlib.import_module(f.stem).EXAMPLES]

TABLE = importlib.import_module("msprobe.mapping.api").load_table()
BY_STEM = {}
for _example in EXAMPLES:
    BY_STEM.setdefault(_example.stem, []).append(_example)


def pairs(stem):
    """(example, correspondence) for every pair of the stem that PyTorch has here."""
    for example in BY_STEM.get(stem, []):
        chosen = executed.pairs_of(example, TABLE)
        assert chosen, f"{example}: no correspondence of the table takes these arguments"
        yield from ((example, pair) for pair in chosen if executed.pt_function(pair.pt, example.pt_of) is not None)


@pytest.mark.parametrize("stem", sorted(TABLE.entries))
def test_both_sides_give_the_same(stem):
    done = set()
    for example, pair in pairs(stem):
        if not pair.unverified and example.kernel:
            executed.check(example, pair)
            done.add(id(pair))
    left = [pair for pair in TABLE.entries[stem] if id(pair) not in done and not pair.unverified]
    missing = [pair.pt for pair in left if not pair.pt.startswith("NPU.")]
    assert not missing, f"{stem}: write an example, or say in the table why {missing} cannot be executed"
    assert done or not left, f"{stem}: nothing was executed, and no reason is given"


UNVERIFIED = {stem for stem, pairs in TABLE.entries.items() if any(pair.unverified for pair in pairs)}
UNVERIFIED |= {example.stem for example in EXAMPLES if not example.kernel}


@pytest.mark.parametrize("stem", sorted(UNVERIFIED))
def test_what_cannot_be_executed_is_translated(stem):
    """A mark must be true, and PyTorch must take the arguments all the same."""
    for example, pair in pairs(stem):
        if pair.unverified or not example.kernel:
            executed.check_translated(example, pair)
            assert not executed.runs(example), f"{example} runs here: take the mark away"


def test_every_example_is_of_the_table():
    assert not sorted(set(BY_STEM) - set(TABLE.entries))
