"""Whatever two dumps look like, the comparison answers, and its answers fit together."""

import random
from dataclasses import replace

import pytest

from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.compare.tables.columns import columns_of
from msprobe.compare.tables.console import lines
from msprobe.compare.tables.rows import rows
from msprobe.store.reader import read

SAMPLES = ["ms_mix_stat", "ms_L0_stat", "ms_L1_stat", "msp_mix_stat", "pt_mix_stat", "ms_mix_md5"]


def shaken(dump, draw):
    """The dump with calls and records left out, doubled under another number, moved, or changed."""
    calls = []
    for call in dump.calls:
        fate = draw.random()
        if fate < 0.05:
            continue
        records = []
        for record in call.records:
            luck = draw.random()
            if luck < 0.02:
                continue
            if luck < 0.06 and record.statistics is not None:
                worse = replace(record.statistics, mean=draw.choice([float("nan"), 1e30, None, 0.0]))
                record = replace(record, statistics=worse)
            elif luck < 0.08:
                record = replace(record, shape=(3, 3), dtype="Float16")
            elif luck < 0.10:
                record = replace(record, gradient=draw.choice(["accumulated", "unavailable"]))
            elif luck < 0.12:
                record = replace(
                    record, source=draw.choice(["leaf", "code", "parameter x", "call Mint.mean.0.forward.output.0"])
                )
            elif luck < 0.14:
                record = replace(record, statistics=None)
            elif luck < 0.16:
                record = replace(record, kind="value", value=draw.choice([1, "=x", None, 2.5]), statistics=None)
            records.append(record)
        calls.append(replace(call, records=tuple(records)))
        if fate > 0.95:
            calls.append(replace(calls[-1], name=call.name.replace(".0.", f".{draw.randrange(5, 9)}.")))
    if draw.random() < 0.2:
        draw.shuffle(calls)
    return replace(dump, calls=tuple({call.name: call for call in calls}.values()))


@pytest.fixture(scope="module")
def dumps(samples):
    return [read(samples / "8.1.1" / "dumps" / name / "step0") for name in SAMPLES]


@pytest.mark.sample(50)
@pytest.mark.parametrize("seed", range(150))
def test_an_answer_for_every_pair(dumps, seed):
    draw = random.Random(seed)
    target, golden = (shaken(draw.choice(dumps), draw) for _ in "tg")
    comparison = compare(target, golden)
    located = locate(comparison)

    assert sum(comparison.counts.values()) == sum(len(call.judged) for call in comparison.calls)
    for side in ("target", "golden"):
        there = [r.name for c in comparison.calls for j in c.judged if (r := getattr(j.pair, side))]
        assert sorted(there) == sorted(r.name for c in getattr(comparison, side).calls for r in c.records)
    assert [c.calls.target.name for c in comparison.calls if c.calls.target] == [c.name for c in target.calls]

    width = len(columns_of(comparison, True))
    assert all(len(row) == width for row in rows(comparison, located, True))

    last = list(lines(comparison, located, 3))[-1]
    nothing = "no difference: " if comparison.is_clean else "no difference in what could be judged: "
    assert last.startswith(("first wrong call: ", nothing))
    if comparison.counts["error"] or comparison.counts["warning"]:
        assert last.startswith("first wrong call: ")
    if located.findings and any(f.grade != "pass" for f in located.findings):
        assert not comparison.is_clean
    assert all("\n" not in line for line in lines(comparison, located, 3))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_dump_against_itself_is_clean(dumps, name):
    dump = dumps[SAMPLES.index(name)]
    comparison = compare(dump, dump)
    assert comparison.is_clean
    assert locate(comparison).findings == ()
