"""The column Result of digests says of every pair what is known: equal, different, or nothing."""

import json

import numpy as np
import pytest

from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.compare.tables.columns import columns
from msprobe.compare.tables.rows import rows
from msprobe.store.reader import read

EXP = "Mint.exp.0.forward"
STATISTICS = ("Max", "Min", "Mean", "Norm")


@pytest.fixture
def row_without(builder):
    """`row_without(keys, *sides, shift=0.0)`: the row of a result that is `shift` off; some sides lack keys of it."""

    def make(keys, *sides, shift=0.0):
        dumps = []
        for side, array in (("target", np.ones(3, np.float32) + np.float32(shift)), ("golden", np.ones(3, np.float32))):
            folder = builder(side, mode="digest").call(EXP, [1.0], [array]).write()
            text = json.loads((folder / "dump.json").read_text())
            for key in keys if side in sides else ():
                del text["data"][EXP]["output"][0][key]
            (folder / "dump.json").write_text(json.dumps(text))
            dumps.append(read(folder))
        comparison = compare(*dumps)
        assert comparison.mode == "digest"
        titles = [column.title for column in columns("digest", with_stack=False)]
        return dict(zip(titles, list(rows(comparison, locate(comparison), False))[1], strict=True))

    return make


BOTH = ("target", "golden")


@pytest.mark.parametrize("sides", [("target",), ("golden",), BOTH])
def test_without_a_digest_statistics_decide_for_the_word_too(row_without, sides):
    row = row_without(["md5"], *sides)
    assert (row["Verdict"], row["Result"]) == ("pass", "pass")
    row = row_without(["md5"], *sides, shift=1.0)
    assert (row["Verdict"], row["Result"]) == ("error", "Different")


@pytest.mark.parametrize("sides", [("target",), ("golden",), BOTH])
def test_where_nothing_is_known_nothing_is_said_to_differ(row_without, sides):
    row = row_without(["md5", *STATISTICS], *sides)
    assert (row["Verdict"], row["Result"]) == ("unjudged", "N/A")


def test_digests_of_two_kinds_have_no_word_but_what_statistics_show(builder):
    for amount, verdict, word in ((1.0, "unjudged", "N/A"), (1.5, "error", "Different")):
        sides = (("target", "crc32c", amount), ("golden", "digest", 1.0))
        dumps = [builder(side, mode=kind).call(EXP, [1.0], [value]).dump() for side, kind, value in sides]
        comparison = compare(*dumps)
        titles = [column.title for column in columns("digest", with_stack=False)]
        row = dict(zip(titles, list(rows(comparison, locate(comparison), False))[1], strict=True))
        assert (row["Verdict"], row["Result"]) == (verdict, word)
        assert row["NPU MD5"].startswith("crc32c:")


def test_two_digests_are_held_against_each_other(row_without):
    assert row_without([], shift=1.0)["Result"] == "Different"
    assert row_without([])["Result"] == "pass"
