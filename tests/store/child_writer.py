"""A training that collects until it is killed; every finished call is reported on standard output.

Run as `python child_writer.py FOLDER SEED FORM`. Line `call I` says that call I was handed over, `assemble` that
the files are about to be written. What call I holds follows from I and SEED alone, so the test knows it too.
"""

import json
import sys
import zlib
from pathlib import Path

import numpy as np

LARGE = 40_000  # elements; a write of a third of a megabyte is long enough to be killed in
FILLING = 1000  # calls without tensors at the start, so that an assembly takes long enough to be killed in


def tensor_of(seed, i):
    """The tensor of call `i`."""
    return np.arange(LARGE if i % 3 else 3) * np.sqrt(seed + i)


def entry_of(seed, i):
    """The entry of call `i`, which names its tensor."""
    leaf = {
        "type": "mindspore.Tensor",
        "dtype": "Float64",
        "shape": list(tensor_of(seed, i).shape),
        "data_name": name_of(i),
    }
    return {"input_args": [leaf], "output": [{"type": "int", "value": i}]}


def name_of(i):
    """The file of call `i`."""
    return f"Functional.relu.{i}.forward.input.0.npy"


def main(folder, seed, form):
    """Write calls without end."""
    from msprobe.store.writer import Writer

    writer = Writer(Path(folder), {"task": "tensor", "level": "mix", "framework": "mindspore"}, form=form)
    for n in range(FILLING):
        entry = {"output": [{"type": "int", "value": n}] * 20}
        writer.call(f"Functional.fill.{n}.forward", None, None, json.dumps(entry))
    i = 0
    while True:
        if zlib.crc32(f"{seed} {i}".encode()) % 5 == 0:
            print("assemble", flush=True)
            writer.assemble()
        writer.tensor(name_of(i), tensor_of(seed, i))
        entry = json.dumps(entry_of(seed, i))
        writer.call(f"Functional.relu.{i}.forward", None, writer.stack([f"frame {i % 3}"]), entry)
        print(f"call {i}", flush=True)
        i += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
