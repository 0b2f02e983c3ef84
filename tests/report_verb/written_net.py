"""A net of five calls and a loss, written by hand as a dump of statistics: every number that a test asserts follows
from here."""

import json
from pathlib import Path

SOURCE = """import mindspore as ms


class Net(ms.nn.Cell):
    def construct(self, x):
        h = self.fc(x)
        return ms.mint.relu(h)
"""

NAMES = [
    "Mint.linear.0.forward",
    "Cell.fc.Dense.forward.0",
    "Mint.relu.0.forward",
    "Mint.mean.0.forward",
    "Mint.mean.0.backward",
    "Mint.relu.0.backward",
    "Mint.linear.0.backward",
    "Cell.fc.Dense.backward.0",
    "Cell.fc.Dense.parameters_grad",
]


def tensor(top, shape=(4,), *, low=0.0, mean=None, norm=None, source=""):
    """A tensor's record; mean and norm follow from the maximum where they are not given."""
    mean, norm = top / 2 if mean is None else mean, top * 1.5 if norm is None else norm
    made = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": list(shape)}
    made |= {"Max": top, "Min": low, "Mean": mean, "Norm": norm}
    return made | ({"from": source} if source else {})


def write_net(folder, *, relu=3.0, source="net.py", rename=None, extra=None, head=None):
    """One step of one rank; `relu` is the maximum of what the relu gives, and what follows from it is as far off.
    `rename` gives calls other names, `extra` are further calls at the end."""
    off = relu / 3.0
    x, w, h, y = tensor(1.0), tensor(2.0, (4, 4)), tensor(5.0), tensor(relu)
    loss = tensor(2.0 * off, ())
    g1, g2, g3 = tensor(0.25), tensor(0.5 * off), tensor(0.125 * off)
    data = {
        NAMES[0]: forward([x | {"from": "leaf"}, w | {"from": "parameter fc.weight"}], [h]),
        NAMES[1]: forward([x], [h]) | {"parameters": {"weight": w}},
        NAMES[2]: forward([h | {"from": f"call {NAMES[0]}.output.0"}], [y]),
        NAMES[3]: forward([y | {"from": f"call {NAMES[2]}.output.0"}, {"type": "int", "value": 0}], [loss]),
        NAMES[4]: {"input": [tensor(1.0, ())], "output": [g1]},
        NAMES[5]: {"input": [g1], "output": [g2]},
        NAMES[6]: {"input": [g2], "output": [g3, tensor(0.75 * off, (4, 4))]},
        NAMES[7]: {"input": [g2], "output": [g3]},
        NAMES[8]: {"weight": [tensor(0.75 * off, (4, 4))]},
        **(extra or {}),
    }
    construct = {
        name: {
            NAMES[0]: NAMES[1],
            NAMES[6]: NAMES[7],
        }.get(name)
        for name in data
    }
    stacks = {
        "0": [[NAMES[0], NAMES[1]], [f"File {source}, line 6, in construct, \n h = self.fc(x)"]],
        "1": [[NAMES[2], NAMES[3]], [f"File {source}, line 7, in construct, \n return ms.mint.relu(h)"]],
    }
    if rename:
        data = {rename(name): value for name, value in data.items()}
        construct = {rename(name): parent and rename(parent) for name, parent in construct.items()}
        stacks = {number: [[rename(name) for name in names], frames] for number, (names, frames) in stacks.items()}
    place = Path(folder) / "step0" / "rank0"
    place.mkdir(parents=True)
    top = {"task": "statistics", "level": "mix", "framework": "mindspore", "dump_data_dir": None, **(head or {})}
    for file, content in (("dump", {**top, "data": data}), ("construct", construct), ("stack", stacks)):
        (place / f"{file}.json").write_bytes(json.dumps(content).encode())
    return Path(folder)


def forward(inputs, outputs):
    """The entry of a forward call."""
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs}
