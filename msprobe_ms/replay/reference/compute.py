"""The residuals of a call: every candidate is executed, forward or backward, and compared with the recorded outputs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from msprobe.replay.operations import Kind
from msprobe.replay.plan import Plan, plan_of
from msprobe.replay.recorded import CannotReplay, Cause, Leaf, NotReplayed, Path, RecordedCall, Replayed, Residual
from msprobe.replay.residual import Figures, compared, measured

from .execute import SAVED, Backward, Program, Tensor, rounded, tensor_of
from .sampling import LARGEST, WHOLE, large_product, sample, sampled, size_of
from .sensitivity import of_moved, of_squares, one_by_one, probed, summed_to

_WORTH_THREADS = 1 << 20
"""Elements of a call below which one thread does it: several would mostly wait for each other."""

_CHEAP = (Kind.MOVES, Kind.CREATES, Kind.EXACT)
"""Kinds whose sensitivity costs nothing."""


def computed(call: RecordedCall, plan: Plan) -> Replayed | NotReplayed:
    """The residuals of a call under every candidate that can be executed; the first cause where none can."""
    loaded: dict[Leaf, Tensor] = {}
    found: dict[str, tuple[Residual, ...]] = {}
    refused: CannotReplay | None = None
    is_product = large_product(plan.candidates[0]) is not None
    if not is_product and size_of(call) > WHOLE and plan.operation.kind not in _CHEAP:
        call = sample(call, plan.operation, plan.candidates[0])
        plan = plan_of(call)
    if not is_product and size_of(call) > LARGEST:
        return NotReplayed(Cause.TOO_LARGE, call.name)
    for candidate in plan.candidates:
        try:
            with torch.no_grad(), _threads(size_of(call)):
                if is_product:
                    found[candidate.label] = sampled(call, candidate)
                    continue
                program = Program(call, plan.operation, candidate, loaded)
                found[candidate.label] = (
                    _backward(call, plan, program, loaded) if call.is_backward else _forward(call, plan, program)
                )
        except CannotReplay as err:
            refused = refused or err
        except Exception as err:  # torch raises what it likes
            refused = refused or CannotReplay(Cause.FAILED, type(err).__name__)
    if not found:
        return refused.outcome if refused else NotReplayed(Cause.UNSUPPORTED_ARGUMENT)
    return Replayed(plan.operation.name, _moves(call, plan), found, plan.is_exhaustive)


@contextmanager
def _threads(size: int) -> Iterator[None]:
    """As many of torch's threads as are worth it for a call of so many elements."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if size >= _WORTH_THREADS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _moves(call: RecordedCall, plan: Plan) -> bool:
    return plan.operation.kind is Kind.MOVES and not (call.is_backward and plan.operation.accumulates)


def _forward(call: RecordedCall, plan: Plan, program: Program) -> tuple[Residual, ...]:
    evidence = {path: to for path in call.outputs if (to := program.path(path)) is not None}
    if not evidence:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    outputs = program(program.inputs)
    for to in evidence.values():
        if to not in outputs:
            raise CannotReplay(Cause.OTHER_SHAPE, f"output {'.'.join(to)}")
    floating = [p for p, to in evidence.items() if call.outputs[p].is_floating and outputs[to].is_floating_point()]
    values = [outputs[evidence[path]] for path in floating]
    for path, value in zip(floating, values, strict=True):
        _check_shape(call.outputs[path], value)

    def function(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        found = program(inputs)
        return [found[evidence[path]] for path in floating]

    sensitivities = dict(zip(floating, _of_forward(plan, program, function, values), strict=True)) if floating else {}
    return tuple(
        _residual(call, plan, call.outputs[path], outputs[to], sensitivities[path])
        if path in sensitivities
        else _exact(plan, program, call.outputs[path], outputs[to])
        for path, to in evidence.items()
    )


def _of_forward(
    plan: Plan, program: Program, function: Callable[[Sequence[Tensor]], Sequence[Tensor]], values: Sequence[Tensor]
) -> list[Tensor]:
    """The sensitivities of the floating outputs."""
    kind, inputs = plan.operation.kind, program.inputs
    if kind in _CHEAP or not inputs:
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
        _check_shape(record, value)
    return tuple(
        _residual(call, plan, record, value, sensitivity)
        for (_, record), value, sensitivity in zip(
            pairs, values, _of_backward(plan, program, backward, values), strict=True
        )
    )


def _of_backward(plan: Plan, program: Program, backward: Backward, values: Sequence[Tensor]) -> list[Tensor]:
    """The sensitivities of the gradients."""
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
        y, gradient = program(program.inputs)[("0",)], inputs[1]
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
    outputs = program(wide)
    if list(outputs) != [("0",)]:
        return None
    inputs = [*wide, gradient]
    own = backward(inputs)
    squares = one_by_one(backward, inputs, own)
    saved = SAVED.get(plan.operation.name)
    if saved is not None and len(wide) == 1:
        more = one_by_one(lambda ys: [saved(ys[0], gradient, program)], [outputs[("0",)]], own)
        squares = [a + b for a, b in zip(squares, more, strict=True)]
    return [
        (summed_to(square, value.shape) + value.square()).sqrt() for square, value in zip(squares, values, strict=True)
    ]


def _check_shape(record: Leaf, value: Tensor) -> None:
    if tuple(value.shape) != record.shape:
        raise CannotReplay(Cause.OTHER_SHAPE, f"{record.record.name}: {tuple(value.shape)}")


def _residual(call: RecordedCall, plan: Plan, record: Leaf, value: Tensor, sensitivity: Tensor) -> Residual:
    value = rounded(value, record.dtype) if _moves(call, plan) else value
    figures = measured(record.array, value.double().numpy(), sensitivity.double().numpy(), record.dtype)
    return Residual(record.record.part, record.record.path, value.numel(), *figures)


def _exact(plan: Plan, program: Program, record: Leaf, value: Tensor) -> Residual:
    """An integer or bool output, or a reference of another kind than the record."""
    _check_shape(record, value)
    figures = compared(record.array, value.numpy())
    if figures.eta and plan.operation.indices and program.inputs:
        figures = _picked(program.inputs[0], tensor_of(record), value)
    return Residual(record.record.part, record.record.path, value.numel(), *figures)


def _picked(x: Tensor, output: Tensor, reference: Tensor) -> Figures:
    """Positions along an axis of x that differ: equal where the elements there are equal."""
    for axis in range(x.dim()):
        for kept in (True, False):
            a, b = (output, reference) if kept else (output.unsqueeze(axis), reference.unsqueeze(axis))
            fits = a.dim() == x.dim() and all(i == axis or n == x.shape[i] for i, n in enumerate(a.shape))
            if fits and bool(((a >= 0) & (a < x.shape[axis])).all()):
                return compared(x.gather(axis, a).numpy(), x.gather(axis, b).numpy())
    return compared(output.numpy(), reference.numpy())
