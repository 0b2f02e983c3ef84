"""Calls of running graphs by files, for devices whose graphs cannot call Python: the framework's own operator writes
them, and they are replayed at the end of a step.

One file for a call's begin, one for each value and gradient, one for its end, below `{folder}/{step}/{rank}/`; the
framework puts step and rank in their place, and a number behind each name. The forward's files are in the order of the
program. A file of a gradient does not say which call of its cell it belongs to: the backward runs the calls of a cell
from the last to the first.

Written against the documented interface of `ops.TensorDump`; it has no kernel on a CPU, and was run nowhere else.
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

from msprobe.at_compile import AtCompile
from msprobe.base.errors import reason
from msprobe.base.interrupts import passes
from msprobe.base.log import once
from msprobe.base.statistic import Array
from msprobe.graph_save.calls import GraphCalls, Value
from msprobe.graph_save.operators import has_tensor_dump, synchronize, wide
from msprobe.graph_save.structures import Flat, Structure, structure_of
from msprobe.store.npy import load_npy

dump = ops.TensorDump()
"""Writes `{path}_{dtype}_{number}.npy`; in the path it replaces `{step}` and `{rank}`."""

_dump_gradient = ops.TensorDump()
# In a backward the order of side effects would be a circle; there a gradient waits for its own file only.
_dump_gradient.add_prim_attr("side_effect_io", False)
_dump_gradient.add_prim_attr("td_flag", True)

_NEXT_STEP = "<tensordump-update-step>"
"""The path at which it begins its next step."""


def next_step() -> None:
    """Have the operator count its step, when everything before is written."""
    synchronize()
    dump(_NEXT_STEP, Tensor(0.0))
    synchronize()


@ms.jit_class
class GradientDump:
    """Gives a tensor back, and has the gradient that flows back to it written. Made anew at each place."""

    def __init__(self, path: str) -> None:
        self._insert = ops.InsertGradientOf(_writing(path))

    def __call__(self, tensor: Tensor) -> Tensor:
        return self._insert(tensor)


def _writing(path):  # type: ignore[no-untyped-def]  # compiled code
    def write(gradient):  # type: ignore[no-untyped-def]  # compiled code
        return ops.depend(gradient, _dump_gradient(path, wide(gradient)))

    return write


_FILE = re.compile(r"^(?P<stem>.+)_(?P<dtype>[a-z]+[0-9]*)_(?P<number>[0-9]+)\.npy$")
_EVENT = re.compile(r"^(?P<call>.+)\.(?P<what>begin|end|(?:forward|backward)\..+)$")

DONE = "step.done"
"""The stem of the file that is asked for behind all others of a step."""

PATIENCE = 600.0
"""Seconds to wait for it."""


@dataclass(frozen=True, slots=True)
class Dumped:
    """A file of the framework's operator: what it was called, and its number among all that the process wrote."""

    path: Path
    stem: str
    number: int


def files(folder: Path) -> list[Dumped]:
    """What the operator wrote into the folder of a step and rank, in the order of the numbers."""
    found = [Dumped(path, m["stem"], int(m["number"])) for path in folder.iterdir() if (m := _FILE.match(path.name))]
    return sorted(found, key=lambda each: each.number)


def wait(folder: Path, patience: float = PATIENCE) -> bool:
    """Wait for a step's last file, which the operator writes when it has written the others; False: it did not come."""
    until = time.monotonic() + patience
    while not any(folder.glob(f"{DONE}_*.npy")):
        if time.monotonic() > until:
            what = f"{folder}: the framework did not write all tensors of a step within {patience:.0f} s"
            once(what, f"{what}; the existing tensors are used")
            return False
        time.sleep(0.05)
    return True


def replay(folder: Path, plan: "Plan", listener: GraphCalls) -> None:
    """Report the calls of one step to `listener`. Files of calls that `plan` does not know are skipped."""
    forward: dict[str, list[int]] = {}
    backward: dict[str, list[Dumped]] = {}
    open_calls: dict[str, list[int]] = {}
    token = 0
    for dumped in files(folder):
        event = _EVENT.match(dumped.stem)
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
            backward.setdefault(dumped.stem, []).append(dumped)
        elif open_calls.get(stem):
            value, array = _read(dumped, plan)
            listener.values(open_calls[stem][-1], (value,), (array,))
    for name, arrived in backward.items():
        stem = name.partition(".backward.")[0]
        for token, dumped in zip(reversed(forward.get(stem, [])), arrived, strict=False):
            listener.gradient(token, *_read(dumped, plan))


def _read(dumped: Dumped, plan: "Plan") -> tuple[Value, Array]:
    value = Value(*plan.values[dumped.stem])
    return value, np.reshape(load_npy(dumped.path), value.shape)


@dataclass
class Plan:
    """Where files go, and what the compiler knew of the calls that it read: structures, and values by file name.

    A value is what `calls.Value` is made of.
    """

    folder: str = ""
    arguments: dict[str, tuple[Structure, Structure]] = field(default_factory=dict)
    results: dict[str, Structure] = field(default_factory=dict)
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def path(self, stem: str) -> str:
        """The path for the operator; the framework replaces the words in braces."""
        return f"{self.folder}/{{step}}/{{rank}}/{stem}"


plan = Plan()
"""Of this process: a graph is compiled for it once."""


def _begin(stem: str, inputs: Flat, keywords: Flat) -> str:
    plan.arguments[stem] = (structure_of(inputs), structure_of(keywords))
    return plan.path(f"{stem}.begin")


def _end(stem: str, outputs: Flat) -> str:
    plan.results[stem] = structure_of(outputs)
    return plan.path(f"{stem}.end")


def _value(stem: str, where: str, dtype: Type, shape: tuple[int, ...]) -> str:
    part, _, path = where.partition(":")
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
    """A call begins here."""
    dump(_begin_file(stem, inputs, keywords), _MARK)


def dump_end(stem, outputs):  # type: ignore[no-untyped-def]  # compiled code
    """A call ends here."""
    dump(_end_file(stem, outputs), _MARK)


def dump_value(stem, where, tensor):  # type: ignore[no-untyped-def]  # compiled code
    """A value of a call, at `part:path`."""
    dump(_value_file(stem, where, tensor.dtype, tensor.shape), wide(tensor))


def dump_gradient(stem, part, path, place, single, tensor):  # type: ignore[no-untyped-def]  # compiled code
    """Gives the tensor, and has its gradient written down."""
    return GradientDump(_gradient_file(stem, part, path, place, single, tensor.dtype, tensor.shape))(tensor)


class Dumping:
    """The raw files of a run below `{dump_path}/tensordump`; those of a step go when they have become its dump."""

    def __init__(self, dump_path: Path) -> None:
        self._root = dump_path / "tensordump"
        self._step = 0

    def begin(self) -> None:
        """Before a graph is compiled: where its operators write."""
        plan.folder = str(self._root)

    def finish(self, listener: GraphCalls) -> None:
        """Wait for the step's files and report their calls; where no graph has our operators there are none."""
        if not plan.arguments:
            return
        dump(plan.path(DONE), Tensor(0.0))
        synchronize()
        step = self._root / f"step{self._step}"
        ranks = list(step.glob("rank*")) if step.is_dir() else []
        if not ranks:
            once(f"no files in {step}", f"{step}: the framework did not write any tensors of this step")
        for rank in ranks:
            wait(rank)
            replay(rank, plan, listener)

    def next_step(self) -> None:
        """Have the operator count a step in which graphs may have run, and remove its files, read or not.

        Steps before the first graph are not counted, here and there.
        """
        if not plan.arguments:
            return
        try:
            next_step()
        except Exception as cause:  # a debugger never stops the training because of itself
            if passes(cause):
                raise
            what = f"the framework could not count a step of its tensor files: {reason(cause)}"
            once(what, f"{what}; the training continues")
        shutil.rmtree(self._root / f"step{self._step}", ignore_errors=True)
        self._step += 1
