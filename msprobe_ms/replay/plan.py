"""The meaning of a recorded call: its operation, and as candidates the reference functions with their arguments.

A call of PyTorch, or of PyTorch's API on MindSpore, is its own reference. A call of MindSpore has a row in `own`, or
is translated by the table of `mapping`. Torch is not needed here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from msprobe.base.errors import MappingError
from msprobe.mapping.api import Correspondence, key_of, load_table

from .operations import OPERATIONS, Kind, Operation, operation, plain_name
from .options import MOST, NO_CHOICE, USUAL_VALUES, label_of, shape_of_output
from .own import ACTIVATED, APIS, CELLS, NEEDED, PARAMETERS, Own
from .recorded import CannotReplay, Cause, Leaf, Named, Path, RecordedCall

_COLLECTIVES = ("Distributed", "MintDistributed")
_FAMILIES = ("Functional", "Torch", "Tensor", "VF", "NPU", "Aten")
_NORMS = ("norm", "linalg.norm")
"""Functions of one name in the dump that take their arguments differently."""
_NO_DERIVATIVE = (
    *("Functional.assign", "Primitive.Assign", "Functional.cholesky_inverse", "Tensor.cholesky_inverse"),
    *(f"Functional.scatter_{name}" for name in ("update", "max", "min")),
    *(f"Primitive.Scatter{name}" for name in ("Update", "Max", "Min")),
)
"""Calls of MindSpore that pass on other gradients than PyTorch's derivative: they write into a parameter, or take a
matrix for the triangle that it has to be."""
_AXES = ("axis", "keep_dims", "dim", "keepdim")
_DEFAULTED = ("skip_mode", "batch_dims")
"""Attributes of primitives that layers and functions of MindSpore leave at their defaults."""
_UNUSED: Mapping[str, tuple[Any, ...]] = {"?none": (None, ()), "?zero": (None, 0)}
"""Values with which an argument that the reference does not take has no effect."""
_FIRST_ALONE = ("npu_fusion_attention", "npu_moe_gating_top_k_softmax")
"""Functions of which the first output alone is evidence."""
_DROPOUT_OFF = replace(OPERATIONS["clone"], name="dropout")


@dataclass(frozen=True)
class Candidate:
    """One way to execute a call: `family` and `name` are those of PyTorch's function, or family is "own".

    `outputs` maps the path of a recorded output to that of the reference's (None: not evidence); empty: as they are.
    """

    label: str
    family: str
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: Mapping[Path, Path | None]


@dataclass(frozen=True)
class Plan:
    """The operation and at least one candidate; `is_exhaustive` as in `Replayed`."""

    operation: Operation
    candidates: tuple[Candidate, ...]
    is_exhaustive: bool = True


def plan_of(call: RecordedCall) -> Plan:
    """Return how a call is executed again; CannotReplay if that is unknown."""
    if not call.outputs:
        raise CannotReplay(Cause.NOTHING_TO_MEASURE, call.name)
    if call.kind == "cell":
        return _of_cell(call)
    family, _, rest = call.stem.partition(".")
    if family in _COLLECTIVES:
        raise CannotReplay(Cause.COMMUNICATION, call.stem)
    if call.framework == "mindspore":
        return _of_mindspore(call)
    return _of_pytorch(call, family, rest, call.args, call.kwargs)


def _of_pytorch(
    call: RecordedCall,
    family: str,
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    outputs: Mapping[Path, Path | None] | None = None,
) -> Plan:
    plain = plain_name(name)
    known = operation(plain) if family in _FAMILIES else None
    if known is None:
        raise CannotReplay(Cause.UNKNOWN_OPERATION, call.stem)
    if known.name == "dropout":
        bound = dict(zip(("input", "p", "training"), args, strict=False)) | dict(kwargs)
        if bound.get("p", 0.5) == 0 or bound.get("training", True) is False:
            known = _DROPOUT_OFF
    if known.kind in (Kind.RANDOM, Kind.UNINITIALISED):
        raise CannotReplay(Cause[known.kind.name], known.name)
    if plain == "scaled_dot_product_attention":
        _refuse_dropout(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0))
    if plain == "npu_fusion_attention":
        _refuse_dropout(1 - kwargs.get("keep_prob", args[9] if len(args) > 9 else 1))
    if plain in _FIRST_ALONE:
        outputs = {path: path if path == ("0",) else None for path in call.outputs}
    if known.name == "transpose" and plain != "t" and len(args) != 3 - len(kwargs):
        name, known = "permute", OPERATIONS["permute"]
    if known.name == "setitem":  # PyTorch's function returns nothing, the reference returns the tensor
        outputs = None
    if known.name == "reshape" and any(isinstance(value, Named) for value in (*args, *kwargs.values())):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, f"{call.stem}: a view as another dtype")
    made = Candidate("", family, name, args, kwargs, outputs or {})
    if family == "Torch" and name == "norm":
        return Plan(known, tuple(replace(made, label=f"of={each}", name=each) for each in _NORMS))
    return Plan(known, (made,))


def _refuse_dropout(p: Any) -> None:
    if p not in (0, None):
        raise CannotReplay(Cause.RANDOM, "dropout")


def _of_mindspore(call: RecordedCall) -> Plan:
    key = key_of(call.stem)
    if call.is_backward and key in _NO_DERIVATIVE:
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, key)
    if key in APIS:
        return _of_own(call, APIS[key], _bound(call, APIS[key]))
    counterparts = load_table().counterparts(call.stem)
    refused: CannotReplay | None = None
    for pair in counterparts:
        if pair.fits(call.tops):
            try:
                return _translated(call, pair)
            except CannotReplay as err:
                refused = refused or err
    # If the table of functions does not contain it, a method may have been recorded under PyTorch's name.
    family, _, name = call.stem.partition(".")
    if not counterparts and family == "Tensor" and operation(plain_name(name)) is not None:
        return _of_pytorch(call, family, name, call.args, call.kwargs)
    raise refused or CannotReplay(Cause.UNKNOWN_OPERATION, call.stem)


def _translated(call: RecordedCall, pair: Correspondence) -> Plan:
    recorded = set(call.kwargs) | set(pair.ms_signature.names[: len(call.args)])
    if any(name in recorded for name in pair.transforms):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, pair.ms)
    family, _, name = pair.pt.partition(".")
    try:
        args, kwargs = pair.translate(call.args, call.kwargs)
    except MappingError as err:
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, pair.ms) from err
    made = _of_pytorch(call, family, name, args, kwargs, pair.output)
    constructed = {*pair.attributes, *(of for of in pair.dropped if of not in pair.ms_signature)}
    if pair.ms.startswith("Primitive."):  # the arguments of its constructor are after the star
        constructed |= {*pair.ms_signature.keywords}
    constructed -= {of for of, value in pair.dropped.items() if value is None}  # all values have the same meaning
    is_exhaustive = constructed <= {*_AXES, *_DEFAULTED, *call.kwargs}
    if constructed.isdisjoint(_AXES):
        return replace(made, is_exhaustive=is_exhaustive)
    return replace(made, candidates=tuple(_with_axes(pair, made.candidates[0])), is_exhaustive=is_exhaustive)


def _with_axes(pair: Correspondence, plain: Candidate) -> Iterator[Candidate]:
    """Return a primitive's axis and whether it keeps axes of size 1, which no record has; the default comes first."""
    axes = next((len(leaf.shape) for leaf in plain.args if isinstance(leaf, Leaf)), 0)
    choices: dict[str, tuple[Any, ...]] = {}
    for of, to in pair.attributes.items():
        if of in ("keep_dims", "keepdim"):
            choices[to] = (False, True)
        elif of in ("axis", "dim"):
            default = pair.ms_defaults.get(of, -1)
            choices[to] = tuple(dict.fromkeys((default, *range(-1, -axes - 1, -1))))
    keys = [key for key in choices if key not in plain.kwargs or key in pair.pt_signature.every]
    for values in islice(product(*(choices[key] for key in keys)), MOST):
        options = dict(zip(keys, values, strict=True))
        label = label_of(**options) if any(len(choices[key]) > 1 for key in keys) else ""
        yield replace(plain, label=label, kwargs={**plain.kwargs, **options})


def _bound(call: RecordedCall, row: Own) -> dict[str, Any]:
    """Return the arguments of a call by the names of the reference's parameters."""
    parameters = row.parameters.split()
    if len(call.args) > len(parameters):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, call.stem)
    bound = dict(zip(parameters, call.args, strict=False))
    pairs = load_table().counterparts(call.stem) if call.kind == "api" else ()
    names = pairs[0].ms_signature.names if pairs else ()  # the parameters of MindSpore's function
    for keyword, value in call.kwargs.items():
        place = names.index(keyword) if keyword in names else -1
        if 0 <= place < len(parameters):
            bound[parameters[place]] = value
        elif keyword in parameters:
            bound[keyword] = value
        else:
            raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, f"{call.stem}: {keyword}")
    given = [*zip(parameters, call.args, strict=False), *bound.items()]
    if any(value not in (1, None) for name, value in given if name == "?keep_prob"):
        raise CannotReplay(Cause.RANDOM, "dropout")
    if any(value not in _UNUSED[name] for name, value in given if name in _UNUSED):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, call.stem)
    return {name: value for name, value in bound.items() if value is not None and not name.startswith("?")}


def _of_own(call: RecordedCall, row: Own, bound: dict[str, Any]) -> Plan:
    known = _DROPOUT_OFF if row.operation == "dropout" else OPERATIONS[row.operation]
    if row.linear:
        known = replace(known, kind=Kind.BILINEAR)
    bound |= row.fixed or {}
    outputs: dict[Path, Path | None] = dict.fromkeys(call.outputs) if row.outputs else {}
    outputs |= {(str(i),): None if to is None else (str(to),) for i, to in enumerate(row.outputs)}
    candidates = []
    for label, options in islice(row.options(call, bound) if row.options else NO_CHOICE, MOST):
        kwargs = {name: value for name, value in {**bound, **options}.items() if value is not None}
        candidates.append(Candidate(label, "own", row.function, (), kwargs, outputs))
    if not candidates:
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, call.stem)
    return Plan(known, tuple(candidates), row.options not in USUAL_VALUES or candidates[0].label == "")


def _of_cell(call: RecordedCall) -> Plan:
    name = call.stem.rpartition(".")[2]
    row = ACTIVATED.get(call.activation) if name == "Dense" and call.activation else CELLS.get(name)
    if row is None:
        raise CannotReplay(Cause.UNKNOWN_CELL, f"{name} with {call.activation}" if call.activation else name)
    shape_of_output(call)
    bound = _bound(call, row)
    known = PARAMETERS.get(row.function, {})
    for parameter, leaf in call.parameters.items():
        if parameter not in known:
            raise CannotReplay(Cause.UNKNOWN_CELL, f"{name}: {parameter}")
        bound[known[parameter]] = leaf
    if row.function in NEEDED and NEEDED[row.function] not in bound:
        raise CannotReplay(Cause.UNKNOWN_CELL, f"{name}: {NEEDED[row.function]}")
    return _of_own(call, row, bound)
