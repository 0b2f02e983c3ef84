"""Plant a bug in a port at run time: the source of a function is replaced, or the network changed after it was made.

A bug is a dictionary. `rewrite`: a list of {"at": "module:function", "old": text, "new": text}, where the function is compiled
again from its source with `old` replaced, at the same lines. `change`: a statement about `net`, run when weights are loaded.
"""

import importlib
import inspect
import linecache
import textwrap

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops


class NotPlanted(Exception):
    """The text that is to be replaced does not stand there once."""


def rewrite(bug):
    """Replace the text of functions."""
    for each in bug.get("rewrite", ()):
        module_name, _, path = each["at"].partition(":")
        module = importlib.import_module(module_name)
        owner = module
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        function = vars(owner)[name]
        function = inspect.unwrap(function)
        lines, first = inspect.getsourcelines(function)
        source = "".join(lines)
        if source.count(each["old"]) != each.get("count", 1):
            raise NotPlanted(f"{each['at']}: {each['old']!r} stands there {source.count(each['old'])} times")
        source = textwrap.dedent(source.replace(each["old"], each["new"]))
        while source.lstrip().startswith("@"):  # decorators are not for this
            head, _, source = source.partition("\n")
            source = "\n" + source if not source.startswith("def") else source
            first += 1 if source.startswith("def") else 0
        needs_class = "super()" in source or "__class__" in source
        if needs_class:
            source = source.replace("super()", f"super({outer[-1]}, self)")
        code = compile("\n" * (first - 1) + source.lstrip("\n"), inspect.getsourcefile(function), "exec")
        space = {}
        exec(code, vars(module), space)
        setattr(owner, name, space[name])


def change(bug, net):
    """Change the network."""
    if "change" in bug:
        own = {parameter.name: parameter for parameter in net.get_parameters()}
        exec(bug["change"], {"net": net, "own": own, "ms": ms, "mint": mint, "ops": ops, "nn": nn, "np": np, "Tensor": Tensor})
