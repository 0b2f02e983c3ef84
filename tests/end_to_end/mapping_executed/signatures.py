"""What both frameworks say of the parameters of their functions, as far as they say it.

MindSpore by `inspect`; PyTorch by `inspect` and, for what is written in C++, by the stub files that come with it.
"""

import ast
import inspect
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import mindspore
import torch
from executed import MS_NAMESPACES, pt_function

from msprobe.mapping.api import Signature

STUBS = (
    ("Torch", "_VariableFunctions.pyi", ""),
    ("Tensor", "__init__.pyi", "TensorBase"),
    ("Functional", "_nn.pyi", ""),
)


FIRST = {"input", "A", "x"}
"""What the first tensor is called: the documentation of one and the same function may say one, and its code another."""


@dataclass(frozen=True)
class Inspected(Signature):
    """A signature with the defaults that it tells."""

    defaults: dict = field(default_factory=dict)


@lru_cache
def stubs():
    """Stem of PyTorch to the signatures of its overloads."""
    found = {}
    for prefix, file, owner in STUBS:
        body = ast.parse((Path(torch.__file__).parent / "_C" / file).read_text()).body
        if owner:
            body = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == owner).body
        for node in body:
            if isinstance(node, ast.FunctionDef):
                found.setdefault(f"{prefix}.{node.name}", []).append(_written(node.args))
    return found


def _written(parameter):
    """The signature of a stub."""
    by_position = [*parameter.posonlyargs, *parameter.args]
    with_default = by_position[len(by_position) - len(parameter.defaults) :] + parameter.kwonlyargs
    defaults = zip(with_default, [*parameter.defaults, *parameter.kw_defaults], strict=True)
    return Inspected(
        tuple(a.arg for a in by_position),
        parameter.vararg.arg if parameter.vararg else "",
        tuple(a.arg for a in parameter.kwonlyargs),
        {a.arg: node.value for a, node in defaults if isinstance(node, ast.Constant)},
    )


def inspected(function):
    """The signature that Python knows; None of what is written in C++."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    kinds = {kind: [p.name for p in parameters if p.kind == kind] for kind in inspect._ParameterKind}
    names = (*kinds[inspect.Parameter.POSITIONAL_ONLY], *kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD])
    rest = "".join(kinds[inspect.Parameter.VAR_POSITIONAL])
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    return Inspected(names, rest, tuple(kinds[inspect.Parameter.KEYWORD_ONLY]), defaults)


def of_pytorch(stem, of=""):
    """The signatures of a function of PyTorch; empty where nothing is told."""
    prefix, _, name = stem.partition(".")
    # Some of torch.nn.functional choose between two functions by this argument.
    functions = [pt_function(stem, of), pt_function(f"{stem}_with_indices")]
    found = [s for f in functions if f is not None and (s := inspected(f)) is not None]
    found += stubs().get(stem, [])
    if prefix == "Functional":
        found += stubs().get(f"Torch.{name}", [])  # some of torch.nn.functional are torch's own
    if prefix == "Torch":
        found += [each for length in ("linalg", "special", "fft") for each in _registered(f"{length}_{name}")]
    return [s for s in found if s.rest != "args"]


def _registered(operator):
    """Of torch.linalg and its like: what the operators say of themselves; documentation has other names at times."""
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{operator}"):
        by_position = ["input" if a.name == "self" else a.name for a in schema.arguments if not a.kwarg_only]
        yield Inspected(tuple(by_position), "", tuple(a.name for a in schema.arguments if a.kwarg_only))


def of_mindspore(stem):
    """The signatures of the functions of MindSpore that the stem names; empty where they say `*args, **kwargs`."""
    prefix, _, name = stem.partition(".")
    found = [getattr(owner, name, None) for owner in MS_NAMESPACES.get(prefix, (mindspore.Tensor,))]
    if prefix == "Primitive":
        found = [inspect.getattr_static(primitive, "__call__", None) for primitive in found]
    inspected_all = [inspected(function) for function in found if function is not None]
    drops_self = prefix == "Primitive"
    return [replace(t, names=t.names[drops_self:]) for t in inspected_all if t is not None and t.rest != "args"]


def faults(listed, expected, is_loose=False):
    """Parameters of the table's signature that no overload has where the table has them.

    Of `*operands` it is enough that the function takes any number, or a list of that name. Loose: what the function has
    not at all is passed over, and the first parameter may have any name.
    """
    every = {name for each in expected for name in each.every}
    found = []
    for position, name in enumerate(listed.names):
        spellings = FIRST if position == 0 and name in FIRST else {name, f"{name}_"}
        stands = any(set(each.names[position : position + 1]) & spellings for each in expected)
        if not stands and not (is_loose and (position == 0 or name not in every)):
            found.append(f"{name} at {position}")
    takes_all = any(each.rest or each.names[len(listed.names) :][:1] == (listed.rest,) for each in expected)
    if listed.rest and not takes_all:
        found.append(f"*{listed.rest}")
    return found + [name for name in listed.keywords if name not in every and not is_loose]
