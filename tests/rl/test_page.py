"""The code of docs/en/how-to/collecting/rl-flows.md leaves what the page shows, in both languages."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="the page trains with it")

from msprobe.mindspore import PrecisionDebugger
from msprobe.rl.settings import SWITCHES, FlowSettings  # only where the framework is

pytestmark = pytest.mark.mindspore

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page):
    """The code blocks of a page without what is said behind code, and in what language each is."""
    found = re.findall(r"^```(\w*)\n(.*?)^```\n", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [(language, re.sub(r" *#.*$", "", text, flags=re.MULTILINE)) for language, text in found]


def test_the_page_shows_what_its_code_leaves():
    (_, flow), (_, of_flow), (_, stages), (_, of_stages) = blocks("en/how-to/collecting/rl-flows.md")
    exec(flow, {"__name__": "page"})  # the framework asks functions for their module
    try:
        exec(stages, {"__name__": "page"})
    finally:
        PrecisionDebugger._known.clear()
        PrecisionDebugger._latest = None
    left = sorted(str(p) for folder in ("run", "stages") for p in Path(folder).rglob("*") if p.is_file())
    assert [name for name in left if "dump_tensor_data" not in name] == of_flow.split() + of_stages.split()
    tensors = [name for name in left if "dump_tensor_data" in name]
    assert tensors
    assert all(name.startswith("stages/update/") and "relu" in Path(name).name for name in tensors)
    text = np.load("run/data/generated_text/step1/rank0/generated_text_uint8_5.npy")
    assert bytes(text).decode() == "second answer"
    update = json.loads(Path("run/actor_update/step1/rank0/dump.json").read_text())
    assert update["level"] == "mix"
    assert "Cell.0.Dense.parameters_grad" in update["data"]


def test_both_languages_show_the_same():
    assert blocks("zh/how-to/collecting/rl-flows.md") == blocks("en/how-to/collecting/rl-flows.md")


@pytest.mark.parametrize("page", ["en/how-to/collecting/rl-flows.md", "zh/how-to/collecting/rl-flows.md"])
def test_the_page_names_every_field_and_stage(page):
    text = (DOCS / page).read_text()
    assert [name for name in (*FlowSettings.__dataclass_fields__, *SWITCHES) if f"`{name}`" not in text] == []
