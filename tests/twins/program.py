"""The program of one side of a twin: as it stands, or rewritten into a variant or with a planted bug.

What is rewritten is the text, and the new text is a file that is then imported: call stacks show real lines.
"""

import ast
import importlib.util
import re
import sys
import textwrap
from pathlib import Path

import truth

HERE = Path(__file__).parent


def load(net, side, folder, patches=(), scrambled=False):
    """The module of a program. A rewritten one is written into `folder`."""
    source = HERE / f"nets_{side}" / f"{net}.py"
    text = source.read_text()
    changed = patched(text, patches, source.name)
    changed = scrambled_text(changed) if scrambled else changed
    if changed != text:
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / source.name
        source.write_text(changed)
    return _imported(source, f"twin_{side}_{net}")


def patched(text, patches, name):
    """The text after each patch `{old, new}`; ValueError where `old` does not stand in it exactly `times` (1).

    Whole lines without indentation are found at any indentation; anything else as it is.
    """
    for patch in patches:
        old, new, times = patch["old"], patch["new"], patch.get("times", 1)
        if old.endswith("\n") and not old.startswith(" "):
            found = {m.group(1) for m in re.finditer(rf"^([ ]*){re.escape(old.splitlines()[0])}$", text, re.MULTILINE)}
            whole = [depth for depth in found if textwrap.indent(old, depth) in text]
            depth = whole[0] if whole else ""
            old, new = textwrap.indent(old, depth), textwrap.indent(new, depth)
        if text.count(old) != times:
            raise ValueError(f"{name}: stands there {text.count(old)} times, not {times}:\n{old}")
        text = text.replace(old, new)
    return text


def scrambled_text(text):
    """The program with every attribute and class of its own renamed; names of the frameworks stay."""
    tree = ast.parse(text)
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    imported = {a.asname or a.name for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    return ast.unparse(_Renaming(classes, own - truth.PARAMETERS, imported).visit(tree))


class _Renaming(ast.NodeTransformer):
    def __init__(self, classes, attributes, imported):
        self.classes, self.attributes, self.imported = classes, attributes, imported

    def visit_Attribute(self, node):
        self.generic_visit(node)
        root = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        of_framework = isinstance(root, ast.Name) and root.id in self.imported
        if node.attr in self.attributes and not of_framework:
            node.attr = truth.scrambled_name(node.attr)
        return node

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        node.name = truth.scrambled_name(node.name)
        return node

    def visit_Name(self, node):
        if node.id in self.classes:
            node.id = truth.scrambled_name(node.id)
        return node


def _imported(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
