"""Dumps of a call or two, written as collectors write them, and replayed."""

import json
import zlib

import numpy as np
import pytest

from msprobe.replay.recorded import Replayed
from msprobe.replay.replay import replay
from msprobe.store.reader import read


class Writer:
    """Makes a dump of task `tensor` of one framework, call by call."""

    def __init__(self, folder, framework):
        self.folder, self.framework = folder, framework
        self.data = {}
        (folder / "dump_tensor_data").mkdir(parents=True)

    def forward(self, name, args=(), kwargs=None, outputs=(), parameters=None):
        """A forward call; arrays become tensors, everything else values."""
        entry = {
            "input_args": [self._value(f"{name}.input.{i}", value) for i, value in enumerate(args)],
            "input_kwargs": {key: self._value(f"{name}.input.{key}", value) for key, value in (kwargs or {}).items()},
            "output": [self._value(f"{name}.output.{i}", value) for i, value in enumerate(outputs)],
        }
        if parameters:
            entry["parameters"] = {k: self._value(f"{name}.parameters.{k}", v) for k, v in parameters.items()}
        self.data[name] = entry

    def backward(self, name, incoming, gradients, gradient="own"):
        """A backward call: gradients with respect to the outputs, and to the arguments in order."""
        entry = {
            "input": [self._value(f"{name}.input.{i}", value) for i, value in enumerate(incoming)],
            "output": [self._value(f"{name}.output.{i}", value) for i, value in enumerate(gradients)],
        }
        if gradient != "own":
            for record in entry["output"]:
                record["gradient"] = gradient
        self.data[name] = entry

    def dump(self):
        """The dump that was written so far, read."""
        header = {"task": "tensor", "level": "L1", "framework": self.framework, "dump_data_dir": None}
        (self.folder / "dump.json").write_text(json.dumps({**header, "data": self.data}))
        return read(self.folder / "dump.json")

    def replayed(self, name):
        """The answer for one call."""
        dump = self.dump()
        return replay(dump, dump.columns.names.index(name))

    def _value(self, stem, value):
        if value is None:
            return None
        if isinstance(value, np.ndarray):
            return self._tensor(stem, value)
        if isinstance(value, slice):
            return {"type": "slice", "value": [value.start, value.stop, value.step]}
        if isinstance(value, dict) and "value" in value:
            return value
        if isinstance(value, (list, tuple)):
            return [self._value(f"{stem}.{i}", inner) for i, inner in enumerate(value)]
        return {"type": type(value).__name__, "value": value}

    def _tensor(self, stem, array):
        file = stem if len(stem) < 200 else f"{zlib.crc32(stem.encode()):08x}"
        np.save(self.folder / "dump_tensor_data" / f"{file}.npy", array)
        name = {"float32": "Float32", "float16": "Float16", "int64": "Int64", "int32": "Int32", "bool": "Bool"}
        dtype = name[str(array.dtype)] if self.framework == "mindspore" else f"torch.{array.dtype}"
        kind = "mindspore.Tensor" if self.framework == "mindspore" else "torch.Tensor"
        record = {"type": kind, "dtype": dtype, "shape": list(array.shape), "data_name": f"{file}.npy"}
        return {**record, **dict.fromkeys(("Max", "Min", "Mean", "Norm"), 0.0)}


@pytest.fixture
def writer(tmp_path):
    """`writer("mindspore")`: an empty dump of a framework."""
    made = []

    def make(framework):
        made.append(framework)
        return Writer(tmp_path / f"{framework}{len(made)}", framework)

    return make


def best(result):
    """The residuals of the candidate that explains the call best, and its label."""
    assert isinstance(result, Replayed), result
    label, residuals = min(result.residuals.items(), key=lambda item: max(each.eta for each in item[1]))
    return residuals, label


@pytest.fixture
def random():
    """float32 tensors of a shape, normally distributed."""
    generator = np.random.default_rng(7)
    return lambda *shape: generator.standard_normal(shape).astype(np.float32)


@pytest.fixture(name="best")
def _best():
    return best
