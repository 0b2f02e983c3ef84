"""A candidate as a function of its floating tensors in float64, executed by torch on the CPU, forward or backward.

Nothing of torch's global state changes: the grad mode is set within a block, random numbers are not drawn, dtypes are
written out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from msprobe.replay.operations import Kind, Operation, plain_name
from msprobe.replay.plan import Candidate
from msprobe.replay.recorded import CannotReplay, Cause, Leaf, Named, Path, RecordedCall, leaves, mapped

from .functions import OF_PYTORCH, OWN
from .indexing import Recorded

Tensor = Any


def _logsumexp(y: Tensor, g: Tensor, program: Any) -> Tensor:
    x, dim = program.inputs[0], program.dim
    if y.dim() != x.dim():
        for axis in sorted(each % x.dim() for each in (dim if isinstance(dim, tuple) else (dim,))):
            y, g = y.unsqueeze(axis), g.unsqueeze(axis)
    return torch.exp(x - y) * g


SAVED: Mapping[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "tanh": lambda y, g, _: g * (1 - y * y),
    "sigmoid": lambda y, g, _: g * y * (1 - y),
    "exp": lambda y, g, _: g * y,
    "sqrt": lambda y, g, _: g / (2 * y),
    "rsqrt": lambda y, g, _: g * y * y * y / -2,
    "reciprocal": lambda y, g, _: -g * y * y,
    "softmax": lambda y, g, program: y * (g - (g * y).sum(program.dim, keepdim=True)),
    "log_softmax": lambda y, g, program: g - torch.exp(y) * g.sum(program.dim, keepdim=True),
    "logsumexp": _logsumexp,
}
"""Derivatives by a saved output y and the incoming gradient g, as kernels compute them."""

Outputs = dict[Path, Tensor]

_IGNORED = (
    *("out", "device", "layout", "memory_format", "pin_memory", "requires_grad", "generator", "non_blocking"),
    *("copy", "inplace"),
)
"""Keywords for the place of a result, which do not influence its values."""

_FAMILIES: Mapping[str, tuple[Any, ...]] = {
    "Functional": (torch.nn.functional, torch),
    "Torch": (torch, torch.nn.functional, torch.special, torch.linalg),
    "Tensor": (torch.Tensor, torch),
    "VF": (torch._VF, torch),
    "Aten": (torch,),
    "NPU": (),
}


def tensor_of(leaf: Leaf) -> Tensor:
    """Return a recorded tensor: floating ones in float64, integers in int64 (except uint8), bools unchanged."""
    array = leaf.array
    if array.dtype.kind == "c":
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, leaf.record.name)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    elif array.dtype.kind in "iu" and array.dtype != np.uint8:
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array, order="C"))


_REAL = (Kind.ELEMENTWISE, Kind.PROBED, Kind.BILINEAR)
_ROUNDED = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def rounded(reference: Tensor, dtype: str) -> Tensor:
    """Return a reference as the output's dtype holds it."""
    return reference.to(_ROUNDED[dtype]).double() if dtype in _ROUNDED else reference


class Program:
    """A candidate with its tensors. `floating` are the leaves that it is a function of; the others are constants."""

    def __init__(self, call: RecordedCall, operation: Operation, candidate: Candidate, loaded: dict[Leaf, Tensor]):
        self._candidate = candidate
        self._constants: dict[Leaf, Tensor] = {}
        self.floating: list[Leaf] = []
        for leaf in dict.fromkeys(leaves([candidate.args, candidate.kwargs])):
            if leaf not in loaded:
                loaded[leaf] = tensor_of(leaf)
            if loaded[leaf].is_floating_point():
                self.floating.append(leaf)
            else:
                self._constants[leaf] = loaded[leaf]
        self.inputs = [loaded[leaf] for leaf in self.floating]
        first = call.outputs.get(("0",)) or next(iter(call.outputs.values()), None)
        self._recorded = Recorded(first.shape, first.dtype) if first is not None else Recorded((), "float32")
        if not self.floating and "float" in self._recorded.dtype and operation.kind in _REAL:
            self._constants = {leaf: value.double() for leaf, value in self._constants.items()}
        self._function = self._resolved(call)
        is_exact = operation.kind is Kind.EXACT or (first is not None and not first.is_floating)
        self._scalar_dtype = self.floating[0].dtype if is_exact and self.floating else ""
        self._writes = candidate.name.endswith("_") or candidate.name.startswith("__i")

    def __call__(self, inputs: Sequence[Tensor]) -> Outputs:
        """Return the outputs by path, for these values of the floating tensors."""
        values = {**self._constants, **dict(zip(self.floating, inputs, strict=True))}

        def argument(value: Any) -> Any:
            if isinstance(value, Leaf):
                return values[value]
            if isinstance(value, Named):
                return _dtype(value)
            if isinstance(value, float) and self._scalar_dtype:  # as in kernels that compare it with tensors
                return float(rounded(torch.tensor(value, dtype=torch.float64), self._scalar_dtype))
            return value

        args = mapped(self._candidate.args, argument)
        kwargs = {
            key: mapped(value, argument)
            for key, value in self._candidate.kwargs.items()
            if self._candidate.family == "own" or key not in _IGNORED
        }
        if self._writes and args and isinstance(args[0], torch.Tensor):
            args = (args[0].clone(), *args[1:])
        return _flat(self._function(*args, **kwargs))

    def path(self, recorded: Path) -> Path | None:
        """Return the position of a recorded output among the outputs; None for one that is not evidence."""
        outputs = self._candidate.outputs
        for length in range(len(recorded), 0, -1) if outputs else ():
            if recorded[:length] in outputs:
                to = outputs[recorded[:length]]
                return None if to is None else (*to, *recorded[length:])
        return recorded

    @property
    def dim(self) -> Any:
        """Return the axis or axes of a function: by keyword or the second argument; the last by default."""
        args, kwargs = self._candidate.args, self._candidate.kwargs
        value = kwargs.get("dim", args[1] if len(args) > 1 else None)
        return -1 if value is None else value

    def _resolved(self, call: RecordedCall) -> Callable[..., Any]:
        family, name = self._candidate.family, self._candidate.name
        found = OWN.get(name) if family == "own" else OF_PYTORCH.get(plain_name(name))
        if found is None:
            for place in _FAMILIES.get(family, ()):
                found = place
                for part in name.split("."):
                    found = getattr(found, part, None)
                if callable(found):
                    break
        if not callable(found):
            raise CannotReplay(Cause.UNKNOWN_OPERATION, call.stem)
        code = getattr(found, "__code__", None)  # a builtin has none
        if code is not None and "recorded" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            return partial(found, recorded=self._recorded)
        return found


def _dtype(named: Named) -> Any:
    """Return the dtype to compute with; None for any other name (a device, a layout)."""
    if "dtype" not in named.kind:
        return None
    dtype = named.text.rpartition(".")[2].lower()
    return torch.float64 if "float" in dtype else getattr(torch, dtype, None)


def _flat(found: Any) -> Outputs:
    """Return outputs by path; a single one is the first."""
    made: Outputs = {}

    def walk(value: Any, path: Path) -> None:
        if isinstance(value, torch.Tensor):
            made[path] = value
        elif isinstance(value, tuple | list):
            for place, inner in enumerate(value):
                walk(inner, (*path, str(place)))

    walk(found if isinstance(found, tuple | list) else (found,), ())
    return made


class Backward:
    """The vector-Jacobian product of a program: a function of its floating tensors and the incoming gradients.

    Its outputs are the gradients with respect to `wanted`, by their places in that list.
    """

    def __init__(self, program: Program, incoming: Mapping[Path, Tensor], wanted: Sequence[Leaf]) -> None:
        self.program = program
        self.wanted = [program.floating.index(leaf) for leaf in wanted]
        self._paths = list(incoming)
        self.inputs = [*program.inputs, *incoming.values()]

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients; zeros where an input has no part in the outputs."""
        count = len(self.program.inputs)
        own, incoming = list(inputs[:count]), inputs[count:]
        with torch.enable_grad():
            for place in self.wanted:
                own[place] = own[place].detach().requires_grad_()
            outputs = self.program(own)
            pairs = [
                (outputs[path], gradient)
                for path, gradient in zip(self._paths, incoming, strict=True)
                if path in outputs and outputs[path].requires_grad
            ]
            targets = [own[place] for place in self.wanted]
            if not pairs and self._paths and all(path in outputs for path in self._paths):
                raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, "the reference has no derivative")
            if not pairs:
                return [torch.zeros_like(target) for target in targets]
            for output, gradient in pairs:
                if output.shape != gradient.shape:
                    raise CannotReplay(Cause.OTHER_SHAPE, str(tuple(output.shape)))
            found = torch.autograd.grad(
                [output for output, _ in pairs],
                targets,
                [gradient.to(output.dtype) for output, gradient in pairs],
                allow_unused=True,
            )
        return [
            torch.zeros_like(target) if gradient is None else gradient
            for gradient, target in zip(found, targets, strict=True)
        ]
