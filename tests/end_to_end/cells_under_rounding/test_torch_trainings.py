"""Level L0 under rounding (rule R1): the faulty module heads the answer, and two right trainings have none.

Both trainings are real. The target adds up its products in another order, so that hardly an output is equal to the bit;
what happens between modules is recorded on neither side.
"""

import json
import math

import pytest

torch = pytest.importorskip("torch", reason="trains with PyTorch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from msprobe.cli import main  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

pytestmark = pytest.mark.torch

TOKENS, WIDTH, HEADS, LAYERS = 29, 32, 4, 3
FAULTY = "blocks.1"


class Product(nn.Linear):
    """A linear layer that may add up each half of the features by itself."""

    is_halved = False

    def forward(self, x):
        if not self.is_halved:
            return super().forward(x)
        half = self.in_features // 2
        first = functional.linear(x[..., :half], self.weight[:, :half])
        return functional.linear(x[..., half:], self.weight[:, half:], self.bias) + first


class Norm(nn.Module):
    """A normalization that no library knows."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.eps = 1e-5

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (Product(WIDTH, WIDTH) for _ in range(4))
        self.scale, self.hidden = 1.0, 1

    def forward(self, x):
        size = WIDTH // HEADS
        q, k, v = (one(x).unflatten(-1, (HEADS, size)).transpose(1, 2) for one in (self.q, self.k, self.v))
        scores = 4 * q @ k.transpose(-1, -2) * (self.scale / math.sqrt(size))
        later = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), self.hidden)
        return self.out((scores.masked_fill(later, -1e4).softmax(-1) @ v).transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = Norm(), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.activation, self.down = Product(WIDTH, 2 * WIDTH), nn.GELU(), Product(2 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.head = nn.Embedding(TOKENS, WIDTH), Norm(), Product(WIDTH, TOKENS)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), labels.flatten())


def eps(block):
    block.norm1.eps = 1e-2


def eps_of_library(block):
    block.norm2.eps = 1e-2


def scale(block):
    block.attention.scale = 1.1


def gelu(block):
    block.activation.approximate = "tanh"


def mask(block):
    block.attention.hidden = 2


def hook(block):
    block.down.register_full_backward_hook(lambda module, received, given: (received[0] * 1.2,))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The dump of a training, made once: by dtype, task, fault, and whether products are halved."""
    known = {}

    def train(dtype, task, fault=None, *, is_halved=False):
        key = dtype, task, fault, is_halved
        if key not in known:
            known[key] = tmp_path_factory.mktemp("run")
            torch.manual_seed(3)
            net = Net().to(dtype)
            for module in net.modules():
                if isinstance(module, Product):
                    module.is_halved = is_halved
            if fault:
                fault(net.get_submodule(FAULTY))
            tokens = torch.randint(0, TOKENS, (4, 13))
            debugger = PrecisionDebugger(dump_path=str(known[key]), level="L0", task=task, step=[0])
            debugger.start(net)
            net(tokens[:, :-1], tokens[:, 1:]).backward()
            debugger.stop()
            debugger.step()
            PrecisionDebugger._known.clear()
        return known[key]

    return train


@pytest.fixture
def answer(trained, tmp_path, capsys):
    """Exit code, last line, and the call that heads the answer, of a target with a fault and halved products."""

    def compare(dtype, task, fault=None):
        sides = trained(dtype, task, fault, is_halved=True), trained(dtype, task)
        ours, golden = (str(side / "step0") for side in sides)
        code = main(["compare", "-tp", ours, "-gp", golden, "-o", str(tmp_path), "--format", "json", "--workers", "1"])
        (table,) = tmp_path.glob("compare_result*.json")
        first = json.loads(table.read_text())["first_wrong"]
        return code, capsys.readouterr().out.splitlines()[-1], first[0]["name"] if first else ""

    return compare


TASKS = ("tensor", "statistics")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_two_right_trainings_have_no_first_wrong_call(answer, dtype, task):
    code, last, first = answer(dtype, task)
    assert (code, first) == (0, "")
    assert last.startswith("no difference beyond rounding: ")
    assert f"; {'tensors' if task == 'tensor' else task} cannot detect an error of a call below " in last


# The module in which something is wrong, or the one that receives what operations between modules computed wrongly.
FAULTS = {
    eps: "norm1.Norm.forward.0",
    eps_of_library: "norm2.LayerNorm.forward.0",
    scale: "attention.out.Product.forward.0",
    gelu: "activation.GELU.forward.0",
    mask: "attention.out.Product.forward.0",
    hook: "down.Product.backward.0",
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_faulty_module_heads_the_answer(answer, fault, task):
    code, last, first = answer(torch.float32, task, fault)
    assert (code, first) == (1, f"Module.{FAULTY}.{FAULTS[fault]}"), last


# The statistics of what the mask changes are within what they show of bfloat16.
@pytest.mark.parametrize(
    ("fault", "task"),
    [(mask, "tensor"), (hook, "tensor"), (hook, "statistics")],
    ids=lambda of: getattr(of, "__name__", of),
)
def test_what_is_larger_than_bfloat16_rounds_heads_the_answer_there(answer, fault, task):
    code, last, first = answer(torch.bfloat16, task, fault)
    assert (code, first) == (1, f"Module.{FAULTY}.{FAULTS[fault]}"), last
