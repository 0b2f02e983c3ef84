"""Several ranks: one layout for all that make the same calls, who meets whom, and pages that stay small."""

import json

import pytest
from large_runs import IN_A_LAYER, write_run
from pages import Page

from msprobe.cli import main
from msprobe.compare.jobs.outcome import Task, budget
from msprobe.compare.units import assembly
from msprobe.compare.units.details import by_importance

pytestmark = pytest.mark.part(3)

RANKS, LAYERS = 4, 24


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Four ranks; the third is wrong from layer 10 on."""
    folder = tmp_path_factory.mktemp("ranks")
    write_run(folder / "target", RANKS, LAYERS, wrong_from=10, wrong_rank=2)
    write_run(folder / "golden", RANKS, LAYERS)
    return folder


@pytest.fixture
def page(runs, tmp_path):
    words = [str(runs / "target"), str(runs / "golden"), "-o", str(tmp_path / "out"), "--format", "json", "--html"]
    assert main(["compare", *words]) == 1
    (path,) = (tmp_path / "out").glob("*.html")
    return Page(path)


@pytest.mark.slow
def test_the_answer_is_of_the_rank_that_is_wrong(page, runs, tmp_path, capsys):
    main(["compare", str(runs / "target"), str(runs / "golden"), "-o", str(tmp_path / "again")])
    assert page.head["answer"]["line"] == capsys.readouterr().out.splitlines()[-1]
    first = page.head["answer"]["first"]
    assert first["place"]["rank"] == 2
    assert page.head["units"][first["place"]["unit"]]["rank"] == 2
    _, layout, state, _ = page.unit(first["place"]["unit"])
    assert layout["names"][first["place"]["call"]] == first["place"]["name"] == "Mint.matmul.10.forward"
    assert state["verdicts"][first["place"]["call"]] == "e"
    (summary,) = (tmp_path / "out").glob("compare_summary_*.json")
    found = json.loads(summary.read_text())
    assert first["place"]["name"] == found["first_wrong"][0]["name"]
    assert page.head["counts"] == found["counts"]
    for unit, job in zip(page.head["units"], found["jobs"], strict=True):
        assert (unit["label"], unit["rank"], unit["counts"]) == (job["label"], job["rank"], job["counts"])
        assert ("first" in unit) is bool(job["beginnings"])


def test_equal_layouts_are_stored_once(page):
    assert len(page.head["units"]) == RANKS
    assert len({unit["layout"] for unit in page.head["units"]}) == 1
    assert len({unit["state"] for unit in page.head["units"]}) > 1
    assert "merged" not in page.head
    assert page.head["calls"] == RANKS * LAYERS * IN_A_LAYER


def test_collectives_join_the_ranks(page):
    _, layout, _, _ = page.unit()
    calls = [at for at, name in enumerate(layout["names"]) if name.startswith("MintDistributed.all_reduce")]
    assert len(calls) == LAYERS
    assert {layout["kinds"][at] for at in calls} == {"c"}
    meetings = page.head["meetings"]
    assert [(meeting["name"], meeting["role"]) for meeting in meetings] == [("all_reduce", "all")] * LAYERS
    assert [meeting["calls"] for meeting in meetings] == [[[rank, call] for rank in range(RANKS)] for call in calls]


def test_ranks_of_different_calls_are_not_merged_and_it_is_said(tmp_path):
    def stage(rank):
        return f"stage{rank % 2}"

    for side in ("target", "golden"):
        write_run(tmp_path / side, 4, 2, prefix=stage)
    assert main(["report", str(tmp_path / "target"), str(tmp_path / "golden"), "-o", str(tmp_path / "page.html")]) == 0
    head = Page(tmp_path / "page.html").head
    assert [unit["layout"] for unit in head["units"]] == [head["units"][at % 2]["layout"] for at in range(4)]
    assert "2 different lists of calls (ranks 0, 2; 1, 3)" in head["merged"]


def test_one_side_alone_shows_all_ranks(runs, tmp_path):
    words = ["report", str(runs / "target"), "--as", "dump"]
    assert main([*words, "-o", str(tmp_path / "page.html")]) == 0
    head = Page(tmp_path / "page.html").head
    assert [unit["rank"] for unit in head["units"]] == list(range(RANKS))
    assert len(head["meetings"]) == LAYERS
    assert main([*words, "-o", str(tmp_path / "one.html"), "--rank", "1"]) == 0
    assert [unit["rank"] for unit in Page(tmp_path / "one.html").head["units"]] == [1]


def test_details_are_budgeted_and_what_is_left_out_is_said(runs, tmp_path, monkeypatch):
    """Of few bytes first what differs, then what is beside it."""
    monkeypatch.setattr(Task, "__init__", _with_budget(Task.__init__, 1))
    words = ["--rank", "2", "--workers", "1", "-o", str(tmp_path / "page.html")]
    assert main(["report", str(runs / "target"), str(runs / "golden"), *words]) == 1
    page = Page(tmp_path / "page.html")
    assert page.head["command"].endswith(" --ranks 2")
    _, layout, _, calls = page.unit()
    first = page.head["answer"]["first"]["place"]["call"]
    assert page.head["detailed"] == len(calls) < page.head["calls"] == len(layout["names"])
    assert first in calls
    assert layout["parents"][first] in calls, "what is around the first wrong call is there"
    assert any(
        f"details of {len(calls)} of {page.head['calls']} calls" in note for note in page.head["answer"]["notes"]
    )


def _with_budget(begin, most):
    def made(self, *values, **named):
        begin(self, *values, **named)
        object.__setattr__(self, "in_report", most)

    return made


def test_the_order_of_importance():
    class Calls:
        parents = (-1, 0, 1, 1, -1, -1, -1)

        def __len__(self):
            return len(self.parents)

        def around(self, number):
            return {2: [1, 0], 3: [1, 0], 1: [0]}.get(number, [])

    links = [(3, "input.0", 2, "output.0"), (4, "input.0", 3, "output.0"), (6, "input.0", 5, "output.0")]
    # 3 is named first, then what is around it; 5 is harmless; 2 and 4 are beside 3, and 6 beside 5.
    assert list(by_importance("pppewhp", Calls(), links, [3])) == [3, 1, 0, 4, 5, 2, 6]
    assert list(by_importance("ppppppp", Calls(), links, [])) == list(range(7))


def test_a_large_report_stays_within_its_bytes(runs, tmp_path, monkeypatch):
    """What does not fit is left out of units without a finding: links first, where states alone are too many."""
    monkeypatch.setattr(assembly, "_MAX_BYTES_OF_STATES", 4000)
    monkeypatch.setattr(assembly, "_MAX_BYTES", 40_000)
    main(["report", str(runs / "target"), str(runs / "golden"), "-o", str(tmp_path / "page.html")])
    page = Page(tmp_path / "page.html")
    units = [page.unit(at) for at in range(RANKS)]
    assert [bool(state.get("links")) for _, _, state, _ in units][:2] == [False, False]
    wrong = next(at for at, (held, *_) in enumerate(units) if "first" in held)
    assert units[wrong][3], "the unit with the finding keeps its details"
    assert page.head["detailed"] == sum(len(calls) for *_, calls in units)
    notes = " ".join(page.head["answer"]["notes"])
    assert "has no dataflow for" in notes
    assert "details of" in notes


@pytest.mark.slow
def test_eight_ranks_of_many_calls_are_small(tmp_path):
    """8 ranks x 5,000 calls, scaled down to a tenth: far below the 30 MB that 64 ranks x 20,000 may take."""
    write_run(tmp_path / "t", 8, 55, noise=1e-3, wrong_from=20, wrong_rank=5)
    write_run(tmp_path / "g", 8, 55)
    main(["report", str(tmp_path / "t"), str(tmp_path / "g"), "-o", str(tmp_path / "page.html")])
    page = Page(tmp_path / "page.html")
    calls = 8 * 55 * IN_A_LAYER
    assert page.head["calls"] == page.head["detailed"] == calls
    states = sum(len(page.packed[unit["state"]]) for unit in page.head["units"])
    assert states / calls < 30_000_000 / (64 * 20_000), "all records differs, which packs worst"
    assert len(page.raw) < 3_000_000


def test_the_budget_of_a_unit():
    assert budget(1) == 1_000_000
    assert 64 * budget(64) <= 8_000_000
    assert budget(10_000) == 50_000
