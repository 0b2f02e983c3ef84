"""Calls that only move elements round nothing: a difference of the last bit is one."""

import pytest

from msprobe.cli import main


@pytest.mark.parametrize(("function", "code"), [("Tensor.__getitem__", 1), ("Mint.exp", 0)])
def test_a_last_bit_is_wrong_where_elements_are_only_moved(function, code, builder, tmp_path, capsys):
    for side, value in (("t", 2.0 + 2**-22), ("g", 2.0)):
        made = builder(side)
        made.call("Mint.neg.0.forward", [1.0], [-1.0])
        made.call(f"{function}.0.forward", [-1.0], [value])
        made.write()
    assert main(["compare", str(tmp_path / "t"), str(tmp_path / "g"), "-o", str(tmp_path / "o")]) == code
    answer = capsys.readouterr().out.splitlines()[-1]
    if code:
        assert answer.startswith(f"first wrong call: {function}.0.forward in the root: computes differently")
    else:
        assert answer.startswith("no difference beyond rounding")
