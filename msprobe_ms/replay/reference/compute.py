"""From a plan to residuals: references, sensitivities and measures, candidate by candidate."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from msprobe.replay.operations import Kind
from msprobe.replay.plan import Candidate, Plan, plan_of
from msprobe.replay.recorded import CannotReplay, Leaf, Path, RecordedCall
from msprobe.replay.residual import compared, measured
from msprobe.replay.result import Cause, NotReplayed, Replayed, Residual
from msprobe.replay.sample import LARGEST, WHOLE, sample, size_of

from .execute import Backward, Program, Tensor, rounded, tensor_of
from .large import is_large, sampled
from .saved import SAVED
from .sensitivity import of_moved, of_squares, one_by_one, probed, summed_to


def computed(call: RecordedCall, plan: Plan) -> Replayed | NotReplayed:
    """The residuals of a call under every candidate that can be executed; the first cause where none can."""
    loaded: dict[Leaf, Tensor] = {}
    found: dict[str, tuple[Residual, ...]] = {}
    refused: CannotReplay | None = None
    is_product = is_large(plan.candidates[0])
    if not is_product and size_of(call) > WHOLE and plan.operation.kind not in _CHEAP:
        call = sample(call, plan.operation, plan.candidates[0]) if _has_sample(call, plan) else call
        plan = plan_of(call)
    if not is_product and size_of(call) > LARGEST:
        return NotReplayed(Cause.TOO_LARGE, call.name)
    for candidate in plan.candidates:
        try:
            with torch.no_grad():
                residuals = sampled(call, candidate) if is_product else _residuals(call, plan, candidate, loaded)
        except CannotReplay as err:
            refused = refused or err
        except Exception as err:
            refused = refused or CannotReplay(Cause.FAILED, type(err).__name__)
        else:
            found[candidate.label] = residuals
    if not found:
        return refused.answer if refused else NotReplayed(Cause.UNSUPPORTED_ARGUMENT)
    operation = plan.operation
    moves = operation.kind is Kind.MOVES and not (call.is_backward and operation.accumulates)
    return Replayed(operation.name, moves, found, plan.is_exhaustive)


_CHEAP = (Kind.MOVES, Kind.CREATES, Kind.EXACT)
"""Kinds whose sensitivity costs nothing."""


def _has_sample(call: RecordedCall, plan: Plan) -> bool:
    try:
        found = sample(call, plan.operation, plan.candidates[0])
    except CannotReplay:
        return False
    return not call.is_backward or bool(found.gradients)


def _residuals(
    call: RecordedCall, plan: Plan, candidate: Candidate, loaded: dict[Leaf, Tensor]
) -> tuple[Residual, ...]:
    program = Program(call, plan.operation, candidate, loaded)
    if call.is_backward:
        return _backward(call, plan, program, loaded)
    return _forward(call, plan, program)


def _forward(call: RecordedCall, plan: Plan, program: Program) -> tuple[Residual, ...]:
    paths = {path: program.path(path) for path in call.outputs}
    evidence = {path: to for path, to in paths.items() if to is not None}
    if not evidence:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    outputs = program(program.inputs)
    missing = [to for to in evidence.values() if to not in outputs]
    if missing:
        raise CannotReplay(Cause.OTHER_SHAPE, f"output {'.'.join(missing[0])}")
    floating = [p for p, to in evidence.items() if call.outputs[p].is_floating and outputs[to].is_floating_point()]
    values = [outputs[evidence[path]] for path in floating]
    for path, value in zip(floating, values, strict=True):
        _same_shape(call.outputs[path], value)

    def function(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        found = program(inputs)
        return [found[evidence[path]] for path in floating]

    by_path: dict[Path, Residual] = {}
    if floating:
        sensitivities = _of_forward(plan, program, function, values)
        for path, value, sensitivity in zip(floating, values, sensitivities, strict=True):
            by_path[path] = _residual(plan, call.outputs[path], value, sensitivity)
    for path, to in evidence.items():
        if path not in by_path:
            by_path[path] = _exact(plan, program, call.outputs[path], outputs[to])
    return tuple(by_path[path] for path in evidence)


def _of_forward(
    plan: Plan, program: Program, function: Callable[[Sequence[Tensor]], Sequence[Tensor]], values: Sequence[Tensor]
) -> list[Tensor]:
    kind, inputs = plan.operation.kind, program.inputs
    if kind in (Kind.MOVES, Kind.CREATES, Kind.EXACT) or not inputs:
        return of_moved(values)
    if kind is Kind.BILINEAR:
        return of_squares(function, inputs, values, _factor(plan, inputs, values))
    if kind is Kind.ELEMENTWISE:
        return [square.sqrt() for square in one_by_one(function, inputs, values)]
    found = probed(function, inputs, values)
    if plan.operation.name == "log_softmax":  # x - log(sum(exp(x))): near 0 both operands' own rounding remains
        return [(s.square() + (values[0] - inputs[0]).square()).sqrt() for s in found]
    return found


def _factor(plan: Plan, inputs: Sequence[Tensor], values: Sequence[Tensor]) -> float:
    """A mean's coefficient; other bilinear operations have coefficients of 1."""
    if plan.operation.name != "mean" or not inputs or not inputs[0].numel():
        return 1.0
    return float(max(values[0].numel(), 1) / inputs[0].numel())


def _backward(call: RecordedCall, plan: Plan, program: Program, loaded: dict[Leaf, Tensor]) -> tuple[Residual, ...]:
    pairs = [(leaf, record) for leaf, record in call.gradients if leaf in program.floating and record.is_floating]
    if not pairs:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    incoming: dict[Path, Tensor] = {}
    for path, leaf in call.incoming.items():
        to = program.path(path)
        if to is not None:
            if leaf not in loaded:
                loaded[leaf] = tensor_of(leaf)
            incoming[to] = loaded[leaf]
    wanted = [leaf for leaf, _ in pairs]
    if len(set(wanted)) < len(wanted):
        raise CannotReplay(Cause.ACCUMULATED_GRADIENT, call.name)
    backward = Backward(program, incoming, wanted)
    values = backward(backward.inputs)
    for (_, record), value in zip(pairs, values, strict=True):
        _same_shape(record, value)
    sensitivities = _of_backward(plan, program, backward, values)
    return tuple(
        _residual(plan, record, value, sensitivity, is_backward=True)
        for (_, record), value, sensitivity in zip(pairs, values, sensitivities, strict=True)
    )


def _of_backward(plan: Plan, program: Program, backward: Backward, values: Sequence[Tensor]) -> list[Tensor]:
    operation, inputs = plan.operation, backward.inputs
    if operation.kind is Kind.MOVES:
        return of_squares(backward, inputs, values, 1.0) if operation.accumulates else of_moved(values)
    if operation.kind is Kind.BILINEAR:
        outputs = list(program(program.inputs).values())
        return of_squares(backward, inputs, values, _factor(plan, program.inputs, outputs))
    if operation.kind is Kind.ELEMENTWISE:
        found = _expanded(plan, program, backward, values)
        if found is not None:
            return found
    found = probed(backward, inputs, values)
    saved = SAVED.get(operation.name)
    if saved is not None and len(program.inputs) == 1 and len(inputs) == 2:
        [y] = [program(program.inputs)[("0",)]]
        gradient = inputs[1]
        own = probed(lambda ys: [saved(ys[0], gradient, program)], [y], values)
        found = [(a.square() + b.square()).sqrt() for a, b in zip(found, own, strict=True)]
    return found


def _expanded(plan: Plan, program: Program, backward: Backward, values: Sequence[Tensor]) -> list[Tensor] | None:
    """S of an elementwise backward, on inputs expanded to the output's shape; None where they cannot be."""
    if len(backward.inputs) != len(program.inputs) + 1:
        return None
    gradient = backward.inputs[-1]
    try:
        wide = [x.expand(gradient.shape) for x in program.inputs]
    except RuntimeError:
        return None
    if list(program(wide)) != [("0",)]:
        return None
    inputs = [*wide, gradient]
    own = backward(inputs)
    squares = one_by_one(backward, inputs, own)
    saved = SAVED.get(plan.operation.name)
    if saved is not None and len(wide) == 1:
        y = program(wide)[("0",)]
        squares = [
            a + b
            for a, b in zip(squares, one_by_one(lambda ys: [saved(ys[0], gradient, program)], [y], own), strict=True)
        ]
    return [
        (summed_to(square, value.shape) + value.square()).sqrt() for square, value in zip(squares, values, strict=True)
    ]


def _same_shape(record: Leaf, value: Tensor) -> None:
    if tuple(value.shape) != record.shape:
        raise CannotReplay(Cause.OTHER_SHAPE, f"{record.record.name}: {tuple(value.shape)}")


def _residual(plan: Plan, record: Leaf, value: Tensor, sensitivity: Tensor, is_backward: bool = False) -> Residual:
    operation = plan.operation
    if operation.kind is Kind.MOVES and not (is_backward and operation.accumulates):
        value = rounded(value, record.dtype)
    figures = measured(record.array, value.double().numpy(), sensitivity.double().numpy(), record.dtype)
    return Residual(record.record.part, record.record.path, value.numel(), *figures)


def _exact(plan: Plan, program: Program, record: Leaf, value: Tensor) -> Residual:
    """An integer or bool output, or a reference of another kind than the record."""
    _same_shape(record, value)
    array, reference = record.array, value.numpy()
    figures = compared(array, reference)
    if figures.eta and plan.operation.indices and program.inputs:
        figures = _picked(program, record, value)
    return Residual(record.record.part, record.record.path, value.numel(), *figures)


def _picked(program: Program, record: Leaf, value: Tensor) -> Any:
    """Positions along an axis that differ: equal where the elements there are equal."""
    x = program.inputs[0]
    theirs, ours = tensor_of(record), value
    for axis in range(x.dim()):
        for kept in (True, False):
            a, b = (theirs, ours) if kept else (theirs.unsqueeze(axis), ours.unsqueeze(axis))
            fits = a.dim() == x.dim() and all(i == axis or n == x.shape[i] for i, n in enumerate(a.shape))
            if fits and bool(((a >= 0) & (a < x.shape[axis])).all()):
                return compared(x.gather(axis, a).numpy(), x.gather(axis, b).numpy())
    return compared(theirs.numpy(), ours.numpy())
