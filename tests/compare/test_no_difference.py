"""The last line of a comparison that saw no difference: plain only where all is clean, as the exit code says."""

import pytest

from msprobe.cli import main

EXP, SIN = "Mint.exp.0.forward", "Mint.sin.0.forward"


@pytest.fixture
def last(builder, tmp_path, capsys):
    """`last(change, *calls)`: exit code and last line; the target, of these calls, is changed before it is compared."""

    def make(change, *calls):
        target, golden = builder("target", mode="tensor"), builder("golden", mode="tensor")
        for side, names in ((target, calls), (golden, (EXP, SIN))):
            for name in names:
                side.call(name, [1.0], [2.0])
        folders = target.write(), golden.write()
        change(folders[0])
        code = main(["compare", *map(str, folders), "-o", str(tmp_path / "out"), "--format", "csv"])
        return code, capsys.readouterr().out.splitlines()[-1]

    return make


def test_a_clean_pair_has_no_difference(last):
    assert last(lambda folder: None, EXP, SIN) == (0, "no difference: 4 pairs judged, 0 unjudged")


def test_a_tensor_that_is_missing_may_hold_one(last):
    def change(folder):
        (folder / "dump_tensor_data" / f"{SIN}.output.0.npy").unlink()

    assert last(change, EXP, SIN) == (1, "no difference in what could be judged: 3 pairs judged, 1 unjudged")


def test_a_target_that_holds_no_calls_is_no_proof(last):
    assert last(lambda folder: None) == (1, "no difference in what could be judged: 0 pairs judged, 4 unjudged")
