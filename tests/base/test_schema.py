"""The table of statistics, and what is generated from it."""

import importlib.util
import math
from pathlib import Path

import pytest

from msprobe.base import schema

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generated_statistics", ROOT / "docs" / "statistics.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_keys_of_format_version_1():
    assert schema.KEYS == ("Max", "Min", "Mean", "Norm")
    assert [each.key for each in schema.COUNTS] == [
        "true_count",
        "nan_count",
        "positive_inf_count",
        "negative_inf_count",
    ]
    assert schema.DIGEST.key == "md5"


def test_names_and_keys_are_unique():
    for of in ("name", "key"):
        found = [getattr(each, of) for each in schema.STATISTICS]
        assert len(set(found)) == len(found)


def test_the_members_of_a_record():
    assert schema.members(("1.0", "0.0", "0.5", "NaN")) == '"Max":1.0,"Min":0.0,"Mean":0.5,"Norm":NaN'


def test_the_c_header_is_the_table(generator):
    assert generator.HEADER.read_text("utf-8") == schema.c_header(), "run `python docs/statistics.py`"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_docs_have_the_table(generator, language):
    page = (ROOT / "docs" / language / "reference" / "format.md").read_text("utf-8")
    assert generator.page(language) == page, "run `python docs/statistics.py`"
    assert all(f"\n| `{each.key}` | " in page for each in schema.STATISTICS)


@pytest.mark.parametrize(
    ("how", "numbers", "sizes", "whole"),
    [
        ("max", [1.0, 4.0, -2.0], [1, 1, 1], 4.0),
        ("min", [1.0, 4.0, -2.0], [1, 1, 1], -2.0),
        ("mean", [1.0, 4.0], [3, 1], 1.75),
        ("mean", [0.0, 0.0], [0, 0], 0.0),
        ("mean", [math.inf, -math.inf], [1, 1], math.nan),
        ("norm", [3.0, 4.0], [9, 1], 5.0),
    ],
)
def test_the_statistic_of_a_tensor_follows_from_those_of_its_parts(how, numbers, sizes, whole):
    assert schema.merge(how, numbers, sizes) == pytest.approx(whole, abs=0, nan_ok=True)


def test_a_statistic_that_is_lost_has_no_merge():
    with pytest.raises(ValueError, match="none"):
        schema.merge("none", [1.0], [1])
