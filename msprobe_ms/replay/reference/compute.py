"""The references of a call, every candidate executed forward or backward, and the residuals of what was recorded."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch

from msprobe.replay.operations import Kind, Operation
from msprobe.replay.plan import Plan, plan_of
from msprobe.replay.recorded import (
    CannotReplay,
    Cause,
    Leaf,
    NotReplayed,
    Path,
    RecordedCall,
    Replayed,
    Residual,
    leaves,
)
from msprobe.replay.references import WHOLE, Reference, References
from msprobe.replay.residual import compared, measured

from .execute import SAVED, Backward, Program, Tensor, rounded, tensor_of
from .sampling import LARGEST, large_product, sample, sampled, size_of
from .sensitivity import of_moved, of_squares, one_by_one, probed, summed_to

_WORTH_THREADS = 1 << 20
"""Elements of a call below which one thread does it: several would mostly wait for each other."""

_CHEAP = (Kind.MOVES, Kind.CREATES, Kind.EXACT)
"""Kinds whose sensitivity costs nothing."""


def computed(call: RecordedCall, plan: Plan) -> Replayed | NotReplayed:
    """Return the residuals of a call for each candidate that can be executed; the first cause if there is none."""
    found: dict[str, tuple[Residual, ...]] = {}
    refused: NotReplayed | None = None
    last: References | None = None
    for each in referenced(call, plan, WHOLE):
        if isinstance(each, NotReplayed):
            refused = refused or each
            continue
        try:
            found[each.label] = tuple(_residual(each, reference) for reference in each.outputs)
            last = each
        except CannotReplay as err:
            refused = refused or err.outcome
    if last is None:
        return refused or NotReplayed(Cause.UNSUPPORTED_ARGUMENT)
    return Replayed(last.operation.name, last.moves_data, found, last.is_exhaustive)


def referenced(call: RecordedCall, plan: Plan, whole: int) -> Iterator[References | NotReplayed]:
    """Return the references of a call under each candidate, one after the other; why there are none under it."""
    loaded: dict[Leaf, Tensor] = {}
    is_product = large_product(plan.candidates[0]) is not None
    if not is_product and size_of(call) > whole and plan.operation.kind not in _CHEAP:
        call = sample(call, plan.operation, plan.candidates[0], whole)
        plan = plan_of(call)
    if not is_product and size_of(call) > LARGEST:
        yield NotReplayed(Cause.TOO_LARGE, call.name)
        return
    for candidate in plan.candidates:
        try:
            with torch.no_grad(), threads_for(size_of(call)):
                if is_product:
                    outputs = sampled(call, candidate)
                else:
                    program = Program(call, plan.operation, candidate, loaded)
                    outputs = (
                        _backward(call, plan, program, loaded) if call.is_backward else _forward(call, plan, program)
                    )
                terms = terms_of(call, plan.operation)
            found = References(
                plan.operation,
                _moves(call, plan),
                candidate.label,
                outputs,
                plan.is_exhaustive,
                terms,
                _coarsest(_received(call)),
                _is_lowered(call),
            )
        except CannotReplay as err:
            yield err.outcome
        except Exception as err:  # torch may raise any exception
            yield NotReplayed(Cause.FAILED, type(err).__name__)
        else:
            yield found


_BY_BITS = ("bfloat16", "float16", "float32", "float64")


def _received(call: RecordedCall) -> list[Leaf]:
    """Return the inputs and incoming gradients."""
    return [*leaves([call.args, call.kwargs]), *call.parameters.values(), *call.incoming.values()]


def _coarsest(received: Iterable[Leaf]) -> str:
    """Return the floating dtype of fewest bits; empty without any."""
    present = {leaf.dtype for leaf in received}
    return next((dtype for dtype in _BY_BITS if dtype in present), "")


def _is_lowered(call: RecordedCall) -> bool:
    inputs = [*leaves([call.args, call.kwargs]), *call.parameters.values()]
    own, made = (
        {_BY_BITS.index(leaf.dtype) for leaf in each if leaf.dtype in _BY_BITS}
        for each in (inputs, call.outputs.values())
    )
    return bool(own and made) and min(made) < max(own)


def terms_of(call: RecordedCall, operation: Operation) -> float:
    """Return about how many products or elements an output element sums; 1 for an elementwise function forward.

    By the sizes alone: a product of |a| and |b| elements into |c| sums sqrt(|a| |b| / |c|), a sum |a| / |c|.
    """
    inputs = [math.prod(leaf.shape) for leaf in leaves([call.args, call.kwargs]) if leaf.is_floating]
    inputs += [math.prod(leaf.shape) for leaf in call.parameters.values()]
    results = [leaf for _, leaf in call.gradients] if call.is_backward else list(call.outputs.values())
    if call.is_backward:
        inputs += [math.prod(leaf.shape) for leaf in call.incoming.values()]
    largest, second, *_ = [*sorted(inputs, reverse=True), 1, 1]
    least = max(min((math.prod(leaf.shape) for leaf in results), default=1), 1)
    sums = max(largest / least, 1.0)
    if operation.kind is Kind.BILINEAR:
        return float(max(sums, (largest * second / least) ** 0.5))
    if operation.kind is Kind.PROBED:
        axes = (max(leaf.shape, default=1) for leaf in leaves([call.args, call.kwargs]) if leaf.is_floating)
        return float(max(sums, max(axes, default=1)))
    return float(sums)


@contextmanager
def threads_for(size: int) -> Iterator[None]:
    """Use the number of torch threads that is efficient for a call with `elements` elements."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if size >= _WORTH_THREADS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _moves(call: RecordedCall, plan: Plan) -> bool:
    return plan.operation.kind is Kind.MOVES and not (call.is_backward and plan.operation.accumulates)


def _forward(call: RecordedCall, plan: Plan, program: Program) -> tuple[Reference, ...]:
    evidence = {path: to for path in call.outputs if (to := program.path(path)) is not None}
    if not evidence:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    outputs = program(program.inputs)
    for to in evidence.values():
        if to not in outputs:
            raise CannotReplay(Cause.OTHER_SHAPE, f"output {'.'.join(to)}")
    floating = [p for p, to in evidence.items() if call.outputs[p].is_floating and outputs[to].is_floating_point()]
    values = [outputs[evidence[path]] for path in floating]

    def function(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        found = program(inputs)
        return [found[evidence[path]] for path in floating]

    sensitivities = dict(zip(floating, _of_forward(plan, program, function, values), strict=True)) if floating else {}
    return tuple(
        _reference(call, plan, call.outputs[path], outputs[to], sensitivities[path])
        if path in sensitivities
        else _exact(plan, program, call.outputs[path], outputs[to])
        for path, to in evidence.items()
    )


def _of_forward(
    plan: Plan, program: Program, function: Callable[[Sequence[Tensor]], Sequence[Tensor]], values: Sequence[Tensor]
) -> list[Tensor]:
    """Return the sensitivities of the floating outputs."""
    kind, inputs = plan.operation.kind, program.inputs
    if kind in _CHEAP or not inputs:
        return of_moved(values)
    if kind is Kind.BILINEAR:
        return of_squares(function, inputs, values, _factor(plan, inputs, values))
    if kind is Kind.ELEMENTWISE:
        return [square.sqrt() for square in one_by_one(function, inputs, values)]
    found = probed(function, inputs, values)
    if plan.operation.name == "log_softmax":  # x - log(sum(exp(x))): near 0 the rounding of both operands remains
        return [(s.square() + (values[0] - inputs[0]).square()).sqrt() for s in found]
    return found


def _factor(plan: Plan, inputs: Sequence[Tensor], values: Sequence[Tensor]) -> float:
    """Return a mean's coefficient; other bilinear operations have coefficients of 1."""
    if plan.operation.name != "mean" or not inputs or not inputs[0].numel():
        return 1.0
    return float(max(values[0].numel(), 1) / inputs[0].numel())


def _backward(call: RecordedCall, plan: Plan, program: Program, loaded: dict[Leaf, Tensor]) -> tuple[Reference, ...]:
    pairs = [(leaf, record) for leaf, record in call.gradients if leaf in program.floating and record.is_floating]
    if not pairs:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    incoming: dict[Path, Tensor] = {}
    for path, leaf in call.incoming.items():
        to = program.path(path)
        if leaf not in loaded:
            loaded[leaf] = tensor_of(leaf)
        if to is not None:
            incoming[to] = loaded[leaf]
        elif bool(loaded[leaf].any()):  # a part of the gradients would be missing
            raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, leaf.record.name)
    wanted = [leaf for leaf, _ in pairs]
    if len(set(wanted)) < len(wanted):
        raise CannotReplay(Cause.ACCUMULATED_GRADIENT, call.name)
    backward = Backward(program, incoming, wanted)
    values = backward(backward.inputs)
    return tuple(
        _reference(call, plan, record, value, sensitivity)
        for (_, record), value, sensitivity in zip(
            pairs, values, _of_backward(plan, program, backward, values), strict=True
        )
    )


def _of_backward(plan: Plan, program: Program, backward: Backward, values: Sequence[Tensor]) -> list[Tensor]:
    """Return the sensitivities of the gradients."""
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
    """Return S of an elementwise backward, on inputs expanded to the output's shape; None if that is not possible."""
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


def _reference(call: RecordedCall, plan: Plan, record: Leaf, value: Tensor, sensitivity: Tensor) -> Reference:
    value = rounded(value, record.dtype) if _moves(call, plan) else value
    return Reference(record, value.double().numpy(), sensitivity.double().numpy())


def _exact(plan: Plan, program: Program, record: Leaf, value: Tensor) -> Reference:
    """Return an integer or bool output, or a reference of another kind than the record."""
    is_place = plan.operation.indices and program.inputs
    return Reference(record, value.numpy(), source=program.inputs[0].numpy() if is_place else None)


def _residual(of: References, reference: Reference) -> Residual:
    record, value = reference.record, reference.value
    if tuple(value.shape) != record.shape:
        raise CannotReplay(Cause.OTHER_SHAPE, f"{record.record.name}: {tuple(value.shape)}")
    if reference.sensitivity is not None:
        figures = measured(record.array, value, reference.sensitivity, record.dtype)
    else:
        figures = compared(record.array, value, reference.source)
    return Residual(record.record.part, record.record.path, value.size, *figures)
