"""The sample of MindSpore's kernel dump that the tests of this folder gather, and files like its own."""

import json
from pathlib import Path

import numpy as np

CPU = Path(__file__).parents[2] / "samples" / "kernel_dump" / "cpu"
KERNELS = CPU / "rank_0" / "Net" / "0" / "0"
DENSE = "Kernel.Default.fc-Dense"


def data(folder):
    return json.loads((folder / "dump.json").read_text("ascii"))


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def add_settings(raw, **ours):
    """More in the settings that the dump was made with."""
    file = raw / "kernel_kbyk_dump.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **ours}))


def save(folder, name, array):
    """One file of a kernel dump."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", array)
