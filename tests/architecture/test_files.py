"""Rules for files: names, docstrings, the contents of an `__init__.py`, and no private paths."""

import ast
import re

FORBIDDEN = re.compile(r"(^|_)(utils?|common|helpers?|const(ants)?|misc|manager2|v2)($|_)")
OF_THE_OTHER_TOOL = ("msprobe_ms/mindspore/common/", "msprobe_ms/pytorch/common/", "msprobe_ms/core/monitor_v2/")
"""Places whose names are imported by code that was written for msprobe."""

# The home of whoever wrote it, or a workplace: such a path is right on one machine only.
PRIVATE = re.compile(r"(?<![\w.])/(?:work|mnt|data|Users|root|home/(?!user/))\w*/")
IS_TEXT = {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ".c", ".cpp", ".h", ".inc", ".csv", ""}


# The root too holds more than its docstring: the look for the neighbour.
PUBLIC = ("msprobe.core", "msprobe.mindspore", "msprobe.pytorch")
LAZY = ("msprobe.mindspore", "msprobe.pytorch")
"""Public modules that load a name when it is asked for, because what stands below them needs no framework."""


def test_no_file_has_a_name_that_says_nothing(modules, root):
    ours = [f for m in modules if not str(f := m.file.relative_to(root)).startswith(OF_THE_OTHER_TOOL)]
    wrong = [file for file in ours if any(FORBIDDEN.search(part) for part in file.with_suffix("").parts)]
    assert not wrong, f"name each after its subject: {wrong}"


def test_an_inner_init_holds_a_docstring_only(modules):
    inner = [m for m in modules if m.is_package and m.name not in ("msprobe", *PUBLIC)]
    assert inner
    for module in inner:
        body = module.tree.body
        assert len(body) == 1, f"{module.file}: an inner __init__ is its docstring, nothing else"
        assert isinstance(body[0], ast.Expr), module.file
        assert ast.get_docstring(module.tree), module.file


def test_a_face_has_a_sorted_all_and_defines_nothing(modules):
    public = [m for m in modules if m.name in PUBLIC]
    assert len(public) == len(PUBLIC)
    for module in public:
        docstring, *imports, listed = module.tree.body
        assert isinstance(docstring.value, ast.Constant), f"{module.file}: begins with its docstring"
        if module.name in LAZY:
            imports = loaded_later(module, imports)
        assert all(isinstance(node, ast.ImportFrom) for node in imports), (
            f"{module.file}: a public module imports and defines nothing"
        )
        assert listed.targets[0].id == "__all__", f"{module.file}: ends with __all__"
        names = ast.literal_eval(listed.value)
        inputs = [alias.asname or alias.name for node in imports for alias in node.names]
        assert names == sorted(inputs), f"{module.file}: __all__ is sorted and lists what is imported"


def loaded_later(module, body):
    """Return the imports for type checkers of a module whose names are imported on first use: `lazy_attributes` has
    the same names of the same modules."""
    typing, base, seen, loading = body
    assert [alias.name for node in (typing, base) for alias in node.names] == ["TYPE_CHECKING", "lazy_attributes"], (
        module.file
    )
    assert ast.unparse(seen.test) == "TYPE_CHECKING", module.file
    assert loading.targets[0].id == "__getattr__", module.file
    assert loading.value.func.id == "lazy_attributes", module.file
    homes = ast.literal_eval(loading.value.args[1])
    assert homes == {alias.name: node.module for node in seen.body for alias in node.names}, module.file
    return seen.body


def test_every_module_says_what_it_is_for(modules):
    assert not [m.file for m in modules if not ast.get_docstring(m.tree)]


def test_nothing_speaks_of_private_paths(files, root):
    wrong = [
        f"{file.relative_to(root)}:{number}: {line.strip()[:100]}"
        for file in files
        if file.suffix in IS_TEXT
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
        if PRIVATE.search(line)
    ]
    assert not wrong, "\n".join(wrong)
