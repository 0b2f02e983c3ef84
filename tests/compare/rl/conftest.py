"""Roots of RL flows as `MsProbe` leaves them, made by hand: every number that a test asserts follows from here."""

import json
from pathlib import Path

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.store.saves.single_saves import Place, write

KEYS = {
    "prompts": np.array([[1, 2], [3, 4]], np.int32),
    "responses": np.array([[5, 6, 7], [8, 9, 10]], np.int32),
    "ref_log_prob": np.array([[-1.0, -2.0, -0.5], [-0.25, -4.0, -1.5]], np.float32),
    "old_log_prob": np.array([[-1.0, -2.5, -0.5], [-0.25, -3.0, -1.5]], np.float32),
    "rewards": np.array([1.0, 0.0], np.float32),
    "advantages": np.array([1.0, -1.0], np.float32),
    "log_prob": np.array([[-1.0, -2.5, -0.5], [-0.25, -3.0, -1.5]], np.float32),
    "loss": np.array(0.5, np.float32),
}

CALLS = ("Cell.embed.Embedding.forward.0", "Cell.norm.LayerNorm.forward.0", "Cell.head.Dense.forward.0")
STACK = ["File /train/policy.py, line 7, in construct"]


class Root:
    """One run. `save` writes as SingleSave does, `graph_save` as `save` does, `dump` a stage of three calls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._saves = 0

    def configure(self, **settings):
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "configurations.json").write_text(json.dumps(settings))
        return self

    def save(self, step=0, rank=0, keys=KEYS, **changed):
        """Every key of a step; `changed` replaces some, None leaves one out."""
        for name, value in {**keys, **changed}.items():
            if value is not None:
                write(self.path, Place(name, step, rank, 0), value)
        return self

    def graph_save(self, step=0, rank=0, keys=KEYS, **changed):
        for name, value in {**keys, **changed}.items():
            if value is not None:
                folder = self.path / "data" / name / f"step{step}" / f"rank{rank}"
                folder.mkdir(parents=True, exist_ok=True)
                np.save(folder / f"{name}_{value.dtype}_{self._saves}.npy", value)
                self._saves += 1
        return self

    def dump(self, stage, step=0, rank=0, *, inputs=1.0, weight=11.0, made=(2.0, 3.0, 4.0)):
        """Three calls in a row; `inputs` goes into the first, `made` are their results, `weight` is of the second."""
        folder = self.path / stage / f"step{step}" / f"rank{rank}"
        data, before = {}, inputs
        for at, (name, result) in enumerate(
            zip(("embed.Embedding", "norm.LayerNorm", "head.Dense"), made, strict=True)
        ):
            call = f"Cell.{name}.forward.0"
            data[call] = {
                "input_args": [_record(before)],
                "input_kwargs": {},
                "output": [_record(result)],
                **({"parameters": {"gamma": _record(weight)}} if at == 1 else {}),
            }
            before = result
        folder.mkdir(parents=True)
        head = {"task": "statistics", "level": "L0", "framework": "mindspore", "dump_data_dir": None, "data": data}
        (folder / "dump.json").write_text(json.dumps(head))
        (folder / "construct.json").write_text(json.dumps(dict.fromkeys(data)))
        (folder / "stack.json").write_text(
            json.dumps({"0": [list(data), ["File /train/policy.py, line 7, in construct"]]})
        )
        return self


def _record(value):
    four = {"Max": value, "Min": -value, "Mean": 0.0, "Norm": 2 * value}
    return {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 2], **four}


@pytest.fixture
def changed():
    """`changed("loss", (), 0.25)`: a key with one element replaced."""

    def make(name, at, value):
        array = KEYS[name].copy()
        array[at] = value
        return array

    return make


@pytest.fixture
def roots(tmp_path):
    """The target and the golden, each with its configurations.json; what is only `data` is no root of a flow."""
    return Root(tmp_path / "target").configure(), Root(tmp_path / "golden").configure()


@pytest.fixture
def compare(roots, tmp_path, capfd):
    """Run the command on both roots; gives the exit code, the lines of the answer and the JSON beside the tables."""

    def run(*options, positional=False):
        target, golden = (str(root.path) for root in roots)
        sides = (target, golden) if positional else ("-tp", target, "-gp", golden)
        out = tmp_path / "out"
        code = main(["compare", *sides, "-o", str(out), *options])
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err + captured.out
        found = sorted(out.glob("compare_flow_2*.json"))
        whole = json.loads(found[-1].read_text()) if found else None
        return code, captured.out.splitlines() or captured.err.splitlines()[-1:], whole

    return run


@pytest.fixture
def summary():
    """`summary(lines)["why"]`: the lines of the answer by the words that they begin with; empty where there is none."""

    def by_word(lines):
        words = ("first difference", "why", "first wrong call", "collect it", "look at")
        found = {word: [line for line in lines if line.startswith(f"{word}: ")] for word in words}
        assert all(len(each) < 2 for each in found.values())
        there = [lines.index(each[0]) for each in found.values() if each]
        assert there == list(range(there[0], there[0] + len(there))), "they stand together, in this order"
        return {word: each[0].removeprefix(f"{word}: ") if each else "" for word, each in found.items()}

    return by_word
