"""Dumps of trainings with one module, made by hand: every number that a test asserts follows from here."""

import json

import numpy as np

CELL = "Module.fc.Linear.{}.0"
LOSS = "Functional.mse_loss.0.{}"


def record(folder, name, array, dtype="float32", **more):
    """The record of a tensor whose elements are saved."""
    array = np.asarray(array, dtype)
    (folder / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
    np.save(folder / "dump_tensor_data" / f"{name}.npy", array)
    wide = array.astype(np.float64)
    made = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": list(array.shape)}
    made |= {"Max": float(wide.max()), "Min": float(wide.min()), "Mean": float(wide.mean())}
    return made | {"Norm": float(np.sqrt((wide * wide).sum())), "data_name": f"{name}.npy", **more}


def write_step(run, step, *, weights, gradients, loss, output=(1.0, 2.0), task="tensor"):
    """One step: a module with parameters, a loss, their backward calls, and the gradients of the parameters."""
    folder = run / f"step{step}" / "rank0"
    forward, backward = CELL.format("forward"), CELL.format("backward")
    of_loss, of_loss_backward = LOSS.format("forward"), LOSS.format("backward")
    data = {
        forward: {
            "input_args": [record(folder, f"{forward}.input.0", [1.0, 1.0], **{"from": "leaf"})],
            "input_kwargs": {},
            "parameters": {k: record(folder, f"{forward}.parameters.{k}", v) for k, v in weights.items()},
            "output": [record(folder, f"{forward}.output.0", output)],
        },
        of_loss: {
            "input_args": [record(folder, f"{of_loss}.input.0", output, **{"from": f"call {forward}.output.0"})],
            "input_kwargs": {},
            "output": [record(folder, f"{of_loss}.output.0", loss)],
        },
        of_loss_backward: {
            "input": [record(folder, f"{of_loss_backward}.input.0", 1.0)],
            "output": [record(folder, f"{of_loss_backward}.output.0", output)],
        },
        backward: {
            "input": [record(folder, f"{backward}.input.0", output)],
            "output": [record(folder, f"{backward}.output.0", [0.5, 0.5])],
        },
        "Module.fc.Linear.parameters_grad": {
            k: [record(folder, f"Module.fc.Linear.parameters_grad.{k}", v)] for k, v in gradients.items()
        },
    }
    head = {"task": task, "level": "mix", "framework": "pytorch", "format_version": 1, "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "run": {"step": step, "rank": 0}, "data": data}))
    (folder / "construct.json").write_text(json.dumps(dict.fromkeys(data)))
    (folder / "stack.json").write_text("{}")
    return run


def write_run(run, losses, weights, gradients, **more):
    """A run of as many steps as there are losses; `weights` and `gradients` by step."""
    for step, loss in enumerate(losses):
        write_step(run, step, weights=weights[step], gradients=gradients[step], loss=loss, **more)
    return run


def write(run, data, lines, level="L1", framework="pytorch"):
    """A dump of one step with these records; `lines` are the lines of code by function, or module."""
    folder = run / "step0" / "rank0"
    head = {"task": "tensor", "level": level, "framework": framework, "format_version": 1, "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "run": {"step": 0, "rank": 0}, "data": data}))
    (folder / "construct.json").write_text(json.dumps(dict.fromkeys(data)))
    stacks = [
        [[name], [f"File /home/user/net.py, line {lines[name.split('.')[1]]}, in construct, \n code"]] for name in data
    ]
    (folder / "stack.json").write_text(json.dumps(dict(enumerate(stacks))))
    return run


class Calls:
    """A dump of one step, call by call. A tensor is a pair of its elements and its origin: a call's output, `leaf`, or
    `parameter NAME`."""

    def __init__(self, run):
        self.run, self.data = run, {}
        self.folder = run / "step0" / "rank0"

    def forward(self, name, value, *inputs, values=(), dtype="float32"):
        """A forward call that returns one tensor; `values` are further arguments. Return the tensor."""
        name = f"Functional.{name}.forward"
        given = [
            record(self.folder, f"{name}.input.{at}", array, **{"from": origin})
            for at, (array, origin) in enumerate(inputs)
        ]
        given += [{"type": type(one).__name__, "value": one} for one in values]
        output = record(self.folder, f"{name}.output.0", value, dtype)
        self.data[name] = {"input_args": given, "output": [output]}
        return value, f"call {name}.output.0"

    def backward(self, name, gradient, *returned, further=()):
        """A backward call, with the gradients that arrive, of the first result and `further` ones, and those of the
        inputs; None is one that is not computed."""
        name = f"Functional.{name}.backward"
        arriving = [
            None if each is None else record(self.folder, f"{name}.input.{at}", each)
            for at, each in enumerate((gradient, *further))
        ]
        outputs = [
            None if each is None else record(self.folder, f"{name}.output.{at}", each)
            for at, each in enumerate(returned)
        ]
        self.data[name] = {"input": arriving, "output": outputs}

    def gradients(self, module, values):
        """The gradients of a module's parameters, by name."""
        name = f"Module.{module}.Linear.parameters_grad"
        folder = self.folder
        self.data[name] = {key: [record(folder, f"{name}.{key}", value)] for key, value in values.items()}

    def write(self, **more):
        """Write the dump; each function is called in a line of code that has its own number."""
        functions = dict.fromkeys(name.split(".")[1] for name in self.data)
        return write(self.run, self.data, {function: at for at, function in enumerate(functions, 1)}, **more)
