"""A small writer of dumps, for tests that need exactly this call with exactly that value; and what is made of it."""

import json
import pickle
import sys
import zlib
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.base.digest import digest
from msprobe.compare.locate.find import locate
from msprobe.compare.measure import block
from msprobe.compare.ranks.search import summarize
from msprobe.compare.run import compare
from msprobe.store.reader import read
from msprobe.store.record import Dump

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
from three_calls import EXP, SIN, TAN
from two_frameworks import Side, Twin, found


@dataclass
class Tensor:
    """A tensor record: `value` plus 0, 0.25, 0.5, 0.75, or the array itself."""

    value: Any
    source: str = ""
    dtype: str = "Float32"
    gradient: str = "own"

    @property
    def array(self) -> np.ndarray:
        if isinstance(self.value, np.ndarray):
            return self.value
        return (np.arange(4).reshape(2, 2) / 4 + self.value).astype(np.float32)


@dataclass
class Value:
    """A record that is no tensor."""

    value: Any


class Builder:
    """Collects calls and writes them as a dump; `mode` is statistics, tensor, digest or, with another one, crc32c."""

    def __init__(
        self, folder: Path, mode: str = "statistics", level: str = "mix", framework: str = "mindspore"
    ) -> None:
        self.folder = folder / "step0" / "rank"
        self.mode, self.level, self.framework = mode, level, framework
        self.data: dict[str, Any] = {}
        self.construct: dict[str, str | None] = {}
        self.stacks: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}

    def call(self, name, inputs=(), outputs=(), *, parameters=None, kwargs=None, parent=None, stack=(), missing=()):
        entry: dict[str, Any] = {}
        if inputs is None:  # as `data_mode` leaves it out
            pass
        elif ".backward" in name:
            entry = {"input": [self._record(f"{name}.input.{n}", v) for n, v in enumerate(inputs)]}
        else:
            entry = {
                "input_args": [self._record(f"{name}.input.{n}", v) for n, v in enumerate(inputs)],
                "input_kwargs": {k: self._record(f"{name}.kwargs.{k}", v) for k, v in (kwargs or {}).items()},
            }
        if parameters:
            entry["parameters"] = {k: self._record(f"{name}.parameters.{k}", v) for k, v in parameters.items()}
        if outputs is not None:
            entry["output"] = [self._record(f"{name}.output.{n}", v) for n, v in enumerate(outputs)]
        if missing:
            entry["missing"] = list(missing)
        self.data[name] = entry
        self.construct[name] = parent
        if stack:
            self.stacks[str(len(self.stacks))] = [[name], list(stack)]
        return self

    def gradients(self, name, **parameters):
        self.data[name] = {k: [self._record(f"{name}.{k}", v)] for k, v in parameters.items()}
        return self

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        head = {
            "task": "tensor" if self.mode == "tensor" else "statistics",
            "level": self.level,
            "framework": self.framework,
            "dump_data_dir": None,
            **self.extra,
            "data": self.data,
        }
        (self.folder / "dump.json").write_text(json.dumps(head))
        (self.folder / "construct.json").write_text(json.dumps(self.construct))
        (self.folder / "stack.json").write_text(json.dumps(self.stacks))
        return self.folder

    def dump(self) -> Dump:
        return read(self.write())

    def _record(self, name: str, payload: Any) -> Any:
        if isinstance(payload, list):
            return [self._record(f"{name}.{n}", inner) for n, inner in enumerate(payload)]
        if payload is None:
            return None
        if isinstance(payload, Value):
            return {"type": type(payload.value).__name__, "value": payload.value}
        if not isinstance(payload, Tensor):
            payload = Tensor(payload)
        array = payload.array
        record: dict[str, Any] = {"type": "mindspore.Tensor", "dtype": payload.dtype, "shape": list(array.shape)}
        if array.dtype == np.bool_:
            record |= {"Max": bool(array.any()), "Min": bool(array.all()), "Mean": None, "Norm": None}
        elif array.size:
            wide = array.astype(np.float64)
            record |= {"Max": float(wide.max()), "Min": float(wide.min()), "Mean": float(wide.mean())}
            record |= {"Norm": float(np.sqrt((wide * wide).sum()))}
        else:
            record |= dict.fromkeys(("Max", "Min", "Mean", "Norm"))
        if self.mode == "crc32c":
            record["md5"] = digest(array, "crc32c")
        if self.mode == "digest":
            record["md5"] = f"{zlib.crc32(array.tobytes()):08x}"
        if self.mode == "tensor":
            data = self.folder / "dump_tensor_data"
            data.mkdir(parents=True, exist_ok=True)
            np.save(data / f"{name}.npy", array)
            record["data_name"] = f"{name}.npy"
        if payload.source:
            record["from"] = payload.source
        if payload.gradient != "own":
            record["gradient"] = payload.gradient
        return record


@pytest.fixture
def builder(tmp_path):
    """`builder("target", mode=...)` starts a dump."""

    def make(side: str, **more: Any) -> Builder:
        return Builder(tmp_path / side, **more)

    return make


@pytest.fixture
def tensor():
    """`tensor(1.0, "leaf")`: a tensor record with its source."""
    return Tensor


@pytest.fixture
def value():
    """`value(0.5)`: a record that is no tensor."""
    return Value


@pytest.fixture
def twins(builder, tensor, value):
    """`twins(ms={...}, pt={...})`: both sides, MindSpore's first."""

    def make(ms=None, pt=None, mode="statistics", reference=False):
        sides = ("mindspore", ms or {}, False), ("pytorch", pt or {}, reference)
        return tuple(Twin(builder, tensor, value, f, f, mode, r).run(**changes) for f, changes, r in sides)

    return make


@pytest.fixture
def written(builder, tensor, value):
    """`written(fill)`: both sides as `fill(side)` writes them, compared."""

    def make(fill, mode="statistics", **options):
        sides = [Side(builder, tensor, value, framework, mode) for framework in ("mindspore", "pytorch")]
        for side in sides:
            fill(side)
        return found(tuple(side.build.dump() for side in sides), **options)

    return make


@pytest.fixture(scope="session")
def samples():
    """The folder of dumps and tables of the other tool."""
    return Path(__file__).parent.parent / "samples"


@pytest.fixture(params=["avx2", "plain", "numpy"])
def way(request, through):
    """How tensors are measured: by the C loops for each instruction set, and by numpy."""
    through(block, request.param)
    return request.param


@pytest.fixture
def run(builder, tmp_path):
    """`run("target", "step0/rank1", ...)` writes a dump of three calls into each folder; `wrong` says from which on it
    is wrong where."""

    def make(side, *folders, wrong=None, mode="statistics"):
        for folder in folders:
            first_wrong = (wrong or {}).get(folder)
            made = builder(side, mode=mode)
            made.folder = tmp_path / side / folder
            shift = 0.0
            for name in (EXP, SIN, TAN):
                payload = shift
                shift = 1.0 if name == first_wrong else shift
                made.call(name, [1.0 + payload], [2.0 + shift])
            made.write()
        return tmp_path / side

    return make


@pytest.fixture
def _one_time(monkeypatch):
    """Every file that is written is of one time: 20260101000000."""
    monkeypatch.setattr("msprobe.compare.jobs.run.claimed", lambda *_: nullcontext("20260101000000"))


@pytest.fixture
def trees(tmp_path):
    """Two roots, each with its folder `data`."""
    roots = tmp_path / "a", tmp_path / "b"
    for root in roots:
        (root / "data").mkdir(parents=True)
    return roots


@pytest.fixture
def history(builder, value):
    """`history(*calls)`: the story of a rank with these calls.

    A call is its name, what it is given, what it gives, and its keyword arguments. A float stands for a tensor, a pair
    of floats for one in the target and one in the golden; everything else stands for itself.
    """
    made = iter(range(1000))

    def of(payload, side):
        payload = payload[side] if isinstance(payload, tuple) else payload
        return payload if isinstance(payload, float) else value(payload)

    def make(*calls):
        number = next(made)
        dumps = []
        for side, name in enumerate(("target", "golden")):
            built = builder(f"{name}{number}")
            for call, inputs, outputs, *more in calls:
                keywords = {key: of(v, side) for key, v in (more or [{}])[0].items()}
                built.call(call, [of(v, side) for v in inputs], [of(v, side) for v in outputs], kwargs=keywords)
            dumps.append(built.dump())
        comparison = compare(*dumps)
        return pickle.loads(pickle.dumps(summarize(comparison, locate(comparison))))

    return make
