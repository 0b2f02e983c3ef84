"""Runs of several ranks made by hand, so that every number that a test asserts follows from here."""

import json
from pathlib import Path

KEYS = {"nan": "nan_count", "inf": "positive_inf_count", "-inf": "negative_inf_count"}


def tensor(what, source="", gradient="", shape=(2, 2)):
    """The record of a tensor: of a number, of `nan`, `3 inf`, `2 -inf`, or several of them after each other."""
    made = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": list(shape)}
    if isinstance(what, str):
        words = what.split()
        found = {}
        for at, word in enumerate(words):
            if word in KEYS:
                found[word] = int(words[at - 1]) if at and words[at - 1].isdigit() else 0
        high = float("nan") if "nan" in found else float("inf") if "inf" in found else 1.0
        low = float("nan") if "nan" in found else float("-inf") if "-inf" in found else -1.0
        if found == {"-inf": 4}:
            high = low
        made |= {"Max": high, "Min": low, "Mean": float("nan"), "Norm": float("nan")}
        made |= {KEYS[word]: count for word, count in found.items() if count}
    else:
        made |= {"Max": what + 1.0, "Min": what - 1.0, "Mean": float(what), "Norm": abs(what) * 2 + 1.0}
    if source:
        made["from"] = source
    if gradient:
        made["gradient"] = gradient
    return made


def value(what):
    """An argument that is no tensor."""
    return {"type": type(what).__name__, "value": what}


def group(*ranks):
    """A group of ranks, as PyTorch's are recorded."""
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks)}


class Rank:
    """One rank's dump of one step in the making."""

    def __init__(self):
        self.data, self.construct, self.stack = {}, {}, {}
        self.is_over = False
        """Whether the collection ended here, as task overflow_check does at its last finding."""

    def call(self, name, inputs=(), outputs=(), *, parent=None, line=0, parameters=None, missing=None, **keywords):
        """A call: what is no record yet becomes one of a tensor; `inputs` None leaves them out, as `data_mode` does."""

        def record(what):
            return what if isinstance(what, (dict, list)) or what is None else tensor(what)

        entry = {}
        if inputs is not None and ".backward" in name:
            entry["input"] = [record(one) for one in inputs]
        elif inputs is not None:
            entry["input_args"] = [record(one) for one in inputs]
            entry["input_kwargs"] = {key: record(one) for key, one in keywords.items()}
        if parameters:
            entry["parameters"] = {key: record(one) for key, one in parameters.items()}
        entry["output"] = [record(one) for one in outputs]
        if missing:
            entry["missing"] = missing
        return self._add(name, entry, parent, line)

    def gradients(self, name, parent=None, **found):
        """The gradients of a cell's parameters."""
        return self._add(name, {key.replace("_dot_", "."): [tensor(one)] for key, one in found.items()}, parent, 0)

    def _add(self, name, entry, parent, line):
        self.data[name], self.construct[name] = entry, parent
        if line:
            self.stack[str(len(self.stack))] = [[name], [f"File /train/net.py, line {line}, in construct, \n y = f(x)"]]
        return self

    def write(self, folder: Path, framework="mindspore", version=1, level="mix", **extra):
        folder.mkdir(parents=True)
        made = {"task": "statistics", "level": level, "framework": framework, "dump_data_dir": None, **extra}
        if version:
            made["format_version"] = version
        (folder / "dump.json").write_text(json.dumps({**made, "data": self.data}))
        (folder / "construct.json").write_text(json.dumps(self.construct))
        (folder / "stack.json").write_text(json.dumps(self.stack))
        if self.is_over:
            findings = {"findings_version": 1, "task": "overflow_check", "is_over": True, "findings": []}
            (folder / "findings.json").write_text(json.dumps(findings))


def write(path, ranks, step=0, **extra):
    """Write a step: `ranks` by number."""
    for number, rank in ranks.items():
        rank.write(path / f"step{step}" / f"rank{number}", **extra)
    return path
