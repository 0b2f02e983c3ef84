"""The last line of a comparison that saw no difference: plain only where all is clean, as the exit code says."""

import csv
import json

import numpy as np
import pytest

from msprobe.cli import main

UNREADABLE = "1 in files that are missing or cannot be read"
EXP, SIN = "Mint.exp.0.forward", "Mint.sin.0.forward"
KERNEL = "MatMul.Default_{}_MatMul-op0.1.2.3.output.0.ND.float32.npy"


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

    assert last(change, EXP, SIN) == (1, "no difference in what could be judged: 3 pairs judged, 1 not: " + UNREADABLE)


def test_a_target_that_holds_no_calls_is_no_proof(last):
    message = "no difference in what could be judged: 0 pairs judged, 4 not: 4 not collected on one side"
    assert last(lambda folder: None) == (2, message)


def test_digests_against_statistics_leave_most_unjudged(builder, tmp_path, capsys):
    """The target is wrong, and nothing could show it: not clean, whatever else agrees."""
    target, golden = builder("target"), builder("golden", mode="digest")
    for side, result in ((target, 9.0), (golden, 2.0)):
        for name in (EXP, SIN):
            side.call(name, [1.0], [result], kwargs={"value": None})
    folders = [side.write() for side in (target, golden)]
    text = json.loads((folders[1] / "dump.json").read_text())
    for call in text["data"].values():
        for record in (*call["input_args"], *call["output"]):
            for key in ("Max", "Min", "Mean", "Norm"):
                del record[key]
    (folders[1] / "dump.json").write_text(json.dumps(text))
    assert main(["compare", *map(str, folders), "-o", str(tmp_path / "out"), "--format", "json"]) == 1
    printed = capsys.readouterr().out.splitlines()
    why = "4 with digests on one side and statistics on the other"
    assert any(f"only 2 of 6 pairs could be judged: {why}" in line for line in printed)
    assert printed[-1] == f"no difference in what could be judged: 2 pairs judged, 4 not: {why}"
    whole = json.loads(next((tmp_path / "out").glob("*.json")).read_text())
    (cause,) = whole["unjudged"]
    assert (cause["cause"], cause["pairs"], cause["is_exempt"]) == ("digest_against_statistics", 4, False)


def test_uninitialised_memory_is_exempt(builder, tmp_path, capsys):
    folders = []
    for side, memory in (("target", 7.0), ("golden", 3.0)):
        folders.append(builder(side).call("Mint.empty.0.forward", [], [memory]).call(EXP, [1.0], [2.0]).write())
    assert main(["compare", *map(str, folders), "-o", str(tmp_path / "out"), "--format", "csv"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert any("unjudged: 1 of unused values (exempt)" in line for line in printed)
    assert printed[-1] == "no difference: 2 pairs judged, 1 unjudged"


@pytest.mark.parametrize("name", ["Tensor.uniform_.0.forward", "Aten.copy_.0.forward", "Tensor.zero_.3.forward"])
def test_what_a_filled_tensor_held_before_is_exempt(name, builder, tmp_path, capsys):
    """`torch.empty(3).uniform_()`: the other inputs and the outputs of such a call are judged as ever."""

    def compared(memory, source, result):
        folders = []
        for side in (0, 1):
            folder = builder(f"{len(list(tmp_path.iterdir()))}")
            folders.append(folder.call(name, [memory[side], source[side]], [result[side]]).write())
        code = main(["compare", *map(str, folders), "-o", str(tmp_path / "out"), "--format", "csv"])
        return code, capsys.readouterr().out.splitlines()

    code, output = compared((7.0, 3.0), (1.0, 1.0), (2.0, 2.0))
    assert (code, output[-1]) == (0, "no difference: 2 pairs judged, 1 unjudged")
    assert any("unjudged: 1 of unused values (exempt)" in line for line in output)
    for source, result in (((1.0, 5.0), (2.0, 2.0)), ((1.0, 1.0), (2.0, 5.0))):
        code, output = compared((7.0, 3.0), source, result)
        assert code == 1
        assert any(line.startswith("first wrong call") for line in output)


@pytest.mark.parametrize("kind", ["npy", "kernels"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_truncated_file_is_no_difference_and_no_proof(kind, side, tmp_path, capsys):
    """Of a tree of npy files and of a raw kernel dump, whose shapes stand in the files alone."""
    names = {"npy": ["a.npy", "b.npy"], "kernels": [KERNEL.format(n) for n in "ab"]}
    folders = [tmp_path / name / ("0" if kind == "npy" else "0/graph/0/0") for name in ("target", "golden")]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in names[kind]:
            np.save(folder / name, np.ones((4, 4), np.float32))
    cut = folders[side] / names[kind][0]
    cut.write_bytes(cut.read_bytes()[:-7])
    code = main(
        [
            "compare",
            *(str(tmp_path / name) for name in ("target", "golden")),
            "-o",
            str(tmp_path / "out"),
            "--format",
            "csv",
        ]
    )
    printed = capsys.readouterr().out.splitlines()
    assert (code, printed[-1]) == (1, f"no difference in what could be judged: 1 pairs judged, 1 not: {UNREADABLE}")
    with open(next((tmp_path / "out").rglob("*.csv")), newline="", encoding="utf-8") as file:
        rows = {row["Verdict"]: row["Reason"] for row in csv.DictReader(file)}
    assert rows.keys() == {"pass", "unjudged"}
    assert cut.name in rows["unjudged"]
