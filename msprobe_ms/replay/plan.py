"""What a recorded call means in the reference's words: the operation, and per candidate the function and its arguments.

A call of PyTorch, or of PyTorch's API on MindSpore, is its own reference. A call of MindSpore has a row in `own.py`, or
is translated by the table of `mapping`. Torch is not needed here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from msprobe.base.errors import MappingError
from msprobe.mapping.api import Correspondence, key_of, load_table

from .operations import Kind, Operation, operation, plain_name
from .options import MOST, OPTIONS, USUAL_VALUES, left_out, shape_of_output, told
from .own import APIS, CELLS, PARAMETERS, Own
from .recorded import CannotReplay, Cause, Leaf, Named, Path, RecordedCall

_COLLECTIVES = ("Distributed", "MintDistributed")
_FAMILIES = ("Functional", "Torch", "Tensor", "VF", "NPU", "Aten")
_TWICE = {"norm": ("norm", "linalg.norm")}
"""Functions of one name in the dump that take their arguments differently."""
_NO_DERIVATIVE = ("Functional.assign", "Primitive.Assign")
"""Calls of MindSpore that pass on other gradients than the derivative."""
_DEFAULTED = ("skip_mode", "batch_dims")
"""Attributes of primitives that layers and functions of MindSpore leave at their defaults."""


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
    """How a call is executed again; CannotReplay where that is not known."""
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
    label: str = "",
) -> Plan:
    known = operation(plain_name(name)) if family in _FAMILIES else None
    if known is None:
        raise CannotReplay(Cause.UNKNOWN_OPERATION, call.stem)
    if plain_name(name) == "dropout" or known.name == "dropout":
        known = _dropout(call, args, kwargs)
    if known.kind is Kind.RANDOM:
        raise CannotReplay(Cause.RANDOM, known.name)
    if known.kind is Kind.UNINITIALISED:
        raise CannotReplay(Cause.UNINITIALISED, known.name)
    if plain_name(name) == "scaled_dot_product_attention":
        _without_dropout(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0))
    if plain_name(name) == "npu_fusion_attention":
        _without_dropout(1 - kwargs.get("keep_prob", args[9] if len(args) > 9 else 1))
        outputs = {path: path if path == ("0",) else None for path in call.outputs}
    if known.name == "transpose" and plain_name(name) != "t" and len(args) != 3 - len(kwargs):
        name, known = "permute", operation("permute") or known
    made = Candidate(label, family, name, args, kwargs, outputs or {})
    if family == "Torch" and name in _TWICE:
        return Plan(known, tuple(replace(made, label=f"of={each}", name=each) for each in _TWICE[name]))
    return Plan(known, (made,))


def _dropout(call: RecordedCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operation:
    """A dropout that is off hands its input on."""
    bound = dict(zip(("input", "p", "training"), args, strict=False)) | dict(kwargs)
    if bound.get("p", 0.5) == 0 or bound.get("training", True) is False:
        return replace(operation("clone") or _never(), name="dropout")
    raise CannotReplay(Cause.RANDOM, "dropout")


def _never() -> Operation:
    raise AssertionError("the table of operations has it")


def _without_dropout(p: Any) -> None:
    if p not in (0, None):
        raise CannotReplay(Cause.RANDOM, "dropout")


def _of_mindspore(call: RecordedCall) -> Plan:
    key = key_of(call.stem)
    if call.is_backward and key in _NO_DERIVATIVE:
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, key)
    if key in APIS:
        return _of_own(call, APIS[key], _bound(call, APIS[key]))
    table = load_table()
    fitting = [pair for pair in table.counterparts(call.stem) if pair.fits(call.tops)]
    if not fitting:
        # Before a function was told apart by the table, one of PyTorch's names may have been used for it.
        family, _, name = call.stem.partition(".")
        if family == "Tensor" and operation(plain_name(name)) is not None and not table.counterparts(call.stem):
            return _of_pytorch(call, family, name, call.args, call.kwargs)
        raise CannotReplay(Cause.UNKNOWN_OPERATION, call.stem)
    refused: CannotReplay | None = None
    for pair in fitting:
        try:
            return _translated(call, pair)
        except CannotReplay as err:
            refused = refused or err
    raise refused or CannotReplay(Cause.UNKNOWN_OPERATION, call.stem)


def _translated(call: RecordedCall, pair: Correspondence) -> Plan:
    given = set(call.kwargs) | set(pair.ms_signature.names[: len(call.args)])
    if any(name in given for name in pair.transforms):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, pair.ms)
    family, _, name = pair.pt.partition(".")
    try:
        args, kwargs = pair.translate(call.args, call.kwargs)
    except MappingError as err:
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, pair.ms) from err
    made = _of_pytorch(call, family, name, args, kwargs, pair.output)
    constructed = {*pair.attributes, *(of for of in pair.dropped if of not in pair.ms_signature)}
    if pair.ms.startswith("Primitive."):  # what it is constructed with stands behind the star
        constructed |= {*pair.ms_signature.keywords}
    constructed -= {of for of, value in pair.dropped.items() if value is None}  # any value means the same
    is_told = constructed <= {"axis", "keep_dims", "dim", "keepdim", *_DEFAULTED, *call.kwargs}
    if constructed.isdisjoint(("axis", "keep_dims", "dim", "keepdim")):
        return replace(made, is_exhaustive=is_told)
    return replace(made, candidates=tuple(_attributes(call, pair, made.candidates[0])), is_exhaustive=is_told)


def _attributes(call: RecordedCall, pair: Correspondence, plain: Candidate) -> Iterator[Candidate]:
    """A primitive's axis and whether it keeps axes of size 1, which no record tells; the default comes first."""
    axes = len(next(iter(_shapes(plain.args)), ()))
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
        label = told(**options) if any(len(choices[key]) > 1 for key in keys) else ""
        yield replace(plain, label=label, kwargs={**plain.kwargs, **options})


def _shapes(args: tuple[Any, ...]) -> Iterator[tuple[int, ...]]:
    for value in args:
        if isinstance(value, Leaf):
            yield value.shape


def _bound(call: RecordedCall, row: Own) -> dict[str, Any]:
    """The arguments of a call by the names of the reference's parameters."""
    if len(call.args) > len(row.parameters):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, call.stem)
    bound = dict(zip(row.parameters, call.args, strict=False))
    names = _keywords(call) if call.kind == "api" else ()
    for keyword, value in call.kwargs.items():
        place = names.index(keyword) if keyword in names else -1
        if 0 <= place < len(row.parameters):
            bound[row.parameters[place]] = value
        elif keyword in row.parameters:
            bound[keyword] = value
        else:
            raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, f"{call.stem}: {keyword}")
    for name in list(bound):
        if not name or name.startswith("?"):
            _without(call, name, bound.pop(name))
    return {name: value for name, value in bound.items() if value is not None}


def _without(call: RecordedCall, name: str, value: Any) -> None:
    if name == "?keep_prob" and value not in (1, None):
        raise CannotReplay(Cause.RANDOM, "dropout")
    if (name == "?none" and value is not None) or (name == "?zero" and value not in (0, None)):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, call.stem)


def _keywords(call: RecordedCall) -> tuple[str, ...]:
    """The parameters of MindSpore's function in order, as the table of functions has them."""
    pairs = load_table().counterparts(call.stem)
    return pairs[0].ms_signature.names if pairs else ()


def _of_own(call: RecordedCall, row: Own, bound: dict[str, Any]) -> Plan:
    known = operation(row.operation)
    if row.operation == "dropout":
        known = replace(operation("clone") or _never(), name="dropout")
    if known is None:
        raise CannotReplay(Cause.UNKNOWN_OPERATION, call.stem)
    if row.linear:
        known = replace(known, kind=Kind.BILINEAR)
    bound |= row.fixed or {}
    ways = OPTIONS[row.options](call, bound) if row.options else iter([("", {})])
    outputs: dict[Path, Path | None] = {
        (str(i),): None if to is None else (str(to),) for i, to in enumerate(row.outputs)
    }
    if row.outputs:
        outputs |= {path: None for path in call.outputs if path not in outputs}
    found = tuple(
        Candidate(label, "own", row.function, (), left_out({**bound, **options}), outputs)
        for label, options in islice(ways, MOST)
    )
    if not found:
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, call.stem)
    return Plan(known, found, row.options not in USUAL_VALUES or found[0].label == "")


def _of_cell(call: RecordedCall) -> Plan:
    name = call.stem.rpartition(".")[2]
    row = CELLS.get(name)
    if row is None:
        raise CannotReplay(Cause.UNKNOWN_CELL, name)
    shape_of_output(call)
    bound = _bound(call, row)
    theirs, ours = PARAMETERS.get(row.function, ((), ()))
    for parameter, leaf in call.parameters.items():
        if parameter not in theirs:
            raise CannotReplay(Cause.UNKNOWN_CELL, f"{name}: {parameter}")
        bound[ours[theirs.index(parameter)]] = leaf
    needed = {"linear": "weight", "convolution": "weight", "embedding": "weight", "layer_norm": "gamma"}
    if needed.get(row.function, "x") not in bound and row.function in needed:
        raise CannotReplay(Cause.UNKNOWN_CELL, f"{name}: {needed[row.function]}")
    return _of_own(call, row, {key: value for key, value in bound.items() if value is not None})


def words(value: Any) -> Any:
    """The dtype of a `Named`, as NumPy calls it; None for any other name (a device, a layout)."""
    if isinstance(value, Named) and "dtype" in value.kind:
        return value.text.rpartition(".")[2].lower()
    return None
