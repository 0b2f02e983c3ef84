"""Runs one call a second time: what is run, what is compared, and the result that a fix returns.

The second run of a check precedes the training's own, with copies of all tensors: an API that works in place changes
only the copies, and only the values of the outputs are kept until the comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

from msprobe.base.framework import AnyTensor
from msprobe.base.log import log_once
from msprobe.base.statistic import Array, widen
from msprobe.frameworks.registry import Framework

from .arguments import Arguments, outputs_of, rebuilt
from .comparison import difference, judged, relative
from .finding import Cause, Difference, Mode, Skipped, Stage
from .formats import RAISED, Format, format_of
from .perturbation import perturbed

_ON_CPU_ALREADY = (
    'free_benchmark: pert_mode "to_cpu": the tensors are already on the CPU, so a second run only shows '
    "whether calls are deterministic, and a fix has no effect"
)

Function = Callable[..., Any]
Outcome = Callable[[tuple[Any, ...], Any], Any]
"""Converts positional arguments and the return value of a call to its result."""


@dataclass(frozen=True)
class Output:
    """The values of one output or gradient."""

    place: int | None
    values: Array
    of: Format


@dataclass(frozen=True)
class SecondRun:
    """Result of a second run. `input_change` is the relative change of its input, in the 2-norm.

    With `improve_precision` and `to_cpu` that is the unit roundoff of the lowest format. If gradients are compared,
    both runs are made by this tool, and `gradients` is the comparison.
    """

    input_change: float
    outputs: tuple[Output, ...]
    gradients: tuple["Compared", ...] = ()


@dataclass(frozen=True)
class Compared:
    """One output of the training's own run next to that of the second run; `max_rel` is None if they are consistent."""

    place: int | None
    dtype: str
    shape: tuple[int, ...]
    found: Difference
    max_rel: float | None


@dataclass(frozen=True)
class _Run:
    """A function with the arguments that it was called with."""

    function: Function
    arguments: Arguments
    outcome: Outcome

    def outputs(self, tensors: Sequence[AnyTensor]) -> list[tuple[int | None, Any]]:
        """Return the tensors that a run with other tensors returns."""
        arguments = self.arguments.replaced(tensors)
        result = self.function(*arguments.positional, **arguments.keywords)
        return outputs_of(self.outcome(arguments.positional, result))


class SecondRuns:
    """Runs calls a second time, in one mode and stage. `outcome` makes of arguments and a return value the result."""

    def __init__(self, framework: Framework, mode: Mode, stage: Stage, outcome: Outcome) -> None:
        self._mode, self._stage, self._outcome = mode, stage, outcome
        self._tensors, self._gradients, self._execution = framework.tensors, framework.gradients, framework.execution
        self._randomness, self._wait_for = framework.randomness, framework.collecting.settle

    def _format(self, tensor: AnyTensor) -> Format | None:
        """Return the format of a dense floating-point tensor; None for other tensors."""
        return format_of(self._tensors.float_dtype(tensor))

    def _values(self, tensor: AnyTensor) -> Array:
        """Return the elements of a tensor that has a format, possibly in its memory; bfloat16 as float32."""
        return widen(self._tensors.array(tensor))

    def _floating(self, outputs: Sequence[tuple[int | None, Any]]) -> list[Any]:
        return [tensor for _, tensor in outputs if self._format(tensor) is not None]

    # ---- check: before the training's own run, and after it ---------------------------------------------------------

    def before(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> SecondRun:
        """Run the call that the training is about to run. Raises Skipped, and any exception of the framework."""
        run = _Run(function, Arguments(args, kwargs), self._outcome)
        tensors = run.arguments.tensors()
        self._tensors.refuse(tensors)
        with self._execution.unnoticed(tensors), ExitStack() as inside:
            others, change = self._perturbed(run.arguments, tensors)
            first, wanted = list[tuple[int | None, Any]](), list[int]()
            if self._stage is Stage.BACKWARD:
                wanted = self._wanted(tensors)
                first = self._gradients_of(run, list(map(self._tensors.copy, tensors)), wanted)
            if self._mode is Mode.IMPROVE_PRECISION:
                inside.enter_context(self._execution.in_full_precision(tensors))
            if self._stage is Stage.BACKWARD:
                return SecondRun(change, (), self._pairs(first, self._read(self._gradients_of(run, others, wanted))))
            return SecondRun(change, self._read(run.outputs(others)))

    def after(self, second: SecondRun, result: Any) -> tuple[Compared, ...]:
        """Compare the result of the training's own run. ValueError if the outputs do not correspond."""
        if self._stage is Stage.BACKWARD:
            return second.gradients
        originals = outputs_of(result)
        with self._execution.unnoticed([tensor for _, tensor in originals]):
            return self._pairs(originals, second.outputs)

    def _perturbed(self, arguments: Arguments, tensors: Sequence[AnyTensor]) -> tuple[list[Any], float]:
        """Return the tensors of the second run, and the relative change of the input."""
        if self._mode is Mode.IMPROVE_PRECISION:
            return self._raised(tensors)
        if self._mode is Mode.TO_CPU:
            return self._on_cpu(tensors)
        causes = list[Cause]()
        for place in arguments.target(lambda tensor: self._format(tensor) is not None):
            of = self._format(tensors[place])
            if of is None:
                continue
            values = self._values(tensors[place])
            other = perturbed(self._mode, values, of)
            if isinstance(other, Cause):
                causes.append(other)
                continue
            found = difference(values, other, of)
            made = (
                self._tensors.copy(tensors[place])
                if other is values
                else self._tensors.with_values(other, tensors[place])
            )
            others = [made if at == place else self._tensors.copy(tensor) for at, tensor in enumerate(tensors)]
            return others, relative(found.change, found.size)
        raise Skipped(causes[0])

    def _raised(self, tensors: Sequence[AnyTensor]) -> tuple[list[Any], float]:
        formats = [of for tensor in tensors if (of := self._format(tensor))]
        if not formats:
            raise Skipped(Cause.NO_INPUT if tensors else Cause.NO_TENSOR)
        low = [of for of in (*formats, format_of(self._execution.autocast_dtype(tensors))) if of in RAISED]
        if not low:
            raise Skipped(Cause.NOTHING_TO_RAISE)
        others = [
            self._tensors.raised(tensor) if self._format(tensor) in RAISED else self._tensors.copy(tensor)
            for tensor in tensors
        ]
        return others, max(of.unit_roundoff for of in low)

    def _on_cpu(self, tensors: Sequence[AnyTensor]) -> tuple[list[Any], float]:
        """Return the tensors on the CPU; as for raised ones, the change is the unit roundoff of the lowest format."""
        formats = [of for tensor in tensors if (of := self._format(tensor))]
        if not formats:
            raise Skipped(Cause.NO_INPUT if tensors else Cause.NO_TENSOR)
        if all(map(self._tensors.is_on_cpu, tensors)):
            log_once("free_benchmark to_cpu", _ON_CPU_ALREADY)
        return [self._tensors.on_cpu(tensor) for tensor in tensors], max(of.unit_roundoff for of in formats)

    def _wanted(self, tensors: Sequence[AnyTensor]) -> list[int]:
        """Return the places of the inputs whose gradients are compared: those that the training needs, or else all."""
        floating = [place for place, tensor in enumerate(tensors) if self._format(tensor)]
        return [place for place in floating if self._gradients.may_be_needed(tensors[place])] or floating

    def _gradients_of(self, run: _Run, tensors: list[AnyTensor], wanted: list[int]) -> list[tuple[int | None, Any]]:
        with self._execution.unnoticed(tensors):  # both runs draw the same random numbers
            found = self._gradients.of_call(lambda others: self._floating(run.outputs(others)), tensors, wanted)
        arrived = [(place, gradient) for place, gradient in zip(wanted, found, strict=True) if gradient is not None]
        if not arrived:
            raise Skipped(Cause.NO_GRADIENT)
        return [(None, arrived[0][1])] if len(arrived) == 1 else list(arrived)

    def _read(self, results: Sequence[tuple[int | None, Any]]) -> tuple[Output, ...]:
        # here, so that an error of the second run does not reach the training
        self._wait_for([("", tensor) for _, tensor in results])
        return tuple(Output(p, self._values(tensor), of) for p, tensor in results if (of := self._format(tensor)))

    def _pairs(self, originals: Sequence[tuple[int | None, Any]], others: Sequence[Output]) -> tuple[Compared, ...]:
        floating = [(place, tensor, of) for place, tensor in originals if (of := self._format(tensor))]
        if len(floating) != len(others):
            raise ValueError(f"the second run returned {len(others)} floating-point outputs instead of {len(floating)}")
        floor = 0.0 if self._mode is Mode.NO_CHANGE else None
        pairs = []
        for (place, tensor, of), other in zip(floating, others, strict=True):
            found = difference(self._values(tensor), other.values, other.of, floor)
            max_rel = judged(self._mode, found, of.tolerance)
            pairs.append(Compared(place, str(tensor.dtype), tuple(tensor.shape), found, max_rel))
        return tuple(pairs)

    # ---- fix: after the training's own run --------------------------------------------------------------------------

    def generators(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return the state of random generators before a call that may be fixed. Raises Skipped."""
        return self._randomness.states(Arguments(args, kwargs).tensors())

    def fixed(
        self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, before: bytes
    ) -> Any:
        """Return the result of a call in float32, or on the CPU, with the dtypes, devices and structure of `result`,
        recorded for gradients.

        `before` is the state of the generators before the call. Raises Skipped, and any exception of the framework.
        """
        run = _Run(function, Arguments(args, kwargs), self._outcome)
        tensors, originals = run.arguments.tensors(), outputs_of(result)
        self._tensors.refuse(tensors)
        is_raised = self._mode is Mode.IMPROVE_PRECISION
        low = [*map(self._format, tensors), format_of(self._execution.autocast_dtype(tensors))]
        if is_raised and not any(of in RAISED for of in low):
            raise Skipped(Cause.NOTHING_TO_RAISE)
        if not is_raised and all(map(self._tensors.is_on_cpu, tensors)):
            log_once("free_benchmark to_cpu", _ON_CPU_ALREADY)
            raise Skipped(Cause.ON_CPU)
        if self._randomness.states(tensors) != before:
            raise Skipped(Cause.RANDOM)
        taken = list(map(self._tensors.memory, tensors))
        if any(_overlaps(self._tensors.memory(output), taken) for _, output in originals):
            raise Skipped(Cause.IN_PLACE)
        others = [self._input_of_fix(tensor) for tensor in tensors]
        with self._execution.in_full_precision(tensors) if is_raised else nullcontext():
            results = run.outputs(others)
        self._wait_for([("", tensor) for _, tensor in results])
        if [tuple(tensor.shape) for _, tensor in results] != [tuple(tensor.shape) for _, tensor in originals]:
            raise ValueError("the second run returned outputs with other shapes")
        return rebuilt(
            result, [self._tensors.cast(t, like) for (_, t), (_, like) in zip(results, originals, strict=True)]
        )

    def _input_of_fix(self, tensor: AnyTensor) -> Any:
        """Return a copy of tensors without a gradient: running statistics are updated by the training's own run."""
        if self._mode is Mode.TO_CPU:
            return self._tensors.on_cpu(tensor, recorded=self._gradients.may_be_needed(tensor))
        if self._format(tensor) in RAISED:
            return self._tensors.raised(tensor, recorded=True)
        return tensor if self._gradients.may_be_needed(tensor) else self._tensors.copy(tensor)


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in others)
