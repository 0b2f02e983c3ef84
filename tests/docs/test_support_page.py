"""docs/*/reference/support.md: every row about a path that only a device has says that it was not run there."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

SAID = {"en": "not run on Ascend", "zh": "未在 Ascend 上运行"}

COMMON_MARKS = ("Ascend", "NPU", "HCCL", "TensorDump", "MSAdapter", "kernel dump")
MARKS = {
    "en": (*COMMON_MARKS, "a device", "graph mode", "a CPU does not"),
    "zh": (*COMMON_MARKS, "设备", "图模式", "CPU 没有的"),
}
"""Words of a row whose path exists on Ascend: kernels, graphs, collectives, PyTorch's API on MindSpore, devices."""

OF_A_CPU = {
    "en": ("Collectives on a CPU", "Kernels that are wrong"),
    "zh": ("CPU 上的集合通信", "有误的 kernel"),
}
"""Sections whose headings say that their rows are about a CPU."""


def rows(language):
    """The rows of tables, items of lists and paragraphs of the page, outside of the sections about a CPU."""
    text = (DOCS / language / "reference" / "support.md").read_text(encoding="utf-8")
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if heading.strip() in OF_A_CPU[language]:
            continue
        for block in re.split(r"\n\n|\n(?=[-|] ?)", body):
            found.append(" ".join(block.split()))
    return [row for row in found if row]


def is_marked(row, language):
    return any(mark.lower() in row.lower() for mark in MARKS[language])


def says_so(row, language):
    return SAID[language].lower() in row.lower()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_row_about_a_path_of_a_device_says_that_it_was_not_run_there(language):
    assert [row for row in rows(language) if is_marked(row, language) and not says_so(row, language)] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_other_row_says_so(language):
    assert [row for row in rows(language) if says_so(row, language) and not is_marked(row, language)] == []


def test_both_languages_say_it_of_as_many_rows():
    counts = [sum(says_so(row, language) for row in rows(language)) for language in ("en", "zh")]
    assert counts[0] == counts[1] >= 20


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_sections_about_a_cpu_are_on_the_page(language):
    text = (DOCS / language / "reference" / "support.md").read_text(encoding="utf-8")
    assert all(f"## {heading}\n" in text for heading in OF_A_CPU[language])
