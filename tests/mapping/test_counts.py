"""The counts in the documentation are those of the table."""

import importlib.util
from pathlib import Path

from msprobe.mapping.api import load_table, read_table

_spec = importlib.util.spec_from_file_location("counted", Path(__file__).parent / "counted.py")
counted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(counted)

PAGE = Path(__file__).parents[2] / "docs" / "en/reference/mapping-table.md"


def test_names_are_counted_by_family():
    entries = {
        "Mint.a": {"pt": ["Torch.a", "Tensor.a"]},
        "Mint.b": [{"pt": "Torch.b", "unverified": "no kernel"}, {"pt": "Tensor.b"}],
        "Mint.c": {"pt": "Torch.c", "unverified": "no kernel"},
        "MintDistributed.d": {"pt": "Distributed.d", "unverified": "ranks"},
        "Distributed.d": {"pt": "Distributed.d", "unverified": "ranks"},
    }
    rows = counted.counted(read_table(entries, {"Mint.e": "no twin", "Tensor.f": "no twin"}))
    assert rows["mint"] == (3, 2, 1, 1)
    assert rows["mint.distributed, communication"] == (2, 0, 2, 0)
    assert rows["Tensor"] == (0, 0, 0, 1)


def test_no_name_is_left_out_of_the_counts():
    table = load_table()
    rows = counted.counted(table).values()
    assert sum(row[0] for row in rows) == len(table.entries)
    assert sum(row[3] for row in rows) == len(table.without)


def test_the_page_has_the_counts():
    assert counted.markdown(load_table()) in PAGE.read_text(encoding="utf-8")
