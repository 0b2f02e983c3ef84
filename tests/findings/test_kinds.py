"""The catalogue of kinds: codes, names, both languages, and the pages of the documentation that it names."""

import ast
import copy
import importlib.util
import pickle
import re
from pathlib import Path

import pytest

import msprobe
from msprobe.base.verdicts import Verdicts
from msprobe.checks.invariants.table import ROWS
from msprobe.cli import main
from msprobe.findings import kinds as catalogue
from msprobe.findings.catalogue import (
    bundles,
    checkpoints,
    collecting,
    comparison,
    dumps,
    nonfinite,
    parallel,
    readiness,
    rollout,
    single_calls,
)
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.document import Document, as_object
from msprobe.findings.explain import explanation
from msprobe.findings.finding import Answer, Finding, Place
from msprobe.findings.kind import Kind, Severity, Text
from msprobe.findings.kinds import BY_CODE, BY_NAME, EVERY, kinds_in
from msprobe.findings.text import lines_of

ROOT = Path(__file__).parents[2]


def texts(kind):
    return [kind.title, kind.means, kind.decided, *kind.causes, kind.look, kind.confirm]


def test_codes_and_names_are_each_given_once():
    assert len(BY_CODE) == len(BY_NAME) == len(EVERY)
    assert all(re.fullmatch(r"MSP\d{3}", kind.code) for kind in EVERY)
    codes = [kind.code for kind in EVERY]
    assert codes == sorted(codes)


def test_everything_that_commands_find_is_in_the_catalogue():
    names = {
        *(kind.name for kind in kinds_in(kinds)),
        *(row.name for row in ROWS),
    }
    assert names <= BY_NAME.keys()


def test_every_kind_of_the_newer_commands_is_made_somewhere():
    """A kind that no code refers to by its name could not be found."""
    package = Path(msprobe.__file__).parent
    paths = [path for path in package.rglob("*.py") if path.parent.name != "catalogue"]
    referred = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    for module in (
        bundles,
        checkpoints,
        collecting,
        comparison,
        dumps,
        nonfinite,
        parallel,
        readiness,
        rollout,
        single_calls,
    ):
        names = {name for name, value in vars(module).items() if isinstance(value, Kind)}
        assert names <= referred, module.__name__


@pytest.fixture
def made(monkeypatch):
    """A kind that is declared here, and nowhere else."""
    importlib.import_module("msprobe.findings.verb")  # before: a module that is imported now would keep this kind
    text = Text("A value is odd.", "某个值异常。")
    kind = Kind(
        code="MSP999",
        name="made up",
        severity=Severity.WARNING,
        title=Text("a made-up finding", "虚构的问题"),
        means=text,
        decided=text,
        causes=(Text("this test", "本测试"),),
        look=Text("at this test", "本测试"),
        confirm=text,
        docs="how-to/checking/check.md",
    )
    monkeypatch.setattr(catalogue, "EVERY", (*EVERY, kind))
    monkeypatch.setitem(BY_CODE, kind.code, kind)
    monkeypatch.setitem(BY_NAME, kind.name, kind)
    return kind


def test_a_kind_takes_one_declaration(made, capsys):
    finding = Finding(made, Place("Mint.add.0.forward", "net", step=3), "the value is 13")
    answer = Answer("differs", "the last line", finding)
    lines = list(lines_of(answer, ""))
    assert lines[:2] == ["warning: Mint.add.0.forward in net: made up", "  because: the value is 13"]
    (shown,) = as_object(Document("check", answer, Verdicts(wrong=1), 1))["findings"]
    assert (shown["code"], shown["kind"], shown["severity"]) == ("MSP999", "made up", "warning")
    assert (shown["message"], shown["place"]["step"]) == ("the value is 13", 3)
    for word in ("MSP999", "made up"):
        assert main(["explain", word]) == 0
        assert capsys.readouterr().out.startswith("MSP999: a made-up finding (warning)\n")
    assert pickle.loads(pickle.dumps(made)) is made


@pytest.mark.parametrize("kind", EVERY, ids=str)
def test_a_kind_from_another_process_is_the_same_object(kind):
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert copy.deepcopy(kind) is kind


@pytest.mark.parametrize("kind", EVERY, ids=str)
def test_a_kind_is_explained_in_both_languages(kind):
    assert kind.causes
    for text in texts(kind):
        assert isinstance(text, Text)
        assert text.english
        assert text.english.isascii()
        assert re.search("[\u4e00-\u9fff]", text.chinese)
    for text in texts(kind)[1:]:
        assert text.english == text.english.strip()
    assert re.match("(at|nowhere: )", kind.look.english)
    for sentence in (kind.means, kind.decided, kind.confirm):
        assert sentence.english.endswith(".")
        assert sentence.chinese.endswith("。")
        assert sentence.english[0].isupper() or sentence.english[0] == "`"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_reference_page_is_that_of_the_catalogue(language):
    path = ROOT / "docs/findings.py"
    module = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location("findings_page", path))
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / language / "reference/findings.md").read_text(encoding="utf-8")
    assert text == module.page(language), "run python docs/findings.py"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", EVERY, ids=str)
def test_an_explanation_has_all_of_a_kind(kind, language):
    text = explanation(kind, language)
    assert text.startswith(kind.code)
    for part in texts(kind):
        assert part.in_(language) in text
    assert text.splitlines()[-1].startswith(f"docs/{language}/how-to") or kind.code == "MSP109"


@pytest.mark.parametrize("kind", EVERY, ids=str)
def test_its_page_of_the_documentation_has_that_heading(kind):
    page, _, anchor = kind.docs.partition("#")
    for language in ("en", "zh"):
        assert (ROOT / "docs" / language / page).exists()
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs/en" / page).read_text(), re.MULTILINE)
    slugs = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert not anchor or anchor in slugs
