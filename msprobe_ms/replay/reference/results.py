"""The results of a call under one candidate, without sensitivities: its outputs, or the gradients of its arguments."""

from collections.abc import Iterator

import torch

from msprobe.replay.plan import Candidate, Plan
from msprobe.replay.recorded import Array, CannotReplay, Cause, Leaf, Path, RecordedCall
from msprobe.replay.references import Results

from .compute import threads_for
from .execute import Backward, Program, Tensor, rounded, tensor_of
from .sampling import LARGEST, size_of


def results(call: RecordedCall, plan: Plan, label: str | None) -> Iterator[Results]:
    """Yield the results of a call under each candidate, or under that with a label. CannotReplay if there are none."""
    if size_of(call) > LARGEST:
        raise CannotReplay(Cause.TOO_LARGE, call.name)
    loaded: dict[Leaf, Tensor] = {}
    refused: Exception | None = None
    number = 0
    for candidate in plan.candidates:
        if label is not None and candidate.label != label:
            continue
        try:
            with torch.no_grad(), threads_for(size_of(call)):
                found = _results(call, plan, candidate, loaded)
        except Exception as err:  # torch may raise any exception
            refused = refused or err
        else:
            number += 1
            yield Results(candidate.label, plan.is_exhaustive, found)
    if not number:
        raise refused or CannotReplay(Cause.UNSUPPORTED_ARGUMENT, call.name)


def _results(
    call: RecordedCall, plan: Plan, candidate: Candidate, loaded: dict[Leaf, Tensor]
) -> dict[tuple[str, Path], Array]:
    program = Program(call, plan.operation, candidate, loaded)
    if not call.is_backward:
        outputs = program(program.inputs)
        paths = {path: program.path(path) for path in call.outputs}
        return {
            ("output", path): _rounded(outputs[to], call.outputs[path]) for path, to in paths.items() if to in outputs
        }
    incoming: dict[Path, Tensor] = {}
    for path, leaf in call.incoming.items():
        to, gradient = program.path(path), tensor_of(leaf)
        if to is not None:
            incoming[to] = gradient
        elif bool(gradient.any()):  # a part of the gradients would be missing
            raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, leaf.record.name)
    backward = Backward(program, incoming, program.floating)
    values = backward(backward.inputs)
    return {
        (leaf.record.part, leaf.record.path): _rounded(value, leaf)
        for leaf, value in zip(program.floating, values, strict=True)
    }


def _rounded(value: Tensor, leaf: Leaf) -> Array:
    """Return a result as the dtype of a record holds it."""
    found: Array = (rounded(value, leaf.dtype) if value.is_floating_point() else value).numpy()
    return found
