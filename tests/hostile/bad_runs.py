"""A correct run of two ranks, and everything that may be wrong with the folder of a rank, as data."""

import json
import os
import shutil

import numpy as np

from msprobe.store.writer import Writer

RANDOM = np.random.default_rng(35)
A, B = (RANDOM.standard_normal((4, 8)).astype(np.float32) for _ in range(2))
SOFT = np.exp(A.astype(np.float64)) / np.exp(A.astype(np.float64)).sum(-1, keepdims=True)
PARENT = "Module.net.Net.forward.0"
CALLS = {
    "Torch.add.0.forward": ([A, B], [A + B]),
    "Functional.relu.0.forward": ([A + B], [np.maximum(A + B, 0)]),
    "Torch.softmax.0.forward": ([A], [SOFT.astype(np.float32)]),
    "Torch.mul.0.forward": ([A, B], [A * B]),
}


def leaf(array, name=None):
    """The record of a tensor; `name` is that of its file."""
    wide = array.astype(np.float64)
    four = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.linalg.norm(wide)}
    made = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape)}
    made |= {key: float(value) for key, value in four.items()}
    return made | {"data_name": name} if name else made


def write_rank(folder, rank, form="json"):
    """A whole dump of task tensor."""
    header = {"task": "tensor", "level": "mix", "framework": "pytorch", "run": {"step": 0, "rank": rank}}
    writer = Writer(folder, header, form=form)
    for call, sides in CALLS.items():
        entry = {}
        for key, part, arrays in zip(("input_args", "output"), ("input", "output"), sides, strict=True):
            entry[key] = []
            for at, array in enumerate(arrays):
                name = writer.tensor(f"{call}.{part}.{at}.npy", array)
                entry[key].append(leaf(array, name))
        if "softmax" in call:
            entry["input_kwargs"] = {"dim": {"type": "int", "value": -1}}
        writer.call(call, PARENT, writer.stack(["File train.py, line 3, in step, \n y = f(x)"]), json.dumps(entry))
    # What has no statistics in a correct run: None, an empty tensor, a number; a bool tensor has two of four.
    empty = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [0, 3]}
    empty |= dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    flags = {"type": "torch.Tensor", "dtype": "torch.bool", "shape": [2], "Max": True, "Min": False}
    flags |= {"Mean": None, "Norm": None}
    inside = {"input_args": [leaf(A)], "output": [leaf(A * B)]}
    inside["input_kwargs"] = {"none": None, "empty": empty, "number": {"type": "int", "value": 2}, "flags": flags}
    writer.call(PARENT, None, None, json.dumps(inside))
    writer.close()


def write_run(root, form="json"):
    """A run of two ranks and one step."""
    for rank in (0, 1):
        write_rank(root / "step0" / f"rank{rank}", rank, form)
    return root


def records(change):
    """Change the records of all positional arguments and outputs in the dump.json of a rank."""

    def spoil(folder):
        text = json.loads((folder / "dump.json").read_text())
        for entry in text["data"].values():
            for record in (*entry["input_args"], *entry["output"]):
                change(record)
        (folder / "dump.json").write_text(json.dumps(text))

    return spoil


def statistics(value):
    return records(lambda record: record.update(dict.fromkeys(("Max", "Min", "Mean", "Norm"), value)))


def without_tensors(spoil):
    """The same, where no tensor can stand in for statistics."""

    def both(folder):
        spoil(folder)
        records(lambda record: record.pop("data_name", None))(folder)
        text = json.loads((folder / "dump.json").read_text())
        (folder / "dump.json").write_text(json.dumps({**text, "task": "statistics"}))
        shutil.rmtree(folder / "dump_tensor_data")

    return both


def digests(folder):
    def change(record):
        for key in ("Max", "Min", "Mean", "Norm"):
            record.pop(key)
        record["md5"] = "0badf00d"

    without_tensors(records(change))(folder)


def tensors(change):
    def spoil(folder):
        for file in sorted((folder / "dump_tensor_data").iterdir()):
            change(file)

    return spoil


def nan_in_a_tensor(folder):
    file = folder / "dump_tensor_data" / "Functional.relu.0.forward.output.0.npy"
    array = np.load(file)
    array[1, 2] = np.nan
    np.save(file, array)


def nan_in_a_norm(folder):
    text = json.loads((folder / "dump.json").read_text())
    text["data"]["Functional.relu.0.forward"]["output"][0]["Norm"] = float("nan")
    (folder / "dump.json").write_text(json.dumps(text))


def rename_calls(folder):
    text = json.loads((folder / "dump.json").read_text())
    text["data"] = {
        f"Functional.mystery.{at}.forward": entry for at, entry in enumerate(list(text["data"].values())[:-1])
    }
    (folder / "dump.json").write_text(json.dumps(text))


def only_cells(folder):
    text = json.loads((folder / "dump.json").read_text())
    text |= {"level": "L0", "data": {PARENT: text["data"][PARENT]}}
    (folder / "dump.json").write_text(json.dumps(text))


def empty_dump(folder):
    text = json.loads((folder / "dump.json").read_text())
    (folder / "dump.json").write_text(json.dumps({**text, "data": {}}))


def torn_journal(folder):
    shutil.rmtree(folder)
    rank = int(folder.name[-1])
    header = {"task": "tensor", "level": "mix", "framework": "pytorch", "run": {"step": 0, "rank": rank}}
    writer = Writer(folder, header)
    writer.call("Torch.add.0.forward", None, None, '{"input_args":[],"output":[]}')
    writer.flush()
    del writer
    with open(folder / "dump.journal", "ab") as journal:
        journal.write(b'C\t"Functional.rel')


def overwrite(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def replaced(make):
    """The folder of the rank becomes something else."""

    def spoil(folder):
        shutil.rmtree(folder)
        make(folder)

    return spoil


GARBAGE = bytes(range(256)) * 3

SPOILED = {
    "nothing": lambda folder: None,
    "statistics null": without_tensors(statistics(None)),
    "statistics null, with tensors": statistics(None),
    "statistics nan as text": without_tensors(statistics("nan")),
    "statistics absent": without_tensors(records(lambda r: [r.pop(key) for key in ("Max", "Min", "Mean", "Norm")])),
    "nan in a norm": nan_in_a_norm,
    "nan in a tensor": nan_in_a_tensor,
    "digests": digests,
    "no dump": lambda folder: [shutil.rmtree(folder), folder.mkdir()],
    "empty dump": empty_dump,
    "no tensor files": lambda folder: shutil.rmtree(folder / "dump_tensor_data"),
    "tensors cut": tensors(lambda file: file.write_bytes(file.read_bytes()[:-5])),
    "tensors garbage": tensors(lambda file: file.write_bytes(GARBAGE)),
    "unknown operations": rename_calls,
    "level L0": only_cells,
    "dump.json cut": lambda folder: os.truncate(folder / "dump.json", 300),
    "dump.json garbage": overwrite("dump.json", GARBAGE),
    "dump.json empty": overwrite("dump.json", b""),
    "stack.json garbage": overwrite("stack.json", GARBAGE),
    "construct.json garbage": overwrite("construct.json", GARBAGE),
    "torn journal": torn_journal,
    "a file": replaced(lambda folder: folder.write_text("not a folder")),
    "a symbolic link to itself": replaced(lambda folder: folder.symlink_to(folder.name)),
}
