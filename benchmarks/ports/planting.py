"""Plant a bug in a port at run time: the source of a function is replaced, or the network changed after it was made."""

import ast
import importlib
import inspect
import textwrap

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops


class NotPlanted(Exception):
    """The text that is to be replaced does not stand there as often as it should."""


def rewrite(bug, owner):
    """Compile the function `at` again, with `old` replaced by `new`; `owner` is the module of the port's class.

    The function keeps its decorators and its place in the file.
    """
    change = bug.get("rewrite")
    if not change:
        return
    module_name, _, path = change["at"].rpartition(":")
    module = importlib.import_module(module_name or owner)
    function = module
    for part in path.split("."):
        function = getattr(function, part)
    function = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(function)
    source = "".join(lines)
    if source.count(change["old"]) != change.get("count", 1):
        raise NotPlanted(f"{change['at']}: {change['old']!r} stands there {source.count(change['old'])} times")
    source = textwrap.dedent(source.replace(change["old"], change["new"]))
    function.__code__ = _code(source, first, inspect.getsourcefile(function), vars(module), function.__code__)


def change(bug, net):
    """Run the statement `change` about the network."""
    if "change" in bug:
        own = {parameter.name: parameter for parameter in net.get_parameters()}
        exec(
            bug["change"],
            {"net": net, "own": own, "ms": ms, "mint": mint, "ops": ops, "nn": nn, "np": np, "Tensor": Tensor},
        )


def _code(source, first, file, space, old):
    tree = ast.parse(source)
    tree.body[0].decorator_list = []
    if old.co_freevars:  # `super()` asks for the cell of the class, which the function keeps
        outer = ast.parse(f"def _outer():\n    {' = '.join(old.co_freevars)} = None\n    return 0").body[0]
        outer.body[1:] = [tree.body[0], ast.Return(ast.Name(tree.body[0].name, ast.Load()))]
        tree.body[0] = outer
    ast.increment_lineno(tree, first - 1)
    found = {}
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), space, found)
    made = next(iter(found.values()))
    return (made() if old.co_freevars else made).__code__
