"""Folders of monitors that are damaged, or were tampered with: what could not be judged is never a pass.

The exit code is 0 where everything was judged and is fine, 1 where something is wrong or could not be judged, with the
count in the last line, and 2 where nothing could be judged.
"""

import csv
import json
import os

import pytest
from dense_training import train, write

from msprobe.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.part(6)]

KINDS = (
    "actv",
    "actv_grad",
    "grad_unreduced",
    "grad_reduced",
    "exp_avg",
    "exp_avg_sq",
    "param_origin",
    "param_updated",
)


@pytest.fixture(scope="module")
def runs(golden):
    return {"golden": golden, "clean": train(order=1)}


@pytest.fixture(params=["equal", "within the band"])
def sides(request, runs, tmp_path):
    """Two folders without any difference, or with rounding alone."""
    write(runs["golden"], tmp_path / "b")
    write(runs["golden" if request.param == "equal" else "clean"], tmp_path / "a")
    return tmp_path / "a", tmp_path / "b"


def answer(sides, capsys, *options):
    """The exit code, the last line and the JSON document, which agree."""
    words = ["monitor", "compare", *map(str, sides)]
    code = main([*words, *options])
    out = capsys.readouterr().out.splitlines()
    if code == 2 and not out:
        return 2, "", None
    assert main([*words, *options, "--format", "json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"], found["exit_code"]) == (out[-1], code)
    assert (found["state"] == "clean") == (code == 0)
    for each in found["not_judged"]:
        assert f"{each['number']} " in out[-1]
    return code, out[-1], found


def table(root, kind="grad_reduced", rank=0):
    (path,) = root.glob(f"*-rank{rank}-*/{kind}_0-*.csv")
    return path


def edited(path, change):
    """Change rows, which are dictionaries; `change` returns the rows to write for each."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        names, rows = reader.fieldnames, [one for row in reader for one in change(row)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else names, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def numbers(row):
    return [name for name in row if name not in ("vpp_stage", "name", "step", "micro_step", "shape", "dtype")]


def without_numbers_from(step, text="nan", columns=None):
    def change(row):
        if int(row["step"]) >= step:
            row.update(dict.fromkeys(columns or numbers(row), text))
        return [row]

    return change


def reasons(found):
    return {each["reason"]: each["number"] for each in found["not_judged"]}


def test_what_is_whole_passes(sides, capsys):
    code, line, found = answer(sides, capsys)
    assert (code, found["not_judged"]) == (0, [])
    assert "not judged" not in line


@pytest.mark.sample(6)
@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e400", ""])
@pytest.mark.parametrize("step", [3, 40])
def test_numbers_that_are_not_finite_on_both_sides_are_not_judged(step, text, sides, capsys):
    for side in sides:
        edited(table(side), without_numbers_from(step, text))
    code, line, found = answer(sides, capsys)
    assert (code, found["findings"]) == (1, [])
    assert reasons(found) == {"not_finite": (80 - step) * 6 * 4}
    assert "not judged: " in line


def test_a_run_of_numbers_that_are_not_finite_alone_is_not_judged_at_all(sides, capsys):
    for side in sides:
        for kind in KINDS:
            for rank in range(2):
                edited(table(side, kind, rank), without_numbers_from(0))
    code, line, _ = answer(sides, capsys)
    assert code == 2
    assert line.startswith("unjudged: no number is finite on both sides")


@pytest.mark.sample(16)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("text", ["nan", "inf"])
@pytest.mark.parametrize("columns", [None, ["min"], ["norm"]])
@pytest.mark.parametrize("step", [0, 3, 40, 79])
def test_numbers_that_are_not_finite_on_one_side_are_the_first_divergence(step, columns, text, side, sides, capsys):
    """Also in the steps that the band is learned from, and in statistics that are not judged otherwise."""
    edited(table(sides[side], "grad_unreduced"), without_numbers_from(step, text, columns))
    code, line, found = answer(sides, capsys)
    (first,) = found["findings"]
    assert (code, first["place"]["step"], first["fields"]["kind"]) == (1, step, "grad_unreduced")
    assert f"{text} for " in line if side == 0 else f"for {text}" in line


@pytest.mark.slow
def test_with_a_clean_pair_too(sides, runs, tmp_path, capsys):
    write(runs["clean"], tmp_path / "c")
    options = ("--calibrate", str(tmp_path / "c"))
    assert answer(sides, capsys, *options)[0] == 0
    edited(table(tmp_path / "c", "exp_avg"), lambda row: [row] if int(row["step"]) < 60 else [])
    code, _, found = answer(sides, capsys, *options)
    if not found["findings"] and "no_band" not in reasons(found):
        assert code == 0, "equal numbers need no band"
    else:
        assert code == 1
    edited(table(tmp_path / "c", "param_origin"), without_numbers_from(2))
    edited(table(sides[0], "param_origin"), without_numbers_from(50))
    code, _, found = answer(sides, capsys, *options)
    assert (code, found["findings"][0]["place"]["step"]) == (1, 50)


def cut(keep):
    def damage(path):
        data = path.read_bytes()
        path.write_bytes(keep(data))

    return damage


def header_of(data):
    return data[: data.index(b"\n") + 1]


def half_a_row(data):
    at = data.index(b"\n", len(data) // 2)
    return data[: at + 12]


def replaced(old, new):
    return cut(lambda data: data.replace(old, new))


def bits_flipped(data):
    return bytes(byte ^ 0x55 if at % 7 == 3 else byte for at, byte in enumerate(data))


def a_folder_instead(path):
    path.unlink()
    path.mkdir()


def a_dead_link(path):
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


DAMAGE = {
    "empty": cut(lambda _: b""),
    "part of the header": cut(lambda data: data[:10]),
    "header without line end": cut(lambda data: header_of(data)[:-1]),
    "header only": cut(header_of),
    "half a row": cut(half_a_row),
    "whole rows to the half": cut(lambda data: data[: data.index(b"\n", len(data) // 2) + 1]),
    "last byte": cut(lambda data: data[:-1]),
    "no header": cut(lambda data: data[len(header_of(data)) :]),
    "binary garbage": cut(lambda data: os.urandom(len(data))),
    "zeros": cut(lambda data: bytes(len(data))),
    "garbage in the middle": cut(lambda data: data[:500] + os.urandom(300) + data[800:]),
    "bits flipped": cut(bits_flipped),
    "UTF-16": cut(lambda data: data.decode().encode("utf-16")),
    "semicolons": replaced(b",", b";"),
    "text in number cells": lambda path: edited(path, without_numbers_from(40, "abc")),
    "no step": lambda path: edited(path, lambda row: [{**row, "step": "x" if row["step"] == "40" else row["step"]}]),
    "huge micro steps": lambda path: edited(path, lambda row: [{**row, "micro_step": str(9 * 10**18)}]),
    "another step": lambda path: edited(
        path, lambda row: [{**row, "step": "900" if row["step"] == "40" else row["step"]}]
    ),
    "a step missing": lambda path: edited(path, lambda row: [row] if row["step"] != "40" else []),
    "a row missing": lambda path: edited(
        path, lambda row: [] if (row["step"], row["name"].rpartition(".")[0]) == ("40", "head") else [row]
    ),
    "a target missing": lambda path: edited(path, lambda row: [row] if not row["name"].startswith("head") else []),
    "rows twice": lambda path: edited(path, lambda row: [row, row] if row["step"] == "40" else [row]),
    "rows again with other numbers": lambda path: edited(
        path, lambda row: [{**row, "norm": "7"}, row] if row["step"] == "40" else [row]
    ),
    "a column missing": lambda path: edited(path, lambda row: [{k: v for k, v in row.items() if k != "max"}]),
    "other columns": lambda path: edited(
        path, lambda row: [{("other" if k == "norm" else k): v for k, v in row.items()}]
    ),
    "a column more": lambda path: edited(path, lambda row: [{**row, "more": "text"}]),
    "names changed": lambda path: edited(path, lambda row: [{**row, "name": f"x{row['name']}x"}]),
    "file missing": lambda path: path.unlink(),
    "a folder instead": a_folder_instead,
    "a dead link": a_dead_link,
    "a kind that is not known": lambda path: path.rename(path.with_name("other_kind_0-79.csv")),
    "all files missing": lambda path: [each.unlink() for each in list(path.parent.iterdir())],
    "a rank missing": lambda path: [*(each.unlink() for each in list(path.parent.iterdir())), path.parent.rmdir()],
    "event files instead": lambda path: [
        each.rename(each.with_name(f"events.out.tfevents.{at}")) for at, each in enumerate(list(path.parent.iterdir()))
    ],
}

HARMLESS = {
    "rows in another order": cut(
        lambda data: header_of(data) + b"".join(sorted(data.splitlines(keepends=True)[1:], reverse=True))
    ),
    "other line ends": replaced(b"\n", b"\r\n"),
    "a byte order mark": cut(lambda data: b"\xef\xbb\xbf" + data),
    "columns in another order": lambda path: edited(path, lambda row: [dict(reversed(row.items()))]),
}


BY_DESIGN = (
    *("header without line end", "a step missing", "another step", "a row missing", "a target missing"),
    *("a column missing", "other columns", "names changed", "file missing"),
    *("whole rows to the half", "a rank missing"),
)
"""Damage of both sides alike that leaves two whole monitors, as far as the files can tell."""

CASES = [(case, "one side") for case in DAMAGE] + [(case, "both sides") for case in DAMAGE if case not in BY_DESIGN]


@pytest.mark.sample(15)
@pytest.mark.parametrize("kind", ["grad_reduced", "actv"])
@pytest.mark.parametrize(("case", "where"), CASES)
def test_damage_never_passes(case, where, kind, sides, capsys):
    for side in sides if where == "both sides" else sides[:1]:
        DAMAGE[case](table(side, kind, rank=1))
    code, line, found = answer(sides, capsys)
    assert code == 1, line
    assert found["findings"] or found["not_judged"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", HARMLESS)
def test_what_can_be_read_all_the_same_passes(case, sides, capsys):
    for kind in KINDS:
        HARMLESS[case](table(sides[0], kind))
    assert answer(sides, capsys)[0] == 0


def test_ranks_and_folders(sides, tmp_path, capsys):
    only = tmp_path / "only"
    only.mkdir()
    os.rename(sides[0] / table(sides[0], rank=0).parent.name, only / table(sides[0], rank=0).parent.name)
    code, line, found = answer((only, sides[1]), capsys)
    assert (code, reasons(found)) == (1, {"rank": 1})
    assert "1 ranks that one side alone has" in line
    empty = tmp_path / "empty"
    empty.mkdir()
    assert answer((empty, sides[1]), capsys)[0] == 2
    (empty / "Jan02_03-04-05-rank0-0123abc0").mkdir()
    assert answer((empty, sides[1]), capsys)[0] == 2
    assert answer((sides[1], empty), capsys)[0] == 2


def test_what_the_monitor_could_not_measure_is_counted(sides, capsys):
    """Also where both sides lack it, so that no row is missing on one of them."""
    for side in sides:
        (table(side).parent / "lost.csv").write_text("step,what,reason\n3,the gradients,no memory\n5,the loss,none\n")
    code, line, found = answer(sides, capsys)
    assert (code, reasons(found)) == (1, {"files": 4})
    assert any("lost.csv" in note for note in found["notes"])
    assert "4 faults of the files" in line


def test_huge_numbers_are_judged(sides, capsys):
    def huge(row):
        return [{**row, **{name: f"{float(row[name]):.6e}".partition("e")[0] + "e307" for name in numbers(row)}}]

    for side in sides:
        edited(table(side, "exp_avg_sq"), huge)
    code, _, found = answer(sides, capsys)
    assert code in (0, 1)
    assert reasons(found) == {}
    assert (code == 1) == bool(found["findings"])
    edited(table(sides[0], "exp_avg_sq"), lambda row: [{**row, "norm": "1e308"} if row["step"] == "50" else row])
    code, _, found = answer(sides, capsys)
    assert code == 1
    assert found["findings"][0]["place"]["step"] <= 50


def test_too_few_steps_are_not_judged(runs, tmp_path, capsys):
    few = {
        name: {
            rank: {kind: [r for r in rows if r[0] < 9] for kind, rows in kinds.items()} for rank, kinds in run.items()
        }
        for name, run in runs.items()
    }
    write(few["clean"], tmp_path / "a")
    write(few["golden"], tmp_path / "b")
    code, line, _ = answer((tmp_path / "a", tmp_path / "b"), capsys)
    assert code == 2
    assert line.startswith("unjudged: too few steps")


def test_exit_zero_is_for_differences_alone(sides, tmp_path, capsys):
    DAMAGE["empty"](table(sides[0]))
    assert main(["monitor", "compare", *map(str, sides), "--exit-zero"]) == 0
    (tmp_path / "none").mkdir()
    assert main(["monitor", "compare", str(tmp_path / "none"), str(sides[1]), "--exit-zero"]) == 2
    capsys.readouterr()
