"""The built page as a file: one place for the data, nothing from elsewhere, a policy that lets no data run."""

import base64
import hashlib
import re

from phrase_templates import every
from synthetic_networks import page
from synthetic_reports import HOSTILE, compared, hostile

from msprobe.checks.invariants.table import ROWS
from msprobe.checks.nonfinite.finding import Kind as NonFinite
from msprobe.compare.locate.finding import FindingKind
from msprobe.findings.translations import CHINESE
from msprobe.report.embed import MARK
from msprobe.store.monitor.layout import Stage
from msprobe.store.watching.findings import Kind as Watched

TEXT = page().decode()


def test_the_mark_stands_once_before_the_script():
    assert TEXT.count(MARK) == 1
    body, mark, script = TEXT.index("<body>"), TEXT.index(MARK), TEXT.index("<script>")
    assert body < mark < script


def test_nothing_is_loaded_from_anywhere():
    assert not re.search(r"""(?:src|href|action)\s*=\s*["']?(?!data:,)[^>"'\s]*//""", TEXT)
    assert not re.search(r"url\(\s*[\"']?(?!data:)\w+:|@import|\bimport\(|new Worker|XMLHttpRequest|\bfetch\(", TEXT)
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", TEXT))
    assert addresses <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/1999/xhtml",
    }


def test_the_policy_allows_this_script_and_no_other():
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', TEXT)[1]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    script = TEXT[TEXT.index("<script>") + len("<script>") : TEXT.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["img-src"] == "data:"
    assert TEXT.index("Content-Security-Policy") < TEXT.index("<style>")


def test_no_data_are_ever_taken_for_html():
    ours = TEXT[TEXT.index("<script>") :]
    assert not re.search(r"insertAdjacentHTML|document\.write|\beval\(|new Function|outerHTML", ours)
    # The library has it for a property that the page does not use.
    assert ours.count("innerHTML") <= ours.count("dangerouslySetInnerHTML") + ours.count(".innerHTML")
    assert "dangerouslySetInnerHTML:" not in ours


def test_the_data_stand_in_elements_that_run_nothing(tmp_path):
    text = hostile(tmp_path / "hostile.html", 10).read_text()
    assert not [name for name in HOSTILE if name in text and name not in TEXT]
    chunks = re.findall(r'<script type="text/plain" id="chunk-(\d+)">([A-Za-z0-9+/=]*)</script>', text)
    assert [int(number) for number, _ in chunks] == list(range(len(chunks)))
    assert text.count("<script") == len(chunks) + 1


def test_the_licences_of_the_libraries_are_in_the_page():
    for notice in ("Jason Miller", "Leon Sorokin"):
        assert notice in TEXT


def test_a_small_report_is_small(tmp_path):
    assert len(page()) < 300_000
    assert compared(tmp_path / "report.html").stat().st_size < 700_000


def test_every_kind_of_finding_has_a_name_in_both_languages():
    kinds = [
        *(kind.value for enum in (FindingKind, NonFinite, Watched, Stage) for kind in enum),
        *(row.name for row in ROWS),
    ]
    missing = [
        kind
        for kind in kinds
        if not re.search(rf'(?:"{re.escape(kind)}"|\b{re.escape(kind)}):\["[^"]+","[^"]*[\u4e00-\u9fff]', TEXT)
    ]
    assert not missing, f"name them in report/page/src/language.ts: {missing}"


def test_every_sentence_is_there_in_both_languages():
    """Reasons, evidence and advice: each template that a command can write, with the same placeholders in Chinese."""
    templates, unknown = every()
    assert not unknown, f"say in phrase_templates.py which templates these can be: {unknown}"
    with_words = [template for template in templates if re.search("[A-Za-z]", PLACEHOLDER.sub("", template))]
    missing = [template for template in with_words if template not in CHINESE]
    assert not missing, f"translate them in msprobe_ms/findings/chinese: {missing}"
    others = [each for each in with_words if set(PLACEHOLDER.findall(each)) != set(PLACEHOLDER.findall(CHINESE[each]))]
    assert not others, f"these have other placeholders in Chinese: {others}"
    english = [each for each in with_words if not re.search("[\u4e00-\u9fff]", CHINESE[each])]
    assert set(english) == SAME_IN_CHINESE
    assert not set(CHINESE) - set(templates), "messages that no command writes"


SAME_IN_CHINESE = {
    *("beta1", "beta2", "eps", "dtype", "ulp", "dropout", "loss", "actor", "critic", "reference", "APIs"),
    *("step {numbers}", "steps {numbers}", "rank {numbers}", "ranks {numbers}", "step {step}, rank {rank}"),
    *("at step {step}, rank {rank}", " of step {step}", " (ranks {ranks})"),
}
"""Words of the field that are not translated."""


PLACEHOLDER = re.compile(r"\{[^{}]*\}")
