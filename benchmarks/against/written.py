"""What a step left behind, whichever tool wrote it: read as plain JSON, by neither tool's reader (except packs)."""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msprobe.store.npy import load_npy
from msprobe.store.tensor_pack.packed import names_in

FILES = ("dump.json", "debug.json")


@dataclass(frozen=True)
class Written:
    """How many records, how many of them tensors, the tensors' own bytes, and the bytes of all files."""

    records: int
    tensors: int
    described: int
    bytes: int


def written(folder: Path) -> Written:
    """Count what lies below a folder. Of a dump without values (task structure) the calls are its records."""
    found = [json.loads(file.read_text()) for name in FILES for file in folder.rglob(name)]
    records = [record for dump in found for record in _records(dump["data"])]
    tensors = [record for record in records if record["type"] == "mindspore.Tensor"]
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    calls = sum(len(json.loads(file.read_text())) for file in folder.rglob("construct.json"))
    return Written(len(records) or calls, len(tensors), sum(map(_bytes, tensors)), size)


def arrays(folder: Path) -> dict[str, np.ndarray]:
    """The tensors below a folder, in memory: npy files, or those of packs, by our own reader."""
    packed = {index.parent / name for index in folder.rglob("tensors.index") for name in names_in(index.parent)}
    return {
        **{file.name: np.load(file) for file in folder.rglob("*.npy")},
        **{path.name: load_npy(path) for path in packed},
    }


def _records(node):
    if isinstance(node, dict):
        if isinstance(node.get("type"), str):
            yield node
            return
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _records(each)


def _bytes(record):
    bits = re.search(r"\d+$", record["dtype"])
    return math.prod(record["shape"]) * (int(bits.group()) // 8 if bits else 1)
