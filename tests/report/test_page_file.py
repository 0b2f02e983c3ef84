"""The built page as a file: one place for the data, nothing from elsewhere, a policy that lets no data run."""

import base64
import hashlib
import re

from synthetic_networks import page
from synthetic_reports import HOSTILE, compared, hostile

from msprobe.report.embed import MARK

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
