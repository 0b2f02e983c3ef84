"""Dumps of PyTorch, made by hand, with every kind of value, level, place in the graph and exchange between ranks.

The tests work out by hand what becomes of them; benchmarks/compat/graphs.py asks msprobe.
"""

from functools import partial
from pathlib import Path

from made_dumps import INF, NAN, backward, forward, group, tensor, value, write

t = partial(tensor, framework="torch")
FRAMEWORK = "pytorch"


def values(folder: Path, changed: bool = False) -> Path:
    """A module whose arguments are one of each kind; `changed`: with other numbers, shapes and texts."""
    arguments = [
        t(1e-9, -1e22, 123456789.123456789, 0.1, requires_grad=True),
        value(2),
        value(1e-12),
        value('it\'s "x"'),
        value(True),
        None,
        {"type": "slice", "value": [0, None, 2]},
        {"type": "ellipsis", "value": "..."},
        {"type": "torch.Size", "value": [2, 3]},
        {"type": "torch.dtype", "value": "torch.float32"},
        group([0, 1]),
        t(None, None, None, None, shape=(0,)),
        t(True, False, None, None, dtype="torch.bool"),
        t(NAN, -INF, NAN, INF),
        [t(), {"k": t(3.0, 2.0, 1.0, 5.0)}],
        t(5, 1, 3.0, 9.0, dtype="torch.int64"),
    ]
    output, m = t(), t()
    if changed:
        arguments[0] = t(2e-9, -2e22, 23456789.123456789, 0.2, requires_grad=False)
        arguments[1], arguments[2], arguments[3] = value(3), value(2e-12), value("other")
        arguments[13] = t(NAN, -INF, 1.0, INF)
        arguments[15] = t(6, 1, 3.0, 9.0, dtype="torch.int64")
        output, m = t(NAN, 0.0, NAN, NAN), t(shape=(4, 4))
    data = {
        "Module.m.M.forward.0": forward(arguments, [output], {"alpha": value(1.0), "x": None, "m": m}),
        "Torch.empty.0.forward": forward([value(3)], [t(NAN, NAN, NAN, NAN)]),
    }
    construct = {"Torch.empty.0.forward": "Module.m.M.forward.0", "Module.m.M.forward.0": None}
    return write(folder, data, construct, framework=FRAMEWORK)


def overflow(folder: Path) -> Path:
    """Calls of every level; each stands in the one module."""
    bad = t(NAN)
    data = {
        "Torch.log.0.forward": forward([t()], [bad]),
        "Torch.add.0.forward": forward([bad], [bad]),
        "Torch.where.0.forward": forward([t(INF)], [t()]),
        "Torch.mul.0.forward": forward([t(norm=1.0)], [t(norm=101.0)]),
        "Torch.mul.1.forward": forward([t(norm=1.0)], [t(norm=100.0)]),
        "Torch.mul.2.forward": forward([t(norm=0.0)], [t(norm=101.0)]),
        "Torch.mul.3.forward": forward([t(norm=0.0)], [t(norm=99.0)]),
        "Torch.empty.0.forward": forward([value(3)], [bad]),
        "Torch.clean.0.forward": forward([t()], [t()]),
        "Torch.fill.0.forward": forward([t(), value(-INF)], [t()]),
        "Tensor.masked_fill_.0.forward": forward([bad, t()], [t()]),
        "Tensor.masked_fill_.1.forward": forward([t(), bad], [bad]),
        "Distributed.recv.0.forward": forward([bad], [t()], {"src": value(0)}),
        "Distributed.recv.1.forward": forward([], [t()], {"tensor": bad, "src": value(0)}),
        "Distributed.reduce_scatter.0.forward": forward([], [t()], {"output": bad, "input_list": [t()]}),
        "Distributed.all_gather.0.forward": forward([[bad], t()], [t()]),
        "Torch.mean.0.forward": forward([t(mean=INF)], [t()]),
        "Module.m.M.forward.0": forward([t()], [bad], parameters={"w": bad}),
        "Module.m.M.backward.0": backward([t()], [t(INF)]),
    }
    construct = {name: None if name.startswith("Module") else "Module.m.M.forward.0" for name in data}
    return write(folder, data, construct, framework=FRAMEWORK)


STRUCTURE = {
    "Torch.a.0.forward": None,
    "Module.l.L.forward.0": None,
    "Torch.b.0.forward": "Module.l.L.forward.0",
    "Torch.b.1.forward": None,
    "Torch.c.0.forward": None,
    "Module.l.L.backward.0": None,
    "Torch.b.0.backward": None,
    "Torch.b.1.backward": None,
    "Module.l.L.forward.1": None,
    "Torch.d.0.forward": None,
    "Torch.d.1.forward": None,
    "Module.l.L.backward.1": None,
    "Module.q.Q.backward.1": None,
    "Module.q.Q.forward.1": "Module.l.L.forward.1",
    "Custom.f.0.forward": None,
    "optimizer.step.0": None,
    "clip_grad.x.0": None,
    "Jit.f.0.forward": None,
    "NPU.g.0.forward": None,
}


def structure(folder: Path) -> Path:
    """Two micro steps, functions between modules, backward calls without a parent, gradients of parameters."""
    data = {name: backward([t()], [t()]) if "backward" in name else forward([t()], [t()]) for name in STRUCTURE}
    data["Module.l.L.parameters_grad"] = {"w": [t()]}
    data["Module.l.L.parameters_grad.1"] = {"w": [t()]}
    stacks = {
        "0": [
            ["Module.l.L.forward.0"],
            ["File h.py, line 1, in f, \n hook(x)", "File n.py, line 2, in forward, \n return self.l(x)"],
        ],
        "1": [
            ["Torch.b.0.forward"],
            ["File w.py, line 5, in w, \n return HOOKTemplate(x)", "File n.py, line 6, in forward, \n y = torch.b(x)"],
        ],
    }
    return write(folder, data, STRUCTURE, stacks, framework=FRAMEWORK)


def ranks(folder: Path, changed: bool = False, steps: int = 1) -> Path:
    """Two ranks that exchange in every way; `changed`: the second reduction gives another result."""
    world, sent = {"group": group([0, 1], "ab12")}, t(3.0, 1.0, 2.0, 7.0)
    for step in range(steps):
        for rank in (0, 1):
            other = {"dst": value(1 - rank)}, {"src": value(1 - rank)}
            calls = {
                "all_reduce.0": ([t()], [t()], world),
                "all_reduce.1": ([t()], [t(norm=20.0 if changed else 2.0)], world),
                "broadcast.0": ([t(), value(0)], [t()], world),
                "scatter.0": ([t()], [t()], {"src": value(0), **world}),
                "gather.0": ([t()], [t()], {"dst": value(1), **world}),
                "reduce.0": ([t(), value(1)], [t()], world),
                **({"send.0": ([sent], [sent], other[0])} if rank == 0 else {"recv.0": ([t()], [sent], other[1])}),
                "isend.0": ([sent], [sent], other[0]),
                "irecv.0": ([t()], [sent], other[1]),
            }
            data = {f"Distributed.{name}.forward": forward(*call) for name, call in calls.items()}
            data["Module.m.M.forward.0"] = forward([t()], [t()])
            construct = {name: "Module.m.M.forward.0" for name in data}
            construct["Module.m.M.forward.0"] = None
            write(folder / f"step{step}" / f"rank{rank}", data, construct, framework=FRAMEWORK)
    return folder
