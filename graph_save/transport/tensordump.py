"""Reports of running graphs by files, for devices whose graphs cannot call Python.

The framework's operator `ops.TensorDump` writes the files, which are read and recorded at the end of a step.

There is one file for the begin of a call, one for each value and gradient, and one for its end, below
`{folder}/{step}/{rank}/`; the framework replaces step and rank, and adds a number to each name. The files of the
forward are in the order of the program. A file of a gradient does not identify the call of its cell: the backward runs
the calls of a cell from the last to the first.

Written for the documented interface of `ops.TensorDump`. Not tested on a device, because it has no CPU kernel.
"""

import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore import dtype as mstype
from mindspore.common.dtype import Type

from msprobe.base.errors import reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.statistic import Array
from msprobe.frameworks.mindspore.at_compile import AtCompile
from msprobe.graph_save.calls import GraphCalls, Value
from msprobe.graph_save.operators import has_tensor_dump, synchronize, widen_bfloat16
from msprobe.graph_save.structures import Flat, Structure, structure_of
from msprobe.store.npy import load_npy

dump = ops.TensorDump()
"""Operator that writes `{path}_{dtype}_{number}.npy`, with `{step}` and `{rank}` in the path replaced."""

_dump_gradient = ops.TensorDump()
# In a backward the order of side effects would be cyclic; there a gradient depends only on its own file.
_dump_gradient.add_prim_attr("side_effect_io", False)
_dump_gradient.add_prim_attr("td_flag", True)

_NEXT_STEP = "<tensordump-update-step>"
"""The path by which the operator begins its next step."""


def next_step() -> None:
    """Have the operator increment its step, after all earlier files are written."""
    synchronize()
    dump(_NEXT_STEP, Tensor(0.0))
    synchronize()


@ms.jit_class
class GradientDump:
    """Identity whose backward writes the gradient. An object is created for each use."""

    def __init__(self, path: str) -> None:
        self._insert = ops.InsertGradientOf(_gradient_writer(path))

    def __call__(self, tensor: Tensor) -> Tensor:
        return self._insert(tensor)


def _gradient_writer(path):  # type: ignore[no-untyped-def]  # compiled code
    def write(gradient):  # type: ignore[no-untyped-def]  # compiled code
        return ops.depend(gradient, _dump_gradient(path, widen_bfloat16(gradient)))

    return write


_FILE = re.compile(r"^(?P<stem>.+)_(?P<dtype>[a-z]+[0-9]*)_(?P<number>[0-9]+)\.npy$")
_EVENT = re.compile(r"^(?P<call>.+)\.(?P<what>begin|end|(?:forward|backward)\..+)$")

STEP_DONE = "step.done"
"""Stem of the last file of a step."""

TIMEOUT = 600.0
"""Seconds to wait for the last file of a step."""


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A file of the framework's operator, with its stem and its number among all files of the process."""

    path: Path
    stem: str
    number: int


def files(folder: Path) -> list[TensorFile]:
    """Return the files of the operator in the folder of a step and rank, in the order of their numbers."""
    found = [
        TensorFile(path, m["stem"], int(m["number"])) for path in folder.iterdir() if (m := _FILE.match(path.name))
    ]
    return sorted(found, key=lambda each: each.number)


def wait(folder: Path, timeout: float = TIMEOUT) -> bool:
    """Wait until the last file of a step is written; return False, and log it, after `timeout` seconds."""
    until = time.monotonic() + timeout
    while not any(folder.glob(f"{STEP_DONE}_*.npy")):
        if time.monotonic() > until:
            what = f"{folder}: the framework did not write all tensors of a step within {timeout:.0f} s"
            log_once(what, f"{what}; the existing tensors are used")
            return False
        time.sleep(0.05)
    return True


def replay(folder: Path, plan: "Plan", listener: GraphCalls) -> None:
    """Report the calls of one step to `listener`. Files of calls that are not in `plan` are skipped."""
    forward: dict[str, list[int]] = {}
    backward: dict[str, list[TensorFile]] = {}
    open_calls: dict[str, list[int]] = {}
    token = 0
    for file in files(folder):
        event = _EVENT.match(file.stem)
        if event is None or event["call"] not in plan.arguments:
            continue
        stem, what = event["call"], event["what"]
        if what == "begin":
            token += 1
            forward.setdefault(stem, []).append(token)
            open_calls.setdefault(stem, []).append(token)
            listener.begin(token, stem, *plan.arguments[stem])
        elif what == "end" and open_calls.get(stem):
            listener.end(open_calls[stem].pop(), plan.results[stem], (), ())
        elif what.startswith("backward."):
            backward.setdefault(file.stem, []).append(file)
        elif open_calls.get(stem):
            value, array = _read(file, plan)
            listener.values(open_calls[stem][-1], (value,), (array,))
    for name, arrived in backward.items():
        stem = name.partition(".backward.")[0]
        for token, file in zip(reversed(forward.get(stem, [])), arrived, strict=False):
            listener.gradient(token, *_read(file, plan))


def _read(file: TensorFile, plan: "Plan") -> tuple[Value, Array]:
    value = Value(*plan.values[file.stem])
    return value, np.reshape(load_npy(file.path), value.shape)


@dataclass
class Plan:
    """The folder of the files, and the structures and values of calls, which are known at compile time.

    folder : folder of the files.
    arguments : structures of positional and keyword arguments, by stem.
    results : structures of results, by stem.
    values : arguments of `calls.Value`, by stem of the file.
    """

    folder: str = ""
    arguments: dict[str, tuple[Structure, Structure]] = field(default_factory=dict)
    results: dict[str, Structure] = field(default_factory=dict)
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def path(self, stem: str) -> str:
        """Return the path for the operator; the framework replaces the words in braces."""
        return f"{self.folder}/{{step}}/{{rank}}/{stem}"


plan = Plan()
"""The plan of the process: a graph is compiled once per process."""


def _begin(stem: str, inputs: Flat, keywords: Flat) -> str:
    plan.arguments[stem] = (structure_of(inputs), structure_of(keywords))
    return plan.path(f"{stem}.begin")


def _end(stem: str, outputs: Flat) -> str:
    plan.results[stem] = structure_of(outputs)
    return plan.path(f"{stem}.end")


def _value(stem: str, location: str, dtype: Type, shape: tuple[int, ...]) -> str:
    part, _, path = location.partition(":")
    plan.values[f"{stem}.forward.{part}.{path}"] = (part, path, path, True, dtype, shape)
    return plan.path(f"{stem}.forward.{part}.{path}")


def _gradient(stem: str, *value: Any) -> str:
    part, path = value[:2]
    plan.values[f"{stem}.backward.{part}.{path}"] = value
    return plan.path(f"{stem}.backward.{part}.{path}")


dumps = AtCompile(has_tensor_dump)
_begin_file, _end_file = AtCompile(_begin), AtCompile(_end)
_value_file, _gradient_file = AtCompile(_value), AtCompile(_gradient)
_MARK = Tensor(0, mstype.int32)


def dump_begin(stem, inputs, keywords):  # type: ignore[no-untyped-def]  # compiled code
    """Write the file for the begin of a call."""
    dump(_begin_file(stem, inputs, keywords), _MARK)


def dump_end(stem, outputs):  # type: ignore[no-untyped-def]  # compiled code
    """Write the file for the end of a call."""
    dump(_end_file(stem, outputs), _MARK)


def dump_value(stem, location, tensor):  # type: ignore[no-untyped-def]  # compiled code
    """Write the file for a value of a call; `location` is `part:path`."""
    dump(_value_file(stem, location, tensor.dtype, tensor.shape), widen_bfloat16(tensor))


def dump_gradient(stem, part, path, place, single, tensor):  # type: ignore[no-untyped-def]  # compiled code
    """Return the tensor with an operator that writes its gradient to a file."""
    return GradientDump(_gradient_file(stem, part, path, place, single, tensor.dtype, tensor.shape))(tensor)


class TensorFiles:
    """The raw files of a run below `{dump_path}/tensordump`; files of a step are removed after they are read."""

    def __init__(self, dump_path: Path) -> None:
        self._root = dump_path / "tensordump"
        self._step = 0

    def begin(self) -> None:
        """Set the folder to which operators write; called before a graph is compiled."""
        plan.folder = str(self._root)

    def finish(self, listener: GraphCalls) -> None:
        """Wait for the files of the step, and report their calls; do nothing if no graph is instrumented."""
        if not plan.arguments:
            return
        dump(plan.path(STEP_DONE), Tensor(0.0))
        synchronize()
        step = self._root / f"step{self._step}"
        ranks = list(step.glob("rank*")) if step.is_dir() else []
        if not ranks:
            log_once(f"no files in {step}", f"{step}: the framework did not write any tensors of this step")
        for rank in ranks:
            wait(rank)
            replay(rank, plan, listener)

    def next_step(self) -> None:
        """Have the operator increment its step, and remove the files of the previous step, read or not.

        Steps before the first instrumented graph are not counted, neither here nor by the operator.
        """
        if not plan.arguments:
            return
        try:
            next_step()
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            what = f"the framework could not count a step of its tensor files: {reason(cause)}"
            log_once(what, f"{what}; the training continues")
        shutil.rmtree(self._root / f"step{self._step}", ignore_errors=True)
        self._step += 1
