"""What the guide shows is what the command says; both guides show the same."""

import re
from pathlib import Path

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.compare.rl.order import FLOW, part_of_key, plain
from msprobe.store.rl_roots import STAGES

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("en/how-to/comparing/compare-flow.md", "zh/how-to/comparing/compare-flow.md")
KEYS = {
    "prompts": np.array([[1, 2]], np.int32),
    "responses": np.array([[5, 6, 7]], np.int32),
    "ref_log_prob": np.array([[-1.0, -2.0, -1.5]], np.float32),
    "old_log_prob": np.array([[-1.0, -2.0, -1.5]], np.float32),
    "loss": np.array(0.5, np.float32),
}


def shown(page):
    return re.findall(r"^```text\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_guide_shows_what_the_command_says(roots, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for root, side, temperature in zip(roots, ("target", "golden"), (0.9, 1.0), strict=True):
        root.configure(rl={"temperature": temperature, "seed": 1}, dump_path=f"runs/{side}")
        root.save(0, keys=KEYS).save(1, keys=KEYS)
    off = KEYS["ref_log_prob"] + np.array([0, 0, -0.5], np.float32)
    roots[0].save(1, keys=KEYS, ref_log_prob=off)
    assert main(["compare", "target", "golden", "-o", "out"]) == 1
    assert capsys.readouterr().out == shown("en/how-to/comparing/compare-flow.md")[0]


def test_both_guides_show_the_same():
    assert shown(PAGES[0]) == shown(PAGES[1])
    assert len(shown(PAGES[0])) == 2


@pytest.mark.parametrize("page", PAGES)
def test_the_guides_have_every_stage_and_known_keys_only(page):
    text = (DOCS / page).read_text("utf-8")
    rows = [
        line
        for line in text.splitlines()
        if re.match(r"\| (`(actor|critic|reference)_|data of|host code|宿主|该 step)", line)
    ]
    assert [re.findall(r"`(\w+)`", row.split("|")[1]) for row in rows] == [
        [part.stage] * bool(part.stage) for part in FLOW
    ]
    for row in rows:
        for key in re.findall(r"`(\w+)`", row.split("|")[2]):
            if key != "log_prob":  # it belongs to two parts, by what else was saved
                at = rows.index(row)
                assert part_of_key(key, frozenset(map(plain, ("old_log_prob",))))[0] == at, key


def test_the_stages_are_those_of_the_roots():
    assert {part.stage for part in FLOW} == {"", *STAGES}
