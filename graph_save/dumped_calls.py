"""The calls of cells in graphs of a device whose graphs cannot call Python: the framework's own operator writes files.

One file for a call's begin, one for each value and gradient, one for its end, below `{folder}/{step}/{rank}/`; the
framework puts step and rank in their place, and a number behind each name. `replay.py` reads them. Written against the
documented interface of `ops.TensorDump`; not run on such a device.
"""

from dataclasses import dataclass, field
from typing import Any

from mindspore import Tensor
from mindspore import dtype as mstype

from msprobe.at_compile import AtCompile

from .compiled import structure_of
from .operators import wide
from .runtime import has_tensor_dump
from .tensordump import GradientDump, dump


@dataclass
class Plan:
    """Where files go, and what the compiler knew of the calls that it read: structures, and values by file name.

    A value is what `telling.Value` is made of.
    """

    folder: str = ""
    arguments: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def path(self, stem: str) -> str:
        """What the operator is told; the framework replaces the words in braces."""
        return f"{self.folder}/{{step}}/{{rank}}/{stem}"


plan = Plan()
"""Of this process: a graph is compiled for it once."""


def _begin(stem: str, inputs: Any, keywords: Any) -> str:
    plan.arguments[stem] = (structure_of(inputs), structure_of(keywords))
    return plan.path(f"{stem}.begin")


def _end(stem: str, outputs: Any) -> str:
    plan.results[stem] = structure_of(outputs)
    return plan.path(f"{stem}.end")


def _value(stem: str, *value: Any) -> str:
    part, path = value[:2]
    plan.values[f"{stem}.forward.{part}.{path}"] = value
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


def dump_value(stem, part, path, place, alone, tensor):  # type: ignore[no-untyped-def]  # compiled code
    """A value of a call."""
    dump(_value_file(stem, part, path, place, alone, tensor.dtype, tensor.shape), wide(tensor))


def dump_gradient(stem, part, path, place, alone, tensor):  # type: ignore[no-untyped-def]  # compiled code
    """Gives the tensor, and has its gradient written down."""
    return GradientDump(_gradient_file(stem, part, path, place, alone, tensor.dtype, tensor.shape))(tensor)
