"""What a notebook shows of results: a fragment of HTML that is whole, escaped, and says what the text says."""

import math
from html.parser import HTMLParser

import pytest
from pages import Page
from written_net import NAMES, forward, tensor, write_net

from msprobe.compare.entry import compare
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare as compare_dumps
from msprobe.findings.notebook import fragment
from msprobe.store.reader import read


class Whole(HTMLParser):
    """The text of a fragment; every element is closed by its own end."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags = [], [], set()
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert all(not name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def __contains__(self, words):
        return words in " ".join(self.text)


@pytest.fixture
def sides(tmp_path):
    evil = "Mint.<img src=x onerror=alert(1)>\u202e.0.forward"
    more = {evil: forward([tensor(1.0)], [tensor(math.nan)])}
    return write_net(tmp_path / "t", relu=3.75, extra=more), write_net(tmp_path / "g", extra=more)


def test_a_comparison_and_its_finding(sides):
    comparison = compare_dumps(*(read(side / "step0" / "rank0") for side in sides))
    shown = Whole(comparison._repr_html_())
    assert f"{comparison.counts['error']} error" in shown
    assert f"{NAMES[2]}.output.0" in shown
    assert shown.tags == {"div", "b", "table", "tr", "th", "td"}
    first = locate(comparison).first
    shown = Whole(first._repr_html_())
    assert f"{NAMES[2]}: computes differently" in shown
    assert "output.0" in shown


def test_an_outcome_says_its_last_line(sides, tmp_path):
    paths = {"npu_path": str(sides[0]), "bench_path": str(sides[1])}
    (outcome,) = compare(paths, tmp_path / "out", format="csv", html=True)
    assert outcome.lines[-1] in Whole(outcome._repr_html_())
    (path,) = (tmp_path / "out").glob("compare_report_*.html")
    assert Page(path).head["answer"]["line"] == outcome.lines[-1]


def test_everything_is_escaped():
    evil = "<script>alert(1)</script>\u202e\x1b[0m"
    html = fragment("differs", evil, [(evil, evil)], [evil], [[evil]])
    shown = Whole(html)
    assert "script" not in shown.tags
    assert "\u202e" not in html
    assert "\x1b" not in html
    assert "\\u202e" in shown


def test_many_rows_are_cut_and_counted():
    shown = Whole(fragment("clean", "all well", (), ("n",), [(n,) for n in range(25)]))
    assert "and 5 more" in shown
    assert "19" in shown
    assert "24" not in shown
