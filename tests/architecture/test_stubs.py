"""The stubs in `typings/`, by which mypy knows MindSpore, say what the installed MindSpore has."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

mindspore = pytest.importorskip("mindspore", reason="the stubs are compared with MindSpore")

STUBS = Path(__file__).parents[2] / "typings"


def declared():
    """(module, name of the class or "", definition) for everything that the stubs declare."""
    for file in sorted(STUBS.rglob("*.pyi")):
        parts = file.relative_to(STUBS).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield from ((module, node.name, inner) for inner in node.body)
            else:
                yield module, "", node


def name_of(node):
    """The name that a statement of a stub defines; None for imports, docstrings and the like."""
    if isinstance(node, ast.FunctionDef):
        return node.name
    return node.target.id if isinstance(node, ast.AnnAssign) else None


def examples():
    """Objects of the declared classes, by class: an attribute may be the object's alone."""
    from mindspore import Parameter, Tensor, _c_expression, nn, ops, train
    from mindspore.common.dtype import Type
    from mindspore.communication import GlobalComm
    from mindspore.ops.primitive import PrimitiveWithInfer

    tensor, parameter = Tensor([1.0]), Parameter(Tensor([1.0]), name="p")
    cell = nn.Dense(1, 1)
    return {
        **{"Tensor": tensor, "Parameter": parameter, "Cell": cell, "Optimizer": nn.SGD([parameter], 0.1)},
        **{"_Handle": parameter.register_hook(lambda gradient: None), "_Storage": tensor.untyped_storage()},
        **{"_Node": _c_expression.BackwardNodePy, "GlobalComm": GlobalComm, "Type": Type},
        **{
            "Primitive": ops.Primitive,
            "InsertGradientOf": ops.InsertGradientOf,
            "PrimitiveWithInfer": PrimitiveWithInfer,
        },
        **{"Callback": train.Callback, "Model": train.Model},
    }


def test_whatever_the_stubs_declare_is_there():
    of, found, missing = examples(), 0, []
    for module, owner, node in declared():
        name = name_of(node)
        if name is None or name == "__getattr__":
            continue
        place = of[owner] if owner else import_module(module)
        found += 1
        if not hasattr(place, name):
            missing.append(f"{module}.{owner or ''}.{name}")
    assert found > 80, "the stubs were found"
    assert missing == []


def test_functions_take_the_parameters_that_the_stubs_name():
    checked = 0
    for module, owner, node in declared():
        if owner or not isinstance(node, ast.FunctionDef) or node.name == "__getattr__":
            continue
        real = inspect.signature(getattr(import_module(module), node.name)).parameters
        if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in real.values()):
            continue
        assert [each.arg for each in node.args.args] == list(real)[: len(node.args.args)], f"{module}.{node.name}"
        checked += 1
    assert checked > 15
