"""The code of docs/en/how-to/collecting/kernel-dump.md does what the page says, and stands in both languages."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from preloaded import python

pytestmark = pytest.mark.mindspore

DOCS = Path(__file__).parents[2] / "docs"


def code(page):
    """The Python of a page without comments; it has one block."""
    (found,) = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return re.sub(r"\s*#.*$", "", found, flags=re.MULTILINE)


def test_both_languages_have_the_same_code():
    assert code("zh/how-to/collecting/kernel-dump.md") == code("en/how-to/collecting/kernel-dump.md")


def test_the_training_of_the_page_dumps_its_kernels(tmp_path):
    (tmp_path / "train.py").write_text(code("en/how-to/collecting/kernel-dump.md"))
    done = subprocess.run(
        [python("mindspore"), "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "GLOG_v": "3"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    root = tmp_path / "kernels"
    assert sorted(f.name for f in root.iterdir() if not f.name.startswith(".")) == ["kernel_kbyk_dump.json", "rank_0"]
    assert sorted(f.name for f in (root / "rank_0/Net/0").iterdir()) == ["0", "2"]
    named = re.compile(r"\w+\.[\w-]+(\.[\w-]+)*\.\d+\.\d+\.\d{16}\.(input|output)\.\d+\.DefaultFormat\.\w+\.npy")
    files = [f.name for f in (root / "rank_0/Net/0/0").iterdir()]
    assert len(files) > 20
    assert [name for name in files if not named.fullmatch(name) and not name.startswith("Parameter.")] == []
    order = (root / "rank_0/execution_order/ms_execution_order_graph_0.csv").read_text().splitlines()
    assert "Default/network-Net/fc-Dense/MatMul-op0" in order
    assert "# In file" in (root / "rank_0/graphs/ms_output_trace_code_graph_0.ir").read_text()
