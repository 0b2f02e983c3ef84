"""Packs made by hand, entry by entry, as the specification of msprobe's format says; and the answer of the command."""

import json
import zipfile

import openpyxl

STACK = ["File /a/train.py, line 3, in <module>, main()", "File /a/train.py, line 9, in main, x = torch.rand(2)"]
ONES = {"max": 1.0, "min": 1.0, "mean": 1.0, "norm": 2.0}
WEIGHT = {"max": 0.5, "min": -0.25, "mean": 0.125, "norm": 0.75}


def entries(**changed):
    """The entries of a small whole pack; a keyword replaces one, None leaves it out (`__` stands for a slash)."""
    held = {
        "env": {"HCCL_DETERMINISTIC": "true", "ASCEND_HOME_PATH": "/usr/local/Ascend", "USER": "a"},
        "pip": "numpy=1.26.4\ntorch=2.6.0\nrich=13.0\n",
        "hyperparameters/hyperparameters_static.json": {"lr": "0.1", "seq-length": "4", "save": "/a"},
        "dataset/step0/rank0/dataset.json": {"args": {"0": ONES, "1": ""}, "kwargs": {"mask": {"k": ONES}}},
        "weights/step0/rank0/weight.json": {"fc.weight": WEIGHT, "fc.bias": ONES},
        "random/rank0.json": {"torch.rand": [{"count": 2, "stack": STACK}]},
    }
    names = {"static": "hyperparameters/hyperparameters_static.json", "dataset": "dataset/step0/rank0/dataset.json"}
    names |= {"weights": "weights/step0/rank0/weight.json", "random": "random/rank0.json", "about": "pack.json"}
    for key, value in changed.items():
        held[names.get(key, key.replace("__", "/"))] = value
    return {name: value for name, value in held.items() if value is not None}


def pack(path, held=None, **changed):
    """Write a pack."""
    with zipfile.ZipFile(path, "w") as made:
        for name, value in (held or entries(**changed)).items():
            made.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


def sheets(path):
    """The sheets of a result, each a list of dicts by heading."""
    book = openpyxl.load_workbook(path)
    found = {}
    for sheet in book:
        headings, *rows = sheet.iter_rows(values_only=True)
        found[sheet.title] = [dict(zip(headings, row, strict=True)) for row in rows]
    return found


def summary(path):
    """The verdict of each checker."""
    return {row["filename"]: row["pass_check"] for row in sheets(path)["summary"]}
