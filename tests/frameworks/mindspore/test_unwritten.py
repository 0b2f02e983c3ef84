"""Memory that nothing has written is recorded as such (MindSpore; `tests/frameworks/pytorch` has more tests)."""

import mindspore as ms
import pytest
from mindspore import Tensor, mint, nn, ops

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(
        not hasattr(Tensor, "_version") or not hasattr(mint, "empty"),
        reason="tensors tell no version before MindSpore 2.9",
    ),
]

BLANK = {"type": "uninitialized", "value": ["mindspore.Tensor", "Float32", [4, 4]]}


def collected(collecting, dumped, run):
    debugger = collecting(level="L1")
    debugger.start(nn.Dense(1, 1))
    run()
    debugger.stop()
    debugger.step()
    return dumped(debugger).data


VIEWS = {
    "narrow": lambda x: x.narrow(0, 0, 2),
    "view": lambda x: x.view(16),
    "index": lambda x: x[1],
    "transpose": lambda x: x.t(),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_memory_that_nothing_has_written_is_no_value(view, collecting, dumped):
    data = collected(collecting, dumped, lambda: VIEWS[view](mint.empty((4, 4))))
    made, *views = data
    assert made == "Mint.empty.0.forward"
    assert data[made]["output"] == [BLANK]
    assert views
    assert all(data[name]["input_args"][0] == BLANK for name in views)
    assert all(each["type"] == "uninitialized" for name in views for each in data[name]["output"])


def test_what_was_written_is_a_value(collecting, dumped):
    def run():
        x = mint.empty((4, 4))
        x.copy_(Tensor([[3.0] * 4] * 4, ms.float32))
        ops.relu(x)

    data = collected(collecting, dumped, run)
    assert data["Tensor.copy_.0.forward"]["input_args"][0] == BLANK
    record = data["Functional.relu.0.forward"]["input_args"][0]
    assert (record["Max"], record["Min"]) == (3.0, 3.0)
