"""What the collector writes of any nested value, the reader reads: the same leaves, each under a name of its own."""

import json
import math
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="its describer writes the values")

from hypothesis import given  # behind the reason for a skip
from hypothesis import strategies as st

from msprobe.base.nested import tree_of
from msprobe.frameworks.pytorch.collecting import CAPABILITY as FRAMEWORK
from msprobe.store.reader import read
from msprobe.store.writer import Writer

pytestmark = pytest.mark.torch

KEYS = st.one_of(
    st.text(max_size=3),
    st.sampled_from(["1", "a", "a.b", "b", "type", "value", "1.5", "a.0", "0", "\udc80", "#2", "1#2"]),
    st.sampled_from([1, 1.5, None, (1,), -1, True, b"a"]),
)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.just(...)
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner, inner), st.dictionaries(KEYS, inner, max_size=5)
    ),
    max_leaves=25,
)


def leaves(value):
    """What is recorded of a value: every member that is no container, as the reader spells it."""
    if isinstance(value, list | tuple):
        return [leaf for inner in value for leaf in leaves(inner)]
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if value is None:
        return [("null", None)]
    if value is ...:
        return [("value", "...")]
    if isinstance(value, float):
        return [("value", "nan" if math.isnan(value) else value)]
    whole = value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
    return [("value", whole)]


def spelled(record):
    value = record.value
    return record.kind, "nan" if isinstance(value, float) and math.isnan(value) else value


@given(value=VALUES, depth=st.sampled_from([0, 1, 30]))
def test_the_reader_gives_the_leaves_that_were_collected(value, depth):
    for _ in range(depth):
        value = [value]
    with tempfile.TemporaryDirectory() as root:
        writer = Writer(Path(root), {"task": "statistics", "level": "L1", "framework": "pytorch"})
        describer = FRAMEWORK.describer(writer, saves=False, digests=False)
        tree = tree_of((value,))
        record = describer.value(tree.values[0], "Torch.f.0.forward", "input.0")
        writer.call("Torch.f.0.forward", None, None, f'{{"input_args":[{record}]}}')
        writer.close()
        assert not tree.lost
        json.loads((Path(root) / "dump.json").read_text())
        (call,) = read(root).calls
    records = [record for record in call.records if record.part == "input"]
    assert sorted(map(spelled, records), key=repr) == sorted(leaves(value), key=repr)
    assert len({record.name for record in records}) == len(records)
