"""The dataflow graph of real dumps: every incoming gradient is the sum of what the users of its tensor contribute."""

import numpy as np
import pytest

from msprobe.compare.dataflow.graph import Graph
from msprobe.store.reader import load_tensor, read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]


@pytest.mark.parametrize("framework", ["mindspore", "pytorch"])
def test_the_contributions_of_the_users_add_up_to_the_incoming_gradient(twins, framework):
    dump = read(twins.dump("gpt", framework, task="tensor") / "step0")
    graph = Graph(dump)
    checked, added = 0, 0
    for call, name in enumerate(graph.names):
        if name.kind != "api" or name.direction != "backward":
            continue
        for row in graph.inputs(call):
            parts, is_whole = graph.contributions(row)
            if not is_whole or not parts:
                continue
            expected = values(dump, row, call)
            total = sum(values(dump, part, graph.columns.call_of(part)) for part in parts)
            apart = np.linalg.norm(total - expected) / max(np.linalg.norm(expected), 1e-30)
            assert apart < 1e-6, dump.columns.names[call]
            checked, added = checked + 1, added + (len(parts) > 1)
    assert checked > 30
    assert added > 3, "tensors with several users"


def values(dump, row, call):
    return load_tensor(dump, dump.columns.record(row, call)).astype(np.float64)
