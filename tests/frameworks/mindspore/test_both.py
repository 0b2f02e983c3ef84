"""Values of PyTorch in the calls of a training with MindSpore: they cost no call its record."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

pytestmark = pytest.mark.mindspore

torch = pytest.importorskip("torch", reason="the values are of this framework")

ROW = np.array([[1.0, -2.0, 3.0]], dtype=np.float32)


class Bridge(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 2)

    def construct(self, x):
        return self.fc(Tensor(x.numpy())), x


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.bridge = Bridge()

    def construct(self, x):
        return ops.sum(self.bridge(x)[0])


def test_a_cell_that_is_given_a_tensor_of_pytorch_is_recorded(collecting, dumped):
    net = Net()
    debugger = collecting(level="L0")
    debugger.start(net)
    ms.value_and_grad(net, None, net.trainable_params())(torch.tensor(ROW))
    debugger.stop()
    debugger.step()
    found = dumped(debugger)
    assert set(found.data) == {
        "Cell.bridge.fc.Dense.forward.0",
        "Cell.bridge.Bridge.forward.0",
        "Cell.bridge.fc.Dense.backward.0",
        "Cell.bridge.fc.Dense.parameters_grad",
        "Cell.bridge.Bridge.backward.0",
    }
    assert found.data["Cell.bridge.Bridge.forward.0"]["input_args"] == [None]
    assert found.data["Cell.bridge.Bridge.forward.0"]["output"][0]["shape"] == [1, 2]
