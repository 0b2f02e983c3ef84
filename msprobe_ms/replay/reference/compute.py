"""Samples of very large products: rows of their outputs. (Other calls are sampled by `sample.py`.)

Samples of very large products: rows of their outputs. (Other calls are sampled by `sample.py`.)

A product of 4096^3 takes many seconds in float64 on one core; 64 rows of its output take a fraction of one and tell as
much of the kernel. `Residual.count` then says how many elements were looked at. The rows are spread evenly, the same in
every run.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from msprobe.replay.operations import Kind
from msprobe.replay.plan import Candidate, Plan, plan_of
from msprobe.replay.recorded import CannotReplay, Cause, Leaf, NotReplayed, Path, RecordedCall, Replayed, Residual
from msprobe.replay.residual import LARGEST, WHOLE, compared, measured, sample, size_of

from .execute import SAVED, Backward, Program, Tensor, rounded, tensor_of
from .sensitivity import of_moved, of_squares, one_by_one, probed, summed_to

ROWS = 64
"""Rows of a sampled output."""

PRODUCT = 1 << 31
"""Multiplications beyond which a product is sampled: some seconds in float64."""


def is_large(candidate: Candidate) -> bool:
    """Whether a candidate is a product of two matrices (not of batches of them) beyond the limit."""
    found = _operands(candidate)
    if found is None:
        return False
    a, b, _, _, _ = found
    return math.prod(a.shape) * max(b.shape) > PRODUCT and len(b.shape) == 2 and len(a.shape) >= 2


def _operands(candidate: Candidate) -> tuple[Leaf, Leaf, Leaf | None, bool, bool] | None:
    """The operands, the bias, and whether the second, or the first, stands transposed; None for no plain product."""
    args, kwargs, name = candidate.args, candidate.kwargs, candidate.name.rpartition(".")[2].strip("_")
    if name not in ("matmul", "mm", "linear"):
        return None
    if candidate.family == "own" and name == "matmul":
        first, second = kwargs["a"], kwargs["b"]
        bias, is_turned, first_turned = None, bool(kwargs.get("transpose_b")), bool(kwargs.get("transpose_a"))
    else:
        named = dict(zip(("x", "weight", "bias"), args, strict=False))
        named |= {{"input": "x", "other": "weight", "mat2": "weight"}.get(key, key): v for key, v in kwargs.items()}
        first, second = named.get("x"), named.get("weight")
        bias, is_turned, first_turned = named.get("bias"), name == "linear", False
    if not (isinstance(first, Leaf) and isinstance(second, Leaf) and first.is_floating and second.is_floating):
        return None
    return first, second, bias if isinstance(bias, Leaf) else None, is_turned, first_turned


def sampled(call: RecordedCall, candidate: Candidate) -> tuple[Residual, ...]:
    """The residuals of a large product on rows of its outputs; the gradient of a bias is looked at whole."""
    found = _operands(candidate)
    if found is None:
        raise CannotReplay(Cause.TOO_LARGE, call.name)
    first, second, bias, is_turned, first_turned = found
    a, b = _matrix(first), _matrix(second)
    a, b = a.T if first_turned else a, b.T if is_turned else b
    if not call.is_backward:
        leaf = call.outputs[("0",)]
        rows = _spread(a.shape[0])
        return (_measured(leaf, a[rows], b, _matrix(leaf)[rows], bias),)
    return tuple(_gradients(call, (first, a, first_turned), (second, b, is_turned), bias))


def _gradients(
    call: RecordedCall, first: tuple[Leaf, Tensor, bool], second: tuple[Leaf, Tensor, bool], bias: Leaf | None
) -> Iterator[Residual]:
    (leaf_a, a, a_turned), (leaf_b, b, b_turned) = first, second
    g = _matrix(call.incoming[("0",)])
    for leaf, record in call.gradients:
        if leaf is bias:
            wide = g.double()
            figures = _figures(record, wide.sum(0), (wide.square().sum(0) + wide.sum(0).square()).sqrt(), record.array)
            yield Residual(record.record.part, record.record.path, wide.shape[1], *figures)
            continue
        out = _matrix(record)
        if leaf is leaf_a:
            left, right, is_turned = g, b.T, a_turned  # g b^T
        elif leaf is leaf_b:
            left, right, is_turned = a.T, g, b_turned  # a^T g
        else:
            raise CannotReplay(Cause.TOO_LARGE, call.name)
        if is_turned:
            left, right = right.T, left.T
        rows = _spread(left.shape[0])
        yield _measured(record, left[rows], right, out[rows], None)


def _measured(record: Leaf, left: Tensor, right: Tensor, output: Tensor, bias: Leaf | None) -> Residual:
    x, w = left.double(), right.double()
    value, square = x @ w, x.square() @ w.square()
    if bias is not None:
        b = torch.from_numpy(bias.array).double()
        value, square = value + b, square + b.square()
    figures = _figures(record, value, (square + value.square()).sqrt(), output.numpy())
    return Residual(record.record.part, record.record.path, value.numel(), *figures)


def _figures(record: Leaf, value: Tensor, sensitivity: Tensor, output: Any) -> Any:
    if tuple(value.shape) != tuple(output.shape):
        raise CannotReplay(Cause.OTHER_SHAPE, record.record.name)
    return measured(output, value.numpy(), sensitivity.numpy(), record.dtype)


def _matrix(leaf: Leaf) -> Tensor:
    """A tensor as a matrix of its rows, in the dtype of its file."""
    return torch.from_numpy(leaf.array).reshape(-1, leaf.shape[-1])


def _spread(count: int) -> Tensor:
    """As many places as are looked at, from the first to the last."""
    return torch.from_numpy(np.unique(np.linspace(0, count - 1, min(ROWS, count)).astype(np.int64)))


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
