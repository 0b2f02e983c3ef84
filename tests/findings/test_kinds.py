"""The catalogue of kinds: codes, names, both languages, and the pages of the documentation that it names."""

import copy
import importlib.util
import pickle
import re
from pathlib import Path

import pytest

from msprobe.checks.invariants.table import ROWS
from msprobe.checks.nonfinite.finding import Kind as NonFinite
from msprobe.compare.config_check.findings import Checker
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.explain import explanation
from msprobe.findings.kind import Text
from msprobe.findings.kinds import BY_CODE, BY_NAME, EVERY
from msprobe.store.monitor.layout import Stage
from msprobe.store.watching.findings import Kind as Watched

ROOT = Path(__file__).parents[2]


def texts(kind):
    return [kind.title, kind.means, kind.decided, *kind.causes, kind.look, kind.confirm]


def test_codes_and_names_are_each_given_once():
    assert len(BY_CODE) == len(BY_NAME) == len(EVERY)
    assert all(re.fullmatch(r"MSP\d{3}", kind.code) for kind in EVERY)
    codes = [kind.code for kind in EVERY]
    assert codes == sorted(codes)


def test_everything_that_commands_find_is_in_the_catalogue():
    values = [kind.value for enum in (NonFinite, Watched, Stage) for kind in enum]
    names = {
        *values,
        *(kind.name for kind in kinds.KINDS),
        *(row.name for row in ROWS),
        *(f"{checker.value} differs" for checker in Checker),
    }
    assert names <= BY_NAME.keys()


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
