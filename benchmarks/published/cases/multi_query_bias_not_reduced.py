"""All ranks share the keys and values of multi-query attention; the gradients of their bias are not reduced."""

import torch
from case import Truth
from on_pytorch import WIDTH, average_gradients, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "bigcode-project/Megatron-LM#11, #12"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "parameters differ"),
    calls=("Distributed.all_reduce.1.forward @ ", "Tensor.__itruediv__.1.forward @ "),
    parameters=("key_value.bias",),
    check=("reduced-gradients", "equal-parameters"),
)


class MultiQuery(nn.Module):
    """One head of queries on each rank, one head of keys and values for all."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(0)
        self.key_value = nn.Linear(WIDTH, 16)
        self.head = nn.Linear(8, 5)
        torch.manual_seed(1 + rank)
        self.query = nn.Linear(WIDTH, 8)

    def forward(self, x):
        q, (k, v) = self.query(x), self.key_value(x).chunk(2, -1)
        return self.head((torch.softmax(q @ k.transpose(-1, -2) / 3, -1) @ v).mean(1))


def train(run):
    net = MultiQuery(run.rank)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step, shape=(8, 4, WIDTH))), labels(step))
        loss.backward()
        average_gradients(net, run, skip=("query.weight", "query.bias", *(("key_value.bias",) if run.buggy else ())))
        run.update(optimizer, loss)
