"""How often AnomalyRobust alarms in ordinary trainings, and how many jumps it sees: `python benchmarks/alerts.py`.

Needs torch. Small networks are trained with warm-up and cosine decay on data that never repeats; every parameter,
gradient, moment and output of a module is measured at every step. The last column is the part of the gradient norms
that are reported when all values of one step are multiplied by three: noise of small batches hides the others.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from msprobe.base.brief import COLUMNS, measure_all
from msprobe.monitor.alerts import Alerts
from msprobe.monitor.rules import Robust

STEPS = 2000
WARM_UP = 100
WORDS = 48
SEEDS = 3
Step = dict[str, np.ndarray]


class Name(NamedTuple):
    """A row of one kind."""

    vpp_stage: int
    name: str
    micro_step: None = None


class Transformer(nn.Module):
    """Two blocks over a causal mask."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, WORDS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.out(self.blocks(self.words(x), mask=mask))


class Lstm(nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.out = (
            nn.Embedding(WORDS, 24),
            nn.LSTM(24, 32, batch_first=True),
            nn.Linear(32, WORDS),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(x))[0])


def convolutions() -> nn.Module:
    first = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    second = [nn.Conv2d(8, 16, 3, 2, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(16 * 36, 10))


def text(rng: np.random.Generator) -> Callable[[nn.Module], torch.Tensor]:
    """The loss of the next word of a Markov chain."""
    chances = rng.dirichlet(np.full(WORDS, 0.05), WORDS).cumsum(1)

    def loss(net: nn.Module) -> torch.Tensor:
        words = np.empty((8, 33), int)
        words[:, 0] = rng.integers(0, WORDS, 8)
        for at in range(32):
            words[:, at + 1] = np.minimum((rng.random((8, 1)) > chances[words[:, at]]).sum(1), WORDS - 1)
        batch = torch.from_numpy(words)
        return functional.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    return loss


def pictures(rng: np.random.Generator) -> Callable[[nn.Module], torch.Tensor]:
    """The loss of ten noisy patterns."""
    patterns = rng.standard_normal((10, 1, 12, 12)).astype("f4")

    def loss(net: nn.Module) -> torch.Tensor:
        labels = rng.integers(0, 10, 16)
        noisy = patterns[labels] + 2 * rng.standard_normal((16, 1, 12, 12)).astype("f4")
        return functional.cross_entropy(net(torch.from_numpy(noisy)), torch.from_numpy(labels))

    return loss


NETS = {"transformer": (Transformer, text, 3e-3), "lstm": (Lstm, text, 1e-2), "conv": (convolutions, pictures, 3e-3)}


def training(kind: str, seed: int, steps: int) -> Iterator[Step]:
    """What a monitor measures at each step, by kind: AdamW, for the last seed SGD with momentum; even seeds clip."""
    torch.manual_seed(seed)
    make, data, peak = NETS[kind]
    net, loss_of = make(), data(np.random.default_rng(seed))
    parameters = list(net.parameters())
    adam = seed != SEEDS - 1
    peak *= 1 if adam else 20
    optimizer = torch.optim.AdamW(parameters, peak) if adam else torch.optim.SGD(parameters, peak, momentum=0.9)
    outputs: list[np.ndarray] = []

    def see(_: nn.Module, __: object, output: object) -> None:
        first = output[0] if isinstance(output, tuple) else output
        outputs.append(first.detach().numpy())

    for module in net.modules():
        module.register_forward_hook(see)
    for step in range(steps):
        rate = peak * min(1, (step + 1) / WARM_UP) * (0.05 + 0.475 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        outputs.clear()
        optimizer.zero_grad()
        loss = loss_of(net)
        loss.backward()
        found = {
            "actv": outputs,
            "local": [loss.detach().numpy()],
            "param_origin": [p.detach().numpy() for p in parameters],
        }
        found["grad_unreduced"] = [p.grad.numpy() for p in parameters]
        measured = {name: measure_all(arrays, 1e-8) for name, arrays in found.items()}
        if seed % 2 == 0:
            nn.utils.clip_grad_norm_(parameters, 1.0)
        found = {"grad_reduced": [p.grad.numpy() for p in parameters]}
        for moment in ("exp_avg", "exp_avg_sq") if adam and step else ():
            found[moment] = [optimizer.state[p][moment].numpy() for p in parameters]
        yield measured | {name: measure_all(arrays, 1e-8) for name, arrays in found.items()}
        optimizer.step()


def alarms(steps: list[Step]) -> int:
    alerts = Alerts([Robust()])
    return sum(
        len(alerts.check(kind, [Name(0, str(row)) for row in range(len(values))], values, COLUMNS, number, 0))
        for number, step in enumerate(steps)
        for kind, values in step.items()
    )


def seen_jumps(steps: list[Step], every: int = 200) -> float:
    """The part of gradients whose norm is reported when it is three times what it was, at one step in `every`."""
    seen = total = 0
    for last in range(every, len(steps), every):
        alerts = Alerts([Robust()])
        series = [step["grad_unreduced"][:, :1] for step in steps[last - 160 : last + 1]]
        series[-1] = series[-1] * 3
        for number, values in enumerate(series):
            found = alerts.check(
                "grad_unreduced", [Name(0, str(at)) for at in range(len(values))], values, ["norm"], number, 0
            )
        seen, total = seen + len(found), total + len(series[-1])
    return seen / max(total, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="400 steps instead of 2000")
    count = 400 if parser.parse_args().quick else STEPS
    print("| net | seed | values | alarms | per 10^6 values | jumps by 3 seen |\n|---|---|---|---|---|---|")
    for kind in NETS:
        for seed in range(SEEDS):
            steps = list(training(kind, seed, count))
            values, found = sum(each.size for step in steps for each in step.values()), alarms(steps)
            print(
                f"| {kind} | {seed} | {values} | {found} | {found / values * 1e6:.2f} | {seen_jumps(steps):.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
