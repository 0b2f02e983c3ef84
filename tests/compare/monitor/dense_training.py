"""A training written in numpy whose monitor is known to the number: three dense layers, two ranks, AdamW."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msprobe.store.monitor.table import Output, RankOutput, Table, Target

LAYERS = ("enter", "middle", "head")
PARAMETERS = tuple(f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias"))
STATISTICS = ("norm", "min", "max", "mean")
STEPS = 80
ALL = (0, 1)


@dataclass(frozen=True)
class Fault:
    """What is wrong from a step on, or at it."""

    name: str
    step: int
    rank: int = 0


def statistics(array):
    wide = array.astype(np.float64)
    return [np.sqrt((wide**2).sum()), wide.min(), wide.max(), wide.mean()]


def train(fault=None, *, order=0, half=False, steps=STEPS, parameters=PARAMETERS):
    """Rank -> kind -> rows (step, name, values). `order` permutes each batch, `half` rounds the middle layer's output
    to 8 bits of mantissa: two ways to be right."""
    rng = np.random.default_rng(5)
    sizes = ((8, 16), (16, 16), (16, 4))
    begin = [a for n, m in sizes for a in (rng.normal(0, n**-0.5, (n, m)), rng.normal(0, 0.1, m))]
    weights = [[a.astype(np.float32) for a in begin] for _ in ALL]
    moments = [[[np.zeros_like(a) for a in weights[0]] for _ in range(2)] for _ in ALL]
    data, teacher = rng.normal(0, 1, (512, 8)).astype(np.float32), rng.normal(0, 1, (8, 4)).astype(np.float32)
    found = {rank: {} for rank in ALL}

    def note(rank, kind, step, names, arrays):
        rows = found[rank].setdefault(kind, [])
        rows += [(step, name, statistics(a)) for name, a in zip(names, arrays, strict=True)]

    for step in range(steps):
        is_at = {name: fault is not None and fault.name == name and step >= fault.step for name in NAMES}
        once = fault is not None and fault.step == step
        of_rank = []
        for rank in ALL:
            is_here = fault is not None and rank == fault.rank
            seed = step - 1 if is_at["batch"] and once and is_here else step
            chosen = np.random.default_rng([seed, rank]).choice(512, 32, replace=False)
            if order:
                chosen = np.random.default_rng([order, step]).permutation(chosen)
            w = weights[rank]
            x = [data[chosen]]
            outputs = []
            for n in range(3):
                y = x[-1] @ w[2 * n] + w[2 * n + 1]
                if half and n == 1:
                    mantissa, exponent = np.frexp(y)
                    y = np.ldexp(np.round(mantissa * 256) / 256, exponent).astype(np.float32)
                outputs.append(y)
                x.append(np.tanh(y) if n < 2 else y)
            note(rank, "actv", step, [f"{layer}.output" for layer in LAYERS], outputs)
            back = (outputs[2] - np.tanh(data[chosen] @ teacher)) / 32
            back = back * np.float32(2 if is_at["loss_scale"] else 1)
            gradients = [None] * 6
            backs = []
            for n in (2, 1, 0):
                backs.append(back)
                if n == 1 and is_at["backward"] and is_here:
                    back = back * np.float32(1.01)
                gradients[2 * n], gradients[2 * n + 1] = x[n].T @ back, back.sum(0)
                if n:
                    back = (back @ w[2 * n].T) * (1 - x[n] ** 2)
            note(rank, "actv_grad", step, [f"{layer}.output" for layer in LAYERS[::-1]], backs)
            note(rank, "grad_unreduced", step, parameters, gradients)
            of_rank.append(gradients)
        mean = [(a + b) / np.float32(2) for a, b in zip(*of_rank, strict=True)]
        for rank in ALL:
            own = of_rank[rank] if is_at["all_reduce"] else list(mean)
            if is_at["clip"] and rank == fault.rank:
                own = [g * np.float32(0.5) for g in own]
            if is_at["moments"] and once:
                moments[rank][0] = [np.zeros_like(m) for m in moments[rank][0]]
            note(rank, "grad_reduced", step, parameters, own)
            for kind, each in zip(("exp_avg", "exp_avg_sq"), moments[rank], strict=True):
                note(rank, kind, step, parameters, each)
            note(rank, "param_origin", step, parameters, weights[rank])
            for at, g in enumerate(own):
                m = moments[rank][0][at] = np.float32(0.9) * moments[rank][0][at] + np.float32(0.1) * g
                v = moments[rank][1][at] = np.float32(0.99) * moments[rank][1][at] + np.float32(0.01) * g * g
                rate = 2e-3 if is_at["rate"] else 1e-3
                decay = 0.05 if at % 2 == 0 or is_at["decay"] else 0.0
                change = (m / (1 - 0.9 ** (step + 1))) / (np.sqrt(v / (1 - 0.99 ** (step + 1))) + 1e-8)
                weights[rank][at] = (weights[rank][at] * (1 - rate * decay) - rate * change).astype(np.float32)
            note(rank, "param_updated", step, parameters, weights[rank])
    return found


NAMES = ("rate", "decay", "backward", "clip", "all_reduce", "moments", "batch", "loss_scale")


def digits(value):
    """As the files have it: 6 digits behind the point, of numbers below 1 that are significant."""
    return round(value, 6) if abs(value) >= 1 else float(f"{value:.6g}")


def output(found, path="run", rounded=digits):
    """The rows as what a reader gives."""
    ranks = {}
    for rank, kinds in found.items():
        tables = {}
        for kind, rows in kinds.items():
            names = list(dict.fromkeys(name for _, name, _ in rows))
            columns = np.array([[rounded(float(v)) for v in values] for _, _, values in rows])
            tables[kind] = Table(
                kind,
                tuple(Target(0, name) for name in names),
                np.array([names.index(name) for _, name, _ in rows], np.int32),
                np.array([step for step, _, _ in rows], np.int64),
                np.zeros(len(rows), np.int64),
                {name: columns[:, at] for at, name in enumerate(STATISTICS)},
            )
        ranks[rank] = RankOutput(rank, tables, ())
    return Output(Path(path), "v1", ranks)


def write(found, root, name="Jan02_03-04-05"):
    """The rows as files of TrainerMon, a file for each kind of each rank."""
    for rank, kinds in found.items():
        folder = root / f"{name}-rank{rank}-0123abc{rank}"
        folder.mkdir(parents=True)
        for kind, rows in kinds.items():
            micro = kind.startswith("actv")
            head = f"vpp_stage,name,step{',micro_step' if micro else ''},{','.join(STATISTICS)},shape,dtype"
            body = [
                f'0,{name},{step}{",0" if micro else ""},{",".join(str(digits(float(v))) for v in values)},"(2, 3)",x'
                for step, name, values in rows
            ]
            (folder / f"{kind}_0-{STEPS - 1}.csv").write_text("\n".join([head, *body]) + "\n")
    return root
