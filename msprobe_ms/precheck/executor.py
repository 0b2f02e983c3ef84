"""Executes a recorded call on its framework, forward or backward, on the current device.

A dump is an untrusted file, so only the functions that a collector of that framework records are executed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.statistic import widen
from msprobe.frameworks.registry import PYTHON_PACKAGES, Framework, framework
from msprobe.replay.recorded import Array, CannotReplay, Cause, Leaf, Named, Path, RecordedCall, leaves, mapped
from msprobe.replay.references import Given, given

Tensor = Any


class CannotRun(Exception):
    """This installation does not have the function, or the framework raised an error, whose message this contains."""


@dataclass(frozen=True)
class Executed:
    """The outputs of an execution by path, or the gradients in the order of the call's own (None: there was none)."""

    outputs: Mapping[Path, Given]
    gradients: tuple[Given | None, ...] = ()


class Executor:
    """Executes calls on one framework; creating it selects the device."""

    def __init__(self, framework: Framework, device: int = 0) -> None:
        self._name = framework.name
        self._tensors, self._functions, self._gradients = framework.tensors, framework.functions, framework.gradients
        self._place = framework.execution.place(device)

    def _function(self, call: RecordedCall) -> Callable[..., Any]:
        """Return the function of a call; CannotRun if this installation does not have it."""
        found = self._functions.by_stem(call.stem)
        if found is None:
            raise CannotRun(f"{self._name} has no {call.stem}")
        return found

    def _tensor(self, leaf: Leaf) -> Tensor:
        return self._tensors.create(leaf.array, leaf.dtype, self._place)

    def _array(self, tensor: Tensor) -> Array:
        """Return a copy of the elements, bfloat16 as float32; errors of the kernel are raised here."""
        self._tensors.settle()
        return np.array(widen(self._tensors.array(tensor)))

    def run(self, call: RecordedCall) -> Executed:
        """Execute a call; CannotRun with the framework's own word where it refuses."""
        try:
            return self._backward(call) if call.is_backward else self._forward(call)
        except (CannotRun, CannotReplay):
            raise
        except Exception as err:  # frameworks may raise any exception
            words = " ".join(str(err).split())
            raise CannotRun(f"{type(err).__name__}: {words[:200]}") from err

    def _forward(self, call: RecordedCall) -> Executed:
        tensors = {leaf: self._tensor(leaf) for leaf in leaves([call.args, call.kwargs])}
        found = list(flat(self._called(call, tensors)))
        if not any(self._tensors.is_tensor(value) for _, value in found):  # a shape
            numbers = {path: np.array(value) for path, value in found if type(value) in (int, bool)}
            return Executed(
                {p: given(call.outputs[p], n, str(n.dtype)) for p, n in numbers.items() if p in call.outputs}
            )
        return Executed(
            {path: self._given(call, path, value) for path, value in found if self._tensors.is_tensor(value)}
        )

    def _called(self, call: RecordedCall, tensors: Mapping[Leaf, Tensor]) -> Any:
        def argument(value: Any) -> Any:
            if isinstance(value, Leaf):
                return tensors[value]
            return self._tensors.dtype_of_name(value.text) if isinstance(value, Named) else value

        function = self._function(call)
        args, kwargs = mapped(call.args, argument), mapped(call.kwargs, argument)
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError):  # records do not distinguish lists and tuples
            if not any(isinstance(value, tuple) for value in (*args, *kwargs.values())):
                raise
            return function(*map(_listed, args), **{key: _listed(value) for key, value in kwargs.items()})

    def _given(self, call: RecordedCall, path: Path, value: Tensor) -> Given:
        like = call.outputs.get(path) or next(iter(call.outputs.values()))
        return given(like, self._array(value), self._tensors.dtype(value))

    def _backward(self, call: RecordedCall) -> Executed:
        wanted = [leaf for leaf, _ in call.gradients]
        if len(set(wanted)) < len(wanted):
            raise CannotReplay(Cause.ACCUMULATED_GRADIENT, call.name)
        paths = list(call.incoming)
        others = {leaf: self._tensor(leaf) for leaf in leaves([call.args, call.kwargs]) if leaf not in set(wanted)}

        def function(*values: Tensor) -> Sequence[Tensor]:
            copies = [self._tensors.recorded_copy(value) for value in values]
            found = dict(flat(self._called(call, {**others, **dict(zip(wanted, copies, strict=True))})))
            return tuple(found[path] for path in paths)

        gradients = self._gradients.vector_jacobian(
            function,
            [self._tensor(leaf) for leaf in wanted],
            [self._tensor(leaf) for leaf in call.incoming.values()],
        )
        return Executed(
            {},
            tuple(
                None if value is None else given(record, self._array(value), self._tensors.dtype(value))
                for (_, record), value in zip(call.gradients, gradients, strict=True)
            ),
        )


def _listed(value: Any) -> Any:
    return [_listed(inner) for inner in value] if isinstance(value, tuple) else value


def flat(found: Any) -> Iterator[tuple[Path, Any]]:
    """Return outputs by path; a single one is the first."""

    def walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        if isinstance(value, (tuple, list)):
            for place, inner in enumerate(value):
                yield from walk(inner, (*path, str(place)))
        else:
            yield path, value

    return walk(found if isinstance(found, (tuple, list)) else (found,), ())


@cache
def executor_of(name: str, device: int = 0) -> Executor:
    """Return the executor of a framework. UsageError if the framework is not installed."""
    try:
        return Executor(framework(name), device)
    except ModuleNotFoundError as err:
        if err.name is None or err.name.split(".")[0] not in PYTHON_PACKAGES.values():
            raise
        raise UsageError(
            f"{err.name.split('.')[0]} is not installed here, so calls of {name} cannot be executed; install "
            "it, or use --no-run to judge the recorded outputs of a dump of task tensor"
        ) from err
