"""Every module is checked by mypy --strict; what is not checked is listed with a reason."""

import re
import tokenize

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python reads pyproject.toml from 3.11 on")

CHECKED = ("msprobe_ms", "cell_dump", "graph_save", "mapping", "compare")
"""The folders whose exceptions are to have a reason each."""

COMPILED = "# type: ignore[no-untyped-def]  # compiled code"
"""Marks a function that MindSpore's compiler reads."""


@pytest.fixture(scope="module")
def settings(root):
    return tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"]


def test_all_of_the_package_is_checked_strictly(settings):
    assert settings["strict"] is True
    assert settings["packages"] == ["msprobe"]
    assert not settings.keys() & {"exclude", "ignore_errors", "disable_error_code", "ignore_missing_imports"}


def test_only_modules_with_compiled_code_are_checked_less(settings, modules):
    known = {module.name: module for module in modules}
    for override in settings["overrides"]:
        listed = override["module"]
        ours = [name for name in listed if name.split(".")[0] == "msprobe"]
        if not ours:
            continue
        assert override.keys() == {"module", "check_untyped_defs", "disallow_untyped_calls"}
        for name in ours:
            source = known[name].file.read_text()
            imports = {each.module for each in known[name].imports}
            assert COMPILED in source or imports & set(ours), f"{name} neither has compiled code nor calls any"


def test_every_exception_has_a_code_and_a_reason(root):
    lacking, found = [], 0
    for folder in CHECKED:
        for file in sorted((root / folder).rglob("*.py")):
            with tokenize.open(file) as source:
                comments = [t for t in tokenize.generate_tokens(source.readline) if t.type == tokenize.COMMENT]
            for token in comments:
                if not token.string.startswith("# type: ignore"):
                    continue
                found += 1
                said = re.fullmatch(
                    r"# type: ignore\[[a-z, -]+\]( +# noqa(: [A-Z0-9]+)?)?(?P<reason> +# .+)?", token.string
                )
                if said is None or not said["reason"]:
                    lacking.append(f"{file.relative_to(root)}:{token.start[0]}")
    assert found > 50
    assert lacking == []
