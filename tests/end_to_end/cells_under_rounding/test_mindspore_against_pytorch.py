"""Level L0, MindSpore against PyTorch: the layer that computes differently from equal inputs is named."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="trains with PyTorch")
ms = pytest.importorskip("mindspore", reason="trains with MindSpore")

from msprobe.cli import main  # noqa: E402
from msprobe.mindspore import PrecisionDebugger as OfMindSpore  # noqa: E402
from msprobe.pytorch import PrecisionDebugger as OfPyTorch  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

TOKENS, WIDTH, BLOCKS = 19, 16, 3
GENERATOR = np.random.default_rng(4)
BATCH = GENERATOR.integers(0, TOKENS, (4, 9)).astype(np.int32)
LABELS = GENERATOR.integers(0, TOKENS, (4, 9)).astype(np.int32)
WEIGHTS = {
    name: (GENERATOR.standard_normal(shape) * scale).astype(np.float32)
    for name, shape, scale in (
        ("embedding", (TOKENS, WIDTH), 0.2),
        ("head", (TOKENS, WIDTH), 0.3),
        *((f"up{number}", (2 * WIDTH, WIDTH), 0.3) for number in range(BLOCKS)),
        *((f"down{number}", (WIDTH, 2 * WIDTH), 0.3) for number in range(BLOCKS)),
    )
}


class Block(ms.nn.Cell):
    def __init__(self, number):
        super().__init__()
        self.norm = ms.nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.up = ms.nn.Dense(WIDTH, 2 * WIDTH, weight_init=ms.Tensor(WEIGHTS[f"up{number}"]), bias_init="zeros")
        self.down = ms.nn.Dense(2 * WIDTH, WIDTH, weight_init=ms.Tensor(WEIGHTS[f"down{number}"]), bias_init="zeros")

    def construct(self, x):
        return x + self.down(ms.ops.tanh(self.up(self.norm(x))))


class Net(ms.nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = ms.nn.Embedding(TOKENS, WIDTH, embedding_table=ms.Tensor(WEIGHTS["embedding"]))
        self.blocks = ms.nn.CellList([Block(number) for number in range(BLOCKS)])
        self.head = ms.nn.Dense(WIDTH, TOKENS, weight_init=ms.Tensor(WEIGHTS["head"]), bias_init="zeros")

    def construct(self, tokens, labels):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return ms.ops.cross_entropy(self.head(x).reshape(-1, TOKENS), labels.reshape(-1))


class TorchBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class TorchNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(TOKENS, WIDTH), torch.nn.Linear(WIDTH, TOKENS)
        self.blocks = torch.nn.ModuleList(TorchBlock() for _ in range(BLOCKS))
        layers = {"embedding": self.embedding, "head": self.head}
        for number, block in enumerate(self.blocks):
            layers |= {f"up{number}": block.up, f"down{number}": block.down}
        for name, layer in layers.items():
            layer.weight.data = torch.from_numpy(WEIGHTS[name].copy())
            if name != "embedding":
                layer.bias.data.zero_()

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return torch.nn.functional.cross_entropy(self.head(x).reshape(-1, TOKENS), labels.reshape(-1))


def train_mindspore(folder, task):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = Net()
    step = ms.value_and_grad(net, None, net.trainable_params())
    debugger = OfMindSpore(dump_path=str(folder), level="L0", task=task, step=[0])
    debugger.start(net)
    step(ms.Tensor(BATCH), ms.Tensor(LABELS))
    debugger.stop()
    debugger.step()
    OfMindSpore._known.clear()


def train_pytorch(folder, task, eps):
    net = TorchNet()
    net.blocks[1].norm.eps = eps
    debugger = OfPyTorch(dump_path=str(folder), level="L0", task=task, step=[0])
    debugger.start(net)
    net(torch.from_numpy(BATCH).long(), torch.from_numpy(LABELS).long()).backward()
    debugger.stop()
    debugger.step()
    OfPyTorch._known.clear()


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_the_norm_with_another_eps_is_named_and_two_right_ones_are_not(task, tmp_path, capsys):
    train_mindspore(tmp_path / "target", task)
    answers = []
    for eps in (1e-5, 1e-3):
        golden, out = tmp_path / f"golden{eps}", tmp_path / f"out{eps}"
        train_pytorch(golden, task, eps)
        sides = ["-tp", str(tmp_path / "target" / "step0"), "-gp", str(golden / "step0")]
        code = main(["compare", *sides, "-o", str(out), "--format", "json", "--workers", "1"])
        (table,) = out.glob("compare_result*.json")
        found = json.loads(table.read_text())["first_wrong"]
        answers.append((code, found[0]["name"] if found else "", capsys.readouterr().out.splitlines()[-1]))
    clean, faulty = answers
    assert clean[:2] == (0, ""), clean[2]
    assert faulty[:2] == (1, "Cell.blocks.1.norm.LayerNorm.forward.0"), faulty[2]
