import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 3)
        self.out = nn.Dense(3, 2)

    def construct(self, x):
        y = ops.relu(self.fc(x))
        return self.out(y).sum()


ms.set_context(mode=ms.GRAPH_MODE)
ms.set_seed(1)
net = Net()
step = ms.value_and_grad(net, None, net.trainable_params())
print(step(Tensor(np.arange(8, dtype=np.float32).reshape(2, 4)))[0])
